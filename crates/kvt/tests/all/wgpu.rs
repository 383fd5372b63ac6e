//! Training on a GPU, or on the software Vulkan driver, matches training on the CPU.

use std::path::PathBuf;

use kvt_train::engine::TrainError;

use crate::support::{Workspace, assert_each_close, set, train};
use crate::trajectory::{expected, golden, retrace};

#[test]
fn the_first_steps_on_wgpu_are_pytorchs() {
    let Some((name, _)) = kvt_testing::devices::gpu() else {
        return;
    };
    for kind in ["knn", "dense"] {
        // Dense attention has the same kernels, and keeps all keys.
        if kind == "dense" && !kvt_testing::asks_for("dense") {
            continue;
        }
        let golden = golden(kind);
        // Evaluation with the training batch size: every other shape is tuned again, for minutes on a software driver.
        let device = format!("train.device={name}");
        let overrides = [device.as_str(), "train.max_steps=2", "eval.batch_size=8"];
        let found = retrace(&golden, &overrides);
        let expected = expected(&golden).losses;
        assert_each_close(kind, &found.losses, &expected[..2], 1e-3);
    }
}

/// The third step is pending when the host learns the result of the second one.
///
/// Only if `KVT_GPU_CASES` asks for all cases, or for `late`: a software driver tunes the matrix products of another model for
/// minutes. The CPU decides in the same way, in `late.rs`.
#[test]
fn what_is_not_finite_on_wgpu_leaves_the_weights() {
    if !kvt_testing::asks_for("late") {
        return;
    }
    let Some((name, _)) = kvt_testing::devices::gpu() else {
        return;
    };
    let workspace = Workspace::with_data(6, 1);
    let trained = |run: &str, more: &str| {
        let mut overrides = vec![
            set("data.path", &workspace.path("data")),
            set("run.dir", &workspace.path(run)),
            format!("train.device={name}"),
        ];
        let others = [
            "eval.batch_size=6",
            "optim.lr=1e30",
            "optim.clip_norm=1.0",
            "schedule.warmup_epochs=0",
            more,
        ];
        overrides.extend(others.map(str::to_owned));
        train(&workspace.path("tiny.toml"), &overrides)
    };
    // Saved before its evaluation, which is not finite.
    let error = trained("one", "train.max_steps=1").unwrap_err();
    assert!(matches!(error, TrainError::Diverged { step: 1, .. }));
    let error = trained("all", "train.epochs=1").unwrap_err();
    assert!(
        matches!(error, TrainError::NotFinite { step: 2, .. }),
        "{error}"
    );
    let weights = |folder: PathBuf| fs_err::read(folder.join("model.safetensors")).unwrap();
    let dumped = weights(workspace.path("all/nonfinite-step-2"));
    assert!(dumped == weights(workspace.last_checkpoint("one")));
}
