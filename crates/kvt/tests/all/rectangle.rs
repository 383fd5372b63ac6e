//! Images whose height and width differ, from the configuration to predictions and files for other programs.

use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::ImgSize;
use kvt_models::weights::LoadOptions;
use kvt_ops::{Key, Phase};
use kvt_train::augment::Transform;
use kvt_train::config::load_plan;
use serde_json::Value;

use crate::support::{Workspace, read_weights};

const IMAGE: &str = "data/val/b/001.png";

/// `tiny.toml` with images of 16 x 24 pixels: 4 x 6 patches.
fn wide() -> Workspace {
    let workspace = Workspace::with_data(6, 2);
    let text = workspace.read("tiny.toml");
    let wide = text
        .replace("img_size = 16", "img_size = [16, 24]")
        .replace("preset = \"none\"", "preset = \"imagenet\"");
    workspace.write("tiny.toml", wide);
    workspace
}

fn printed(workspace: &Workspace, line: &str) -> String {
    let done = workspace.line(line).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

/// Trained, stopped and continued, evaluated and drawn; `kvt predict` says what the model says of the image at that size.
#[test]
fn a_run_of_rectangles_predicts_what_the_library_does() {
    let workspace = wide();
    for line in [
        "train tiny.toml --set train.max_steps=2",
        "train tiny.toml --resume",
        "eval --run run",
        "attention-map --run run --checkpoint last data/val/b/001.png",
        "report run --eval --samples 2",
    ] {
        workspace.line(line).assert().success();
    }
    let line = format!("predict --run run --checkpoint last --json --top 3 {IMAGE}");
    let found: Value = serde_json::from_str(&printed(&workspace, &line)).unwrap();
    let found = found.as_array().map_or(&found, |all| &all[0]);

    let plan = load_plan(&workspace.path("run/config.toml"), &[]).unwrap();
    let config = plan.model.config(Some(3)).unwrap();
    assert_eq!(config.img_size(), ImgSize::from([16, 24]));
    let weights = read_weights(&workspace.last_checkpoint("run").join("model.safetensors"));
    let model = config.init(&Device::flex(), Key::new(0)).unwrap();
    let (model, _) = model.load(&weights, LoadOptions::default()).unwrap();
    let transform = Transform::evaluation(&plan.augment, (16, 24)).unwrap();
    let image = image::open(workspace.path(IMAGE)).unwrap().into_rgb8();
    let pixels = transform.apply(image, Key::new(0)).unwrap().pixels;
    let images = Tensor::<4>::from_data(TensorData::new(pixels, [1, 3, 16, 24]), &Device::flex());
    let expected = softmax(model.forward(images, Phase::Eval), 1).into_data();
    let expected = expected.try_to_vec::<f32>().unwrap();
    for guess in found["top"].as_array().unwrap() {
        let class = ["a", "b", "c"].map(|class| guess["class"] == class);
        let at = class.iter().position(|is| *is).unwrap();
        let probability = guess["probability"].as_f64().unwrap();
        let difference = (probability - f64::from(expected[at])).abs();
        assert!(difference < 1e-5, "{guess}: {expected:?}");
    }
}

/// A run knows the proportions of its positions, which no weight shows: 6 x 4 patches are as many as 4 x 6.
#[test]
fn positions_of_a_run_stay_in_their_rectangle() {
    let workspace = wide();
    let train = "train tiny.toml --set train.max_steps=1";
    workspace.line(train).assert().success();
    let file = workspace.last_checkpoint("run").join("model.safetensors");
    let from = format!("{train} --set init.weights={file:?} --set run.dir=");
    let tall = "--set model.img_size=[24,16]";
    for (line, asked) in [
        (
            format!("eval --run run --checkpoint last {tall}"),
            "[24, 16]",
        ),
        (
            format!("predict --run run --checkpoint last {IMAGE} {tall}"),
            "[24, 16]",
        ),
        (format!("{from}tall {tall}"), "[24, 16]"),
        (
            "finetune data --weights run --img-size 24".to_owned(),
            "[24, 24]",
        ),
    ] {
        let error = workspace.error(&line.split(' ').collect::<Vec<_>>());
        let expected =
            format!("not square are not resized to {asked}: keep `model.img_size = [16, 24]`");
        assert!(error.contains(&expected), "{line}: {error}");
    }
    workspace.line(&format!("{from}same")).assert().success();
}

#[test]
fn height_and_width_are_shown() {
    let workspace = wide();
    let model = printed(&workspace, "models show --config tiny.toml");
    assert!(
        model.starts_with("deit_16x2_patch4_16x24, 16x24 px, "),
        "{model}"
    );
    let model = printed(
        &workspace,
        "models show deit_tiny_patch16_224 --img-size 64x96",
    );
    assert!(model.contains(", 64x96 px, "), "{model}");
    let checked = "config check tiny.toml --set model.img_size=[32,16]";
    workspace.line(checked).assert().success();
    let step =
        "bench step --config tiny.toml --batch 2 --kind dense --runs 1 --warmup 1 --json step.json";
    workspace.line(step).assert().success();
    let text: String = workspace.read("step.json").split_whitespace().collect();
    assert!(text.contains("\"img_size\":[16,24]"), "{text}");
}

/// A family without rectangles, a side that patches do not fill, DINO, and lists that are no size: nothing is trained.
#[test]
fn what_is_no_size_is_refused() {
    let workspace = wide();
    let swin = "[model]\nname = \"swin_tiny_patch4_window7_224\"\nimg_size = [224, 448]\n[data]\npath = \"data\"\n";
    workspace.write("swin.toml", swin);
    for (line, expected) in [
        (
            "config check swin.toml",
            "`img_size` is [224, 448], but Swin takes square images only: give one number, such as 224, or take a model of the family ViT",
        ),
        (
            "config check tiny.toml --set model.img_size=[16,26]",
            "`img_size` 26 is not a multiple of `patch_size` 4: the nearest multiples are 24 and 28",
        ),
        (
            "config check tiny.toml --set task=dino --set dino.local_views=0",
            "`task = \"dino\"` crops square views",
        ),
        (
            "config check tiny.toml --set model.img_size=[16]",
            "for `model.img_size`: expected a list of 2 x integer >= 1",
        ),
        (
            "config check tiny.toml --set model.img_size=16x24",
            "for `model.img_size`: expected an integer >= 1 or a list of 2 x integer >= 1",
        ),
    ] {
        let error = workspace.error(&line.split(' ').collect::<Vec<_>>());
        assert!(error.contains(expected), "{line}: {error}");
        let train = line.replace("config check", "train");
        let error = workspace.error(&train.split(' ').collect::<Vec<_>>());
        assert!(error.contains(expected), "{train}: {error}");
    }
    assert!(!workspace.path("run").exists());
    let shown = "models show swin_tiny_patch4_window7_224 --img-size 224x448";
    let error = workspace.error(&shown.split(' ').collect::<Vec<_>>());
    assert!(error.contains("Swin takes square images only"), "{error}");
}
