//! Data and models into which a checkpoint must not be restored.

use crate::support::Workspace;

/// A run of two steps.
fn trained() -> Workspace {
    let workspace = Workspace::with_data(6, 1);
    let train = ["train", "tiny.toml", "--set", "train.max_steps=2"];
    workspace.kvt(&train).assert().success();
    workspace
}

/// The order of an epoch is valid only for the images for which it was drawn.
#[test]
fn other_images_are_refused() {
    let workspace = trained();
    workspace.images("data/train/a", 7);
    let error = workspace.error(&["train", "tiny.toml", "--resume"]);
    assert!(error.contains("images"), "{error}");
    fs_err::remove_file(workspace.path("data/train/a/006.png")).unwrap();
    let resume = ["train", "tiny.toml", "--resume"];
    workspace.kvt(&resume).assert().success();
}

/// A model with fewer blocks would find all its weights.
#[test]
fn a_model_with_fewer_weights_is_refused() {
    let workspace = trained();
    let config = workspace.read("run/config.toml");
    let shallow = config.replace("depth = 2", "depth = 1");
    assert_ne!(shallow, config);
    workspace.write("run/config.toml", shallow);
    let error = workspace.error(&["eval", "--run", "run", "--checkpoint", "last"]);
    assert!(
        error.contains("has weights that the model lacks"),
        "{error}"
    );
    assert!(error.contains("blocks.1."), "{error}");
}
