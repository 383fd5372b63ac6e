//! The devices that a test runs on, and tensors to and from them.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::panic,
    reason = "tests"
)]

use std::sync::OnceLock;

use burn::tensor::{Device, DeviceType, Tensor, TensorData};

/// The CPU, and a GPU or the software Vulkan driver if there is one, as `kvt devices` names them.
///
/// # Panics
/// As [`gpu`].
#[track_caller]
pub fn devices() -> Vec<(&'static str, Device)> {
    let mut devices = vec![("flex", Device::flex())];
    devices.extend(gpu());
    devices
}

/// [`devices`] for one case of a test: the CPU alone, and a line that says so, if the case is not one of the `few` that a software
/// driver runs, since it compiles Burn's kernels anew for every shape. `KVT_GPU_CASES` asks for the others by `all` or the beginning
/// of the test's name.
///
/// # Panics
/// As [`gpu`].
#[track_caller]
pub fn devices_of(few: bool) -> Vec<(&'static str, Device)> {
    if few || crate::asks_for(&crate::test()) {
        devices()
    } else {
        vec![("flex", Device::flex())]
    }
}

/// The first device of the back end that the environment variable `KVT_GPU` names: `wgpu` (the default) or `cuda`.
///
/// # Panics
/// As [`crate::no_gpu`], and if this build has no such back end.
#[track_caller]
pub fn gpu() -> Option<(&'static str, Device)> {
    static GPU: OnceLock<Option<(&'static str, Device)>> = OnceLock::new();
    let gpu = GPU.get_or_init(|| {
        let (name, kind) = back_end()?;
        let device = Device::enumerate(kind).into_iter().next()?;
        // Without a Vulkan driver wgpu falls back to OpenGL: print which one this run tested.
        eprintln!("{name} adapter: {:?}", device.identity());
        Some((name, device))
    });
    // Every test that lacks it reports it, not just the first.
    if gpu.is_none() {
        crate::no_gpu();
    }
    gpu.clone()
}

fn back_end() -> Option<(&'static str, DeviceType)> {
    let name = std::env::var("KVT_GPU").unwrap_or_else(|_| "wgpu".to_owned());
    match name.as_str() {
        #[cfg(feature = "wgpu")]
        "wgpu" => Some(("wgpu", DeviceType::Wgpu)),
        #[cfg(feature = "cuda")]
        "cuda" => Some(("cuda", DeviceType::Cuda)),
        #[cfg(not(feature = "wgpu"))]
        "wgpu" => None,
        _ => panic!("KVT_GPU={name}: this build has no such back end"),
    }
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
