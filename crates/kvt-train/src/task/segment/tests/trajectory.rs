//! Ten updates as in MMSegmentation.
//!
//! The files are written by `scripts/reference/dense_trajectory.py`: initial weights, images, masks and the order of the images,
//! which both runs share, and the results.

use image::{GrayImage, RgbImage};
use serde_json::Value;

use super::*;
use crate::config::load_plan;
use crate::task::dense::trajectory::{Golden, sections};

const SIDE: usize = 48;

#[test]
fn dense_training_is_mmsegmentations() {
    is_mmsegmentations("dense");
}

#[test]
fn knn_training_is_mmsegmentations() {
    is_mmsegmentations("knn");
}

fn is_mmsegmentations(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (start, golden) = (
        Golden::read("dense_trajectory"),
        Golden::read(&format!("dense_trajectory_{kind}")),
    );
    start.write("weights.", &path("init.safetensors"));
    write_images(&start, &path("data"));
    let config = config(&golden.metadata("config"), folder.path());
    fs_err::write(path("golden.toml"), config).unwrap();
    let plan = load_plan(&path("golden.toml"), &[]).unwrap();
    let (end, events) = train::<Segment>(plan, Start::New, u64::MAX).unwrap();
    assert_eq!(end, End::Finished);
    let losses = [
        ("decode_losses", "main_loss"),
        ("aux_losses", "auxiliary_loss"),
    ];
    golden.compare_steps(&events, &losses);
    assert!(golden.compare_weights(folder.path()) > 80);
}

/// Writes the images and masks, which every epoch goes through in the order of the file; the first one is for validation, too.
fn write_images(golden: &Golden, data: &Path) {
    golden.takes_in_turn(8);
    let (pixels, labels) = (golden.bytes("pixels"), golden.bytes("labels"));
    let images = pixels
        .chunks(SIDE * SIDE * 3)
        .zip(labels.chunks(SIDE * SIDE));
    for (index, (pixels, labels)) in images.enumerate() {
        let side = SIDE as u32;
        let image = RgbImage::from_raw(side, side, pixels.to_vec()).unwrap();
        let mask = GrayImage::from_raw(side, side, labels.to_vec()).unwrap();
        for split in ["train", "val"]
            .into_iter()
            .take(1 + usize::from(index == 0))
        {
            let file = |kind: &str| {
                let folder = data.join(kind).join(split);
                fs_err::create_dir_all(&folder).unwrap();
                folder.join(format!("{index}.png"))
            };
            image.save(file("images")).unwrap();
            mask.save(file("masks")).unwrap();
        }
    }
}

fn config(golden: &Value, folder: &Path) -> String {
    let own = [
        format!(
            "[data]\nkind = \"masks\"\npath = {:?}\nclasses = 4\nshuffle = false\nworkers = 0",
            folder.join("data")
        ),
        format!(
            "[dense]\nscale = [{SIDE}, {SIDE}]\nratio = [1.0, 1.0]\ncrop = [{SIDE}, {SIDE}]\ncat_max_ratio = 1.0\nhflip = 0.0\n\
             photometric = false"
        ),
        format!(
            "[segment]\nchannels = {}\npool_scales = {}\ndropout = {}\naux_stage = {}\naux_channels = {}\naux_weight = {}\naverage = {}",
            golden["channels"],
            golden["pool_scales"],
            golden["dropout"],
            golden["aux_stage"],
            golden["aux_channels"],
            golden["aux_weight"],
            golden["average"],
        ),
        format!(
            "[schedule]\nkind = \"poly\"\npower = {}\nmin_lr = {}\nper = \"step\"\nwarmup_updates = {}\nwarmup_ratio = {}",
            golden["power"], golden["min_lr"], golden["warmup_updates"], golden["warmup_ratio"],
        ),
    ];
    format!(
        "task = \"segment\"\n{}{}\n",
        sections(golden, folder),
        own.join("\n")
    )
}
