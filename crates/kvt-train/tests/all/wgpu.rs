//! Training on a GPU, or on the software Vulkan driver, takes the steps of the CPU.

#![expect(clippy::print_stderr, reason = "says what was tested")]

use kvt_train::device;

use crate::support::assert_each_close;
use crate::trajectory::{expected, golden, retrace};

#[test]
fn the_first_steps_on_wgpu_are_pytorchs() {
    match device::resolve("wgpu") {
        // Without a Vulkan driver wgpu falls back to OpenGL: say what this run tested.
        Ok(found) => eprintln!("wgpu adapter: {}", found.description),
        Err(_) => return kvt_testing::no_gpu(),
    }
    for kind in ["dense", "knn"] {
        let golden = golden(kind);
        // Evaluation in batches of the training's size: every other shape is tuned anew, for minutes
        // on a software driver.
        let overrides = [
            "train.device=wgpu",
            "train.max_steps=2",
            "eval.batch_size=8",
        ];
        let found = retrace(&golden, &overrides);
        let expected = expected(&golden).losses;
        assert_each_close(kind, &found.losses, &expected[..2], 1e-3);
    }
}
