//! The devices that a test runs on, and tensors to and from them.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests")]

use burn::tensor::{Device, Tensor, TensorData};

/// The CPU, and a GPU or the software Vulkan driver if there is one.
///
/// # Panics
/// As [`crate::no_gpu`].
#[track_caller]
pub fn devices() -> Vec<(&'static str, Device)> {
    let mut devices = vec![("flex", Device::flex())];
    devices.extend(gpu().map(|device| ("wgpu", device)));
    devices
}

#[cfg(feature = "wgpu")]
#[track_caller]
fn gpu() -> Option<Device> {
    use burn::tensor::DeviceType;
    use std::sync::OnceLock;
    static GPU: OnceLock<Option<Device>> = OnceLock::new();
    let device = GPU.get_or_init(|| {
        let device = Device::enumerate(DeviceType::Wgpu).into_iter().next();
        if let Some(device) = &device {
            // Without a Vulkan driver wgpu falls back to OpenGL: print which one this run tested.
            eprintln!("wgpu adapter: {:?}", device.identity());
        }
        device
    });
    // Every test that lacks it reports it, not just the first.
    if device.is_none() {
        crate::no_gpu();
    }
    device.clone()
}

#[cfg(not(feature = "wgpu"))]
#[track_caller]
fn gpu() -> Option<Device> {
    crate::skipped("built without wgpu");
    None
}

/// A tensor of values.
pub fn tensor<const D: usize>(data: &[f32], shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(data.to_vec(), shape), device)
}

/// The values of a tensor, as f32.
///
/// # Panics
/// If the device fails.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().try_to_vec().unwrap()
}

/// The largest difference, relative to the largest expected magnitude; NaN if there is one.
///
/// # Panics
/// If the lengths differ.
pub fn error(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let scale = expected.iter().fold(1e-6f32, |m, x| m.max(x.abs()));
    actual.iter().zip(expected).fold(0.0, |worst, (a, e)| {
        let difference = (a - e).abs() / scale;
        // A NaN is not an agreement.
        if difference <= worst {
            worst
        } else {
            difference
        }
    })
}

/// # Panics
/// If [`error`] is over the tolerance.
#[track_caller]
pub fn assert_close(what: &str, actual: &[f32], expected: &[f32], tolerance: f32) {
    let error = error(actual, expected);
    assert!(
        error <= tolerance,
        "{what}: relative error {error} is over {tolerance}"
    );
}
