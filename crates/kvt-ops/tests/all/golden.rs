//! Golden numbers of PyTorch and mmsegmentation (`scripts/reference`), on every device.

use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use kvt_ops::{PixelAverage, Region, pixel_cross_entropy, resize_bilinear, roi_align};
use kvt_testing::devices::{assert_close, devices_of, tensor, values};
use safetensors::SafeTensors;

/// A golden file.
struct Golden(Vec<u8>);

impl Golden {
    fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/dense");
        Self(std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap())
    }

    fn get(&self, name: &str) -> (Vec<usize>, Vec<u8>) {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let view = file.tensor(name).unwrap();
        (view.shape().to_vec(), view.data().to_vec())
    }

    fn floats(&self, name: &str) -> (Vec<usize>, Vec<f32>) {
        let (shape, bytes) = self.get(name);
        let numbers = bytes.chunks_exact(4);
        let numbers = numbers.map(|x| f32::from_le_bytes(x.try_into().unwrap()));
        (shape, numbers.collect())
    }

    fn values(&self, name: &str) -> Vec<f32> {
        self.floats(name).1
    }

    fn map(&self, name: &str, device: &Device) -> Tensor<4> {
        let (shape, numbers) = self.floats(name);
        tensor::<4>(&numbers, shape.try_into().unwrap(), device)
    }

    fn labels(&self, name: &str, device: &Device) -> Tensor<3, Int> {
        let (shape, bytes) = self.get(name);
        let numbers = bytes.chunks_exact(8);
        let numbers = numbers.map(|x| i64::from_le_bytes(x.try_into().unwrap()));
        Tensor::from_data(TensorData::new(numbers.collect(), shape), device)
    }
}

#[test]
fn maps_are_resized_as_by_pytorch() {
    let golden = Golden::read("resize");
    for case in [
        "5x7_to_10x13",
        "3x3_to_7x5",
        "8x8_to_32x32",
        "16x16_to_4x4",
        "5x7_to_5x7",
        "1x1_to_3x4",
        "4x6_to_2x9",
    ] {
        let part = |part: &str| format!("{case}.{part}");
        let (shape, expected) = golden.floats(&part("bilinear"));
        // The weights are the same on every device: one case is enough for the products of a GPU.
        for (name, device) in devices_of(case == "5x7_to_10x13") {
            let device = device.autodiff();
            let x = golden.map(&part("input"), &device).require_grad();
            let out = resize_bilinear(x.clone(), [shape[2], shape[3]]);
            let probe = golden.map(&part("probe"), &device);
            let grads = (out.clone() * probe).sum().backward();
            assert_close(&format!("{name} {case}"), &values(out), &expected, 2e-6);
            let grad = values(x.grad(&grads).unwrap());
            let expected = golden.values(&part("grad.bilinear"));
            assert_close(&format!("{name} {case}: gradient"), &grad, &expected, 2e-6);
        }
    }
}

#[test]
fn pixels_have_the_losses_of_mmsegmentation() {
    let golden = Golden::read("pixel_cross_entropy");
    for case in ["plain", "ignored", "one_image_ignored", "all_ignored"] {
        for (average, which) in [(PixelAverage::All, "all"), (PixelAverage::Valid, "valid")] {
            let part = |part: &str| golden.values(&format!("{case}.{part}"));
            for (name, device) in devices_of(case == "ignored") {
                let device = device.autodiff();
                let logits = golden
                    .map(&format!("{case}.logits"), &device)
                    .require_grad();
                let labels = golden.labels(&format!("{case}.labels"), &device);
                let loss = pixel_cross_entropy(logits.clone(), labels, 255, average);
                let grads = loss.backward();
                let what = format!("{name} {case} {which}");
                assert_close(&what, &values(loss), &part(which), 2e-6);
                let grad = values(logits.grad(&grads).unwrap());
                let expected = part(&format!("grad.{which}"));
                assert_close(&format!("{what}: gradient"), &grad, &expected, 1e-5);
            }
        }
    }
}

#[test]
fn regions_are_pooled_as_by_torchvision() {
    let golden = Golden::read("roi_align");
    for (case, bins, scale) in [
        ("7_1", 7, 1.0),
        ("7_4", 7, 0.25),
        ("14_1", 14, 1.0),
        ("14_4", 14, 0.25),
        ("hand_whole", 2, 1.0),
        ("hand_middle", 2, 1.0),
        ("hand_across", 2, 1.0),
        ("hand_quarter", 2, 0.25),
        ("hand_empty", 2, 1.0),
    ] {
        let part = |part: &str| format!("{case}.{part}");
        let by_hand = case.starts_with("hand");
        let (shape, expected) = golden.floats(&part("output"));
        let shape: [usize; 4] = shape.try_into().unwrap();
        let boxes = golden.values(&part("boxes"));
        let boxes = boxes.chunks_exact(5).map(|numbers| Region {
            image: numbers[0] as usize,
            corners: numbers[1..].try_into().unwrap(),
        });
        let regions: Vec<_> = boxes.collect();
        for (name, device) in devices_of(case == "7_4") {
            let device = device.autodiff();
            let input = if by_hand {
                part("input")
            } else {
                "input".into()
            };
            let maps = golden.map(&input, &device).require_grad();
            let out = roi_align(maps.clone(), &regions, bins, scale);
            assert_eq!(out.dims(), shape, "{name} {case}");
            let probe = if by_hand {
                Tensor::ones(shape, &device)
            } else {
                golden.map(&part("probe"), &device)
            };
            let grads = (out.clone() * probe).sum().backward();
            assert_close(&format!("{name} {case}"), &values(out), &expected, 5e-6);
            let grad = values(maps.grad(&grads).unwrap());
            let expected = golden.values(&part("grad"));
            assert_close(&format!("{name} {case}: gradient"), &grad, &expected, 5e-6);
        }
    }
}
