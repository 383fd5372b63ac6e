//! The golden file of `scripts/reference/augment.py`, and operations by timm's names.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use image::RgbImage;
use safetensors::SafeTensors;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Context, Draw, OpName};
use crate::augment::Interpolation;

/// A file with images and lists of cases.
pub(crate) struct Golden {
    bytes: Vec<u8>,
}

/// A draw in the script's format.
#[derive(Debug, Deserialize)]
pub(crate) struct DrawCase {
    name: String,
    magnitude: f64,
    negative: bool,
    bilinear: bool,
    share: f64,
}

impl Golden {
    /// The committed file, or the file named by `KVT_AUGMENT_GOLDEN`.
    pub(crate) fn open() -> Self {
        let committed = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/golden/augment.safetensors"
        );
        let path = std::env::var_os("KVT_AUGMENT_GOLDEN").unwrap_or_else(|| committed.into());
        Self {
            bytes: fs_err::read(path).unwrap(),
        }
    }

    /// A list of cases, or `config`.
    pub(crate) fn list<T: DeserializeOwned>(&self, name: &str) -> T {
        let (_, header) = SafeTensors::read_metadata(&self.bytes).unwrap();
        let metadata = header.metadata().as_ref().unwrap();
        serde_json::from_str(&metadata[name]).unwrap()
    }

    /// An image.
    pub(crate) fn image(&self, name: &str) -> RgbImage {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let tensor = file.tensor(name).unwrap();
        let &[height, width, 3] = tensor.shape() else {
            panic!("{name} is not an image");
        };
        RgbImage::from_raw(width as u32, height as u32, tensor.data().to_vec()).unwrap()
    }

    /// The image for the tests of chains and fits.
    pub(crate) fn chained(&self) -> RgbImage {
        let config: serde_json::Value = self.list("config");
        self.image(&format!("input.{}", config["chained"].as_str().unwrap()))
    }

    /// The fill colour for pixels outside a moved image.
    pub(crate) fn fill(&self) -> [u8; 3] {
        let config: serde_json::Value = self.list("config");
        std::array::from_fn(|channel| config["fill"][channel].as_u64().unwrap() as u8)
    }

    /// The context of the file's operations.
    pub(crate) fn context(&self, translate_share: f64) -> Context {
        Context {
            interpolation: Interpolation::Random,
            fill: self.fill(),
            translate_share,
        }
    }
}

impl DrawCase {
    pub(crate) fn is_known(&self) -> bool {
        NAMES.iter().any(|name| format!("{name:?}") == self.name)
    }

    pub(crate) fn draw(&self) -> Draw {
        Draw {
            name: *NAMES
                .iter()
                .find(|name| format!("{name:?}") == self.name)
                .unwrap(),
            magnitude: self.magnitude,
            is_negative: self.negative,
            is_bilinear: self.bilinear,
            share: self.share,
        }
    }
}

/// The largest difference between values, and the number of values that differ.
pub(crate) fn difference(a: &RgbImage, b: &RgbImage) -> (u8, usize) {
    assert_eq!(a.dimensions(), b.dimensions());
    let differences = || a.iter().zip(b.iter()).map(|(a, b)| a.abs_diff(*b));
    (
        differences().max().unwrap(),
        differences().filter(|d| *d > 0).count(),
    )
}

/// All operation names.
pub(crate) const NAMES: [OpName; 25] = [
    OpName::AutoContrast,
    OpName::Equalize,
    OpName::Invert,
    OpName::Rotate,
    OpName::Posterize,
    OpName::PosterizeIncreasing,
    OpName::PosterizeOriginal,
    OpName::Solarize,
    OpName::SolarizeIncreasing,
    OpName::SolarizeAdd,
    OpName::Color,
    OpName::ColorIncreasing,
    OpName::Contrast,
    OpName::ContrastIncreasing,
    OpName::Brightness,
    OpName::BrightnessIncreasing,
    OpName::Sharpness,
    OpName::SharpnessIncreasing,
    OpName::ShearX,
    OpName::ShearY,
    OpName::TranslateXRel,
    OpName::TranslateYRel,
    OpName::Desaturate,
    OpName::GaussianBlur,
    OpName::GaussianBlurRand,
];
