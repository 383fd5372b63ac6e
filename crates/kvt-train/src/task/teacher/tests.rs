#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use burn::tensor::{DType, Device, Tensor, TensorData};
use kvt_models::weights::StateDict;

use super::network::resized;
use super::*;
use crate::data::{ClassOrder, Source};

fn file(logits: TensorData, labels: &[i64]) -> StateDict {
    let mut file = StateDict::default();
    file.insert(LOGITS, logits);
    file.insert("labels", TensorData::new(labels.to_vec(), [labels.len()]));
    file
}

fn logits() -> TensorData {
    TensorData::new(vec![0.5f32, -1.0, 2.0, 3.0, 0.25, -0.125], [3, 2])
}

#[test]
fn resizing_is_pytorchs() {
    let bytes = include_bytes!("../../../tests/golden/mix.safetensors");
    let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
    let tensor = |name: &str| {
        let tensor = file.tensor(name).unwrap();
        let (numbers, _) = tensor.data().as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|b| f32::from_le_bytes(*b)).collect();
        TensorData::new(numbers, tensor.shape().to_vec())
    };
    let images = Tensor::<4>::from_data(tensor("converted"), &Device::flex()).narrow(0, 0, 2);
    for (name, side) in [("resized_small", 5), ("resized_large", 12)] {
        let found = resized(images.clone(), [side; 2]).into_data();
        let found: Vec<f32> = found.try_to_vec().unwrap();
        let expected: Vec<f32> = tensor(name).try_to_vec().unwrap();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() < 1e-5,
                "{name}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn rows_are_those_of_the_images() {
    let device = Device::flex().autodiff();
    for dtype in [DType::F32, DType::F16, DType::F64] {
        let file = file(logits().convert_dtype(dtype), &[0, 1, 1]);
        let logits = SavedLogits::new(&file, &[0, 1, 1], 2).unwrap();
        let teacher = Teacher {
            kind: TeacherKind::Logits(logits),
            path: PathBuf::new(),
            fingerprint: Fingerprint::of(&file),
        };
        let images = Tensor::zeros([4, 3, 1, 1], &device);
        let found = teacher.logits(&images, &[2, 0, 2, 1]);
        assert!(found.is_autodiff());
        let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
        assert_eq!(found, [0.25, -0.125, 0.5, -1.0, 0.25, -0.125, 2.0, 3.0]);
    }
}

#[test]
fn logits_of_other_images_are_refused() {
    let refused = |file: &StateDict, labels: &[u32]| {
        let error = SavedLogits::new(file, labels, 2).unwrap_err();
        error.to_string()
    };
    let whole = file(logits(), &[0, 1, 1]);
    insta::assert_snapshot!(refused(&StateDict::default(), &[0]), @"it has no tensor `logits`: `kvt logits --run RUN --output FILE` writes one");
    insta::assert_snapshot!(refused(&whole, &[0, 1]), @"its `logits` have shape [3, 2], but the data wants [2, 2], training images and classes");
    insta::assert_snapshot!(refused(&whole, &[0, 0, 1]), @"its image 1 has label 1, but that of the data has 0: the logits are of other images, or of another order");
    let broken = TensorData::new(vec![0.0f32, 0.0, f32::NAN, 0.0], [2, 2]);
    insta::assert_snapshot!(refused(&file(broken, &[0, 1]), &[0, 1]), @"its `logits` of image 1 are not finite numbers");
    let integers = TensorData::new(vec![0i64, 1], [1, 2]);
    assert!(refused(&file(integers, &[0]), &[0]).contains("shape"));
}

#[test]
fn a_fingerprint_tells_names_shapes_and_numbers() {
    let one = |name: &str, data: Vec<f32>, shape: [usize; 2]| {
        let mut tensors = StateDict::default();
        tensors.insert(name, TensorData::new(data, shape));
        Fingerprint::of(&tensors)
    };
    let first = one("a", vec![1.0, 2.0], [1, 2]);
    assert_eq!(first, one("a", vec![1.0, 2.0], [1, 2]));
    assert!(first.is_of(&first.to_state_dict()));
    for other in [
        one("b", vec![1.0, 2.0], [1, 2]),
        one("a", vec![1.0, 2.5], [1, 2]),
        one("a", vec![1.0, 2.0], [2, 1]),
    ] {
        assert_ne!(first, other);
        assert!(!first.is_of(&other.to_state_dict()));
    }
    assert!(!first.is_of(&StateDict::default()));
}

#[test]
fn logits_are_of_the_images_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    for class in ["a", "b"] {
        fs_err::create_dir_all(dir.path().join(class)).unwrap();
        for image in 0..2 {
            fs_err::write(dir.path().join(format!("{class}/{image}.png")), b"").unwrap();
        }
    }
    let source = Source::open(dir.path(), ClassOrder::Byte).unwrap();
    let named = origin(&source).unwrap();
    assert!(logits::is_of(&named, &source).unwrap());
    // A file of another program says nothing.
    assert!(!logits::is_of(&BTreeMap::new(), &source).unwrap());

    let mut other = source.clone();
    other.samples.swap(0, 1);
    let error = logits::is_of(&named, &other).unwrap_err();
    assert!(matches!(error, TeacherError::Images), "{error}");
    // The number of classes is the same.
    let mut other = source;
    other.classes[1] = "c".to_owned();
    let error = logits::is_of(&named, &other).unwrap_err().to_string();
    assert!(error.contains('b') && error.contains('c'), "{error}");
}
