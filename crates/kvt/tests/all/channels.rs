//! Images of 1 and 4 channels, from a folder of colour images to predictions.

use image::{DynamicImage, GrayImage, Luma};
use serde_json::Value;

use crate::support::Workspace;

fn set<'a>(verb: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
    let sets = sets.iter().flat_map(|&set| ["--set", set]);
    [verb, "tiny.toml"].into_iter().chain(sets).collect()
}

/// The classes of an image with their probabilities.
fn predicted(workspace: &Workspace, run: &str, image: &str) -> Value {
    let found = workspace.json(&["predict", "--run", run, "--json", image]);
    let mut found = found.as_array().map_or(found.clone(), |all| all[0].clone());
    found.as_object_mut().unwrap().remove("image");
    found
}

/// A model of one channel is trained on grey, evaluated, and says the same of a colour image and of Pillow's grey of it.
#[test]
fn grey_images_are_trained_on_and_predicted() {
    let workspace = Workspace::with_data(4, 2);
    let more = [
        "model.in_chans=1",
        "augment.auto=rand-m9-mstd0.5-inc1",
        "augment.erase=0.5",
        "mix.mixup=0.8",
        "mix.cutmix=1.0",
        "mix.order=\"mix-erase\"",
        "train.epochs=1",
    ];
    workspace.kvt(&set("train", &more)).assert().success();
    let config = workspace.read("run/config.toml");
    assert!(
        config.contains("mean = [0.449]") && config.contains("std = [0.226]"),
        "{config}"
    );
    workspace.kvt(&["eval", "--run", "run"]).assert().success();

    let colour = image::open(workspace.path("data/val/a/000.png"))
        .unwrap()
        .into_rgb8();
    let grey = GrayImage::from_fn(16, 16, |x, y| {
        Luma([kvt_train::augment::ops::luma(colour.get_pixel(x, y).0)])
    });
    grey.save(workspace.path("grey.png")).unwrap();
    let of_colour = predicted(&workspace, "run", "data/val/a/000.png");
    assert_eq!(of_colour, predicted(&workspace, "run", "grey.png"));
}

/// Grey folders get one channel only where their owner uncomments it.
#[test]
fn config_init_leaves_one_channel_for_grey_images_to_the_user() {
    let workspace = Workspace::empty();
    let written = |folder: &str| {
        let output = ["config", "init", folder];
        let output = workspace.kvt(&output).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    for class in ["x", "y"] {
        fs_err::create_dir_all(workspace.path("photos").join(class)).unwrap();
        for number in 0..4 {
            let path = format!("photos/{class}/{number}.png");
            let side = 32 + number;
            GrayImage::new(side, side)
                .save(workspace.path(&path))
                .unwrap();
        }
    }
    let text = written("photos");
    let line = "\n# in_chans = 1\n";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    workspace.write("grey.toml", &text);
    let plan = kvt_train::config::load_plan(&workspace.path("grey.toml"), &[]).unwrap();
    assert_eq!(plan.model.overrides.in_chans, None);
    workspace.write("grey.toml", text.replace(line, "\nin_chans = 1\n"));
    let plan = kvt_train::config::load_plan(&workspace.path("grey.toml"), &[]).unwrap();
    assert_eq!(plan.model.overrides.in_chans, Some(1));
    // Among so few, each is looked at; not all of those with colours are kept for validation.
    workspace.images("photos/y", 4);
    let text = written("photos");
    assert!(!text.contains("# in_chans"), "{text}");
}

/// Alpha is the fourth channel; an image without it is opaque.
#[test]
fn alpha_is_the_fourth_channel() {
    let workspace = Workspace::with_data(4, 2);
    let more = [
        "model.in_chans=4",
        "augment.color_jitter=0.4",
        "train.epochs=1",
    ];
    workspace.kvt(&set("train", &more)).assert().success();
    let colour = image::open(workspace.path("data/val/a/000.png")).unwrap();
    let with = |name: &str, alpha: u8| {
        let mut image = colour.to_rgba8();
        image.pixels_mut().for_each(|pixel| pixel.0[3] = alpha);
        DynamicImage::from(image)
            .save(workspace.path(name))
            .unwrap();
        predicted(&workspace, "run", name)
    };
    let without = predicted(&workspace, "run", "data/val/a/000.png");
    assert_eq!(with("opaque.png", 255), without);
    assert_ne!(with("clear.png", 60), without);
}

#[test]
fn what_other_channels_cannot_do_is_refused() {
    let workspace = Workspace::with_data(1, 1);
    for (sets, texts) in [
        (
            &["model.in_chans=2"][..],
            &["`model.in_chans`", "1 (grey)"][..],
        ),
        (
            &["model.in_chans=4", "augment.auto=3a"],
            &["`--set augment.auto=`", "`model.in_chans = 4`"],
        ),
        (
            &["model.in_chans=1", "augment.mean=[0.1, 0.2]"],
            &["`augment.mean`", "each of the 1 channels"],
        ),
    ] {
        let error = workspace.error(&set("train", sets));
        assert!(texts.iter().all(|text| error.contains(text)), "{error}");
        assert!(!workspace.path("run").exists());
    }
}
