//! Against mmcv's and mmsegmentation's transforms, with given draws (`scripts/reference/joint_augment.py`).

#![expect(clippy::unwrap_used, reason = "tests")]

use image::RgbImage;
use safetensors::SafeTensors;
use serde::Deserialize;
use serde_json::Value;

use super::geometry::{chosen, crop, fitted, flip, nearest, pad, resize};
use super::photometric::Photometric;
use crate::LabelMap;
use crate::augment::Crop;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/dense");

struct Golden {
    bytes: Vec<u8>,
    config: Value,
}

impl Golden {
    fn open() -> Self {
        let bytes = fs_err::read(format!("{FOLDER}/joint_augment.safetensors")).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let config = serde_json::from_str(&header.metadata().as_ref().unwrap()["config"]).unwrap();
        Self { bytes, config }
    }

    fn bytes(&self, name: &str) -> (Vec<usize>, Vec<u8>) {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let tensor = file.tensor(name).unwrap();
        (tensor.shape().to_vec(), tensor.data().to_vec())
    }

    fn image(&self, name: &str) -> RgbImage {
        let (shape, pixels) = self.bytes(name);
        assert_eq!(shape[2], 3);
        RgbImage::from_raw(shape[1] as u32, shape[0] as u32, pixels).unwrap()
    }

    fn map(&self, name: &str) -> LabelMap {
        let (shape, labels) = self.bytes(name);
        LabelMap {
            labels,
            size: (shape[0], shape[1]),
        }
    }

    /// The names of what begins with `start`, without it.
    fn names(&self, start: &str) -> Vec<String> {
        let file = SafeTensors::deserialize(&self.bytes).unwrap();
        let names = file.names().into_iter();
        let mut names: Vec<_> = names
            .filter_map(|name| name.strip_prefix(start))
            .map(str::to_owned)
            .collect();
        names.sort();
        names
    }
}

fn json<T: serde::de::DeserializeOwned>(key: &str) -> Vec<T> {
    let text = fs_err::read_to_string(format!("{FOLDER}/joint_augment.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(all[key].clone()).unwrap()
}

/// A part given by top, bottom, left and right.
fn part([top, bottom, left, right]: [u32; 4]) -> Crop {
    Crop {
        left,
        top,
        width: right - left,
        height: bottom - top,
    }
}

fn furthest(found: &RgbImage, expected: &RgbImage) -> u8 {
    assert_eq!(found.dimensions(), expected.dimensions());
    let levels = found.iter().zip(expected.iter());
    levels.map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

#[test]
fn sizes() {
    #[derive(Deserialize)]
    struct Case {
        size: [u32; 2],
        scale: [u32; 2],
        ratio: f64,
        result: [u32; 2],
    }
    let cases: Vec<Case> = json("sizes");
    assert!(cases.len() > 20);
    for case in cases {
        let scale = case.scale.map(|side| (f64::from(side) * case.ratio) as u32);
        let found = fitted((case.size[1], case.size[0]), scale);
        assert_eq!(
            [found.1, found.0],
            case.result,
            "{:?} {}",
            case.size,
            case.ratio
        );
    }
}

#[test]
fn resized() {
    let golden = Golden::open();
    let (image, map) = (golden.image("image"), golden.map("label"));
    let cases = golden.names("resize.");
    assert!(cases.len() >= 10);
    for case in cases.iter().filter_map(|name| name.strip_suffix(".image")) {
        let expected = golden.image(&format!("resize.{case}.image"));
        let size = expected.dimensions();
        // OpenCV's weights have 11 bits.
        assert!(
            furthest(&resize(image.clone(), size).unwrap(), &expected) <= 1,
            "{case}"
        );
        let label = golden.map(&format!("resize.{case}.label"));
        assert_eq!(nearest(&map, size), label, "{case}");
    }
}

#[test]
fn cropped_and_flipped() {
    let golden = Golden::open();
    let (image, map) = (golden.image("image"), golden.map("label"));
    let (mut turned, mut turned_map) = (image.clone(), map.clone());
    flip(&mut turned, &mut turned_map);
    assert_eq!(
        (turned, turned_map),
        (golden.image("flip.image"), golden.map("flip.label"))
    );
    let of = |value: &Value| part(serde_json::from_value(value.clone()).unwrap());
    let found = crop(image.clone(), &map, of(&golden.config["crop"]));
    assert_eq!(
        found,
        (golden.image("crop.image"), golden.map("crop.label"))
    );
    let chain = &golden.config["chain"];
    let [height, width]: [u32; 2] = serde_json::from_value(chain["size"].clone()).unwrap();
    let size = (width, height);
    let (mut image, mut map) = crop(
        resize(image, size).unwrap(),
        &nearest(&map, size),
        of(&chain["crop"]),
    );
    flip(&mut image, &mut map);
    assert!(furthest(&image, &golden.image("chain.image")) <= 1);
    let padded: [usize; 2] = serde_json::from_value(chain["pad"].clone()).unwrap();
    assert_eq!(pad(&map, padded.into()), golden.map("chain.label"));
}

#[test]
fn crops() {
    #[derive(Deserialize)]
    struct Case {
        label: Vec<Vec<u8>>,
        crop: [u32; 2],
        cat_max_ratio: f64,
        offsets: Vec<[u32; 2]>,
        #[serde(rename = "box")]
        expected: [u32; 4],
    }
    let cases: Vec<Case> = json("crops");
    assert!(cases.len() > 5);
    for case in cases {
        let map = LabelMap {
            size: (case.label.len(), case.label[0].len()),
            labels: case.label.concat(),
        };
        let [height, width] = case.crop;
        let draw = |attempt: u64| {
            let [top, left] = case.offsets[attempt as usize];
            part([top, top + height, left, left + width])
        };
        assert_eq!(chosen(&map, case.cat_max_ratio, draw), part(case.expected));
    }
}

/// Every step and both orders. OpenCV's colours are reproduced but for the rounding of hue.
#[test]
fn photometric() {
    let golden = Golden::open();
    let image = golden.image("image");
    let cases = golden.config["photometric"].as_object().unwrap();
    assert_eq!(golden.names("photometric.").len(), cases.len());
    for (name, steps) in cases {
        let steps: Vec<(String, f64)> = serde_json::from_value(steps.clone()).unwrap();
        let place = |name: &str| steps.iter().position(|(step, _)| step == name);
        let value = |name: &str| place(name).map(|at| steps[at].1);
        let change = Photometric {
            brightness: value("brightness").map(|value| value as f32),
            contrast: value("contrast").map(|value| value as f32),
            contrast_last: place("contrast") > place("saturation").max(place("hue")),
            saturation: value("saturation").map(|value| value as f32),
            hue: value("hue").map(|value| value as i32),
        };
        let mut found = image.clone();
        change.apply(&mut found);
        let expected = golden.image(&format!("photometric.{name}"));
        assert_eq!(furthest(&found, &expected), 0, "{name}");
    }
}
