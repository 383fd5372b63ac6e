//! Golden numbers of PyTorch and mmsegmentation (`scripts/reference`), on every device.

use std::path::Path;

use burn::tensor::{Device, Int, Tensor, TensorData};
use kvt_ops::{PixelAverage, pixel_cross_entropy, resize_bilinear};
use kvt_testing::devices::{assert_close, devices, tensor, values};
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
        for (name, device) in devices() {
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
            for (name, device) in devices() {
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
