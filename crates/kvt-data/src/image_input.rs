//! One image file as the input of a model, for predictions; the images of a data set come by `source/read.rs` and the loader.

use std::path::Path;

use kvt_ops::Key;

use crate::augment::Transform;
use crate::batch::View;
use crate::decode::decode_raster;
use crate::{DataError, ImageLimits};

impl View {
    /// An image file, decoded and transformed as in an evaluation, which draws nothing.
    ///
    /// # Errors
    /// [`DataError::Decode`] if the file cannot be read, [`DataError::Augment`] if the image cannot be transformed, both with its path.
    pub fn of_file(
        path: &Path,
        limits: ImageLimits,
        transform: &Transform,
    ) -> Result<Self, DataError> {
        let image = decode_raster(path, limits)?;
        Self::of(image, transform, Key::new(0)).map_err(|error| error.at(path))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use image::{Rgba, RgbaImage};

    use super::*;
    use crate::augment::{AugmentConfig, CropMode, Preset};

    /// Two pixels by hand: levels as shares of 255, a plane for each channel; alpha for a model of four.
    #[test]
    fn a_file_becomes_one_normalised_image_or_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("two.png");
        let pixels = [Rgba([255, 0, 51, 102]), Rgba([0, 255, 204, 255])];
        RgbaImage::from_fn(2, 1, |x, _| pixels[x as usize])
            .save(&path)
            .unwrap();
        let all: [f32; 8] = [1.0, 0.0, 0.0, 1.0, 0.2, 0.8, 0.4, 1.0];
        for (channels, alpha) in [(3, false), (4, true)] {
            let config = AugmentConfig {
                preset: Preset::None,
                crop_mode: CropMode::Squash,
                crop_pct: 1.0,
                mean: vec![0.0; channels],
                std: vec![1.0; channels],
                ..AugmentConfig::default()
            };
            let transform = Transform::evaluation(&config, (1, 2)).unwrap();
            let limits = ImageLimits {
                alpha,
                ..ImageLimits::of(2)
            };
            let view = View::of_file(&path, limits, &transform).unwrap();
            assert_eq!(view.shape(), [1, channels, 1, 2]);
            for (found, expected) in view.pixels.iter().zip(all) {
                assert!((found - expected).abs() < 1e-6, "{:?}", view.pixels);
            }
            let bad = [(&path, 1), (&dir.path().join("none.png"), 2)];
            for (path, most) in bad {
                let error = View::of_file(path, ImageLimits::of(most), &transform).unwrap_err();
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(matches!(error, DataError::Decode(_)), "{error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
}
