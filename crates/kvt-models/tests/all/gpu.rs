//! A GPU for the tests, or the software Vulkan driver.

use burn::tensor::Device;

/// `None` if there is no adapter; `KVT_REQUIRE_GPU=1` makes that a failure.
#[cfg(feature = "wgpu")]
#[expect(clippy::print_stderr, reason = "says what was tested")]
#[track_caller]
pub(crate) fn gpu() -> Option<Device> {
    use burn::tensor::DeviceType;
    let device = Device::enumerate(DeviceType::Wgpu).into_iter().next();
    match &device {
        // Without a Vulkan driver wgpu falls back to OpenGL: print what this run tested.
        Some(device) => eprintln!("wgpu adapter: {:?}", device.identity()),
        None => kvt_testing::no_gpu(),
    }
    device
}

#[cfg(not(feature = "wgpu"))]
#[track_caller]
pub(crate) fn gpu() -> Option<Device> {
    kvt_testing::skipped("built without wgpu");
    None
}
