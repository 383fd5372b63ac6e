//! Five updates as in mmdetection.
//!
//! The files are written by `scripts/reference/detect_trajectory.py`: initial weights, images, objects and the order of the images,
//! which both runs share, and the results. Every anchor and every proposal counts, so neither run draws any.

use image::RgbImage;
use serde_json::{Value, json};

use super::*;
use crate::config::load_plan;
use crate::task::dense::trajectory::{Golden, sections};

const SIDE: usize = 64;
const IMAGES: usize = 4;
/// More than there are: nothing is drawn.
const ALL: usize = 1_048_576;

#[test]
fn dense_training_is_mmdetections() {
    is_mmdetections("dense");
}

#[test]
fn knn_training_is_mmdetections() {
    is_mmdetections("knn");
}

fn is_mmdetections(kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (start, golden) = (
        Golden::read("detect_trajectory"),
        Golden::read(&format!("detect_trajectory_{kind}")),
    );
    start.write("weights.", &path("init.safetensors"));
    write_images(&start, &path("data"));
    let config = config(&golden.metadata("config"), folder.path());
    fs_err::write(path("golden.toml"), config).unwrap();
    let plan = load_plan(&path("golden.toml"), &[]).unwrap();
    let (end, events) = train::<Detect>(plan, Start::New, u64::MAX).unwrap();
    assert_eq!(end, End::Finished);
    let losses = DetectLosses::NAMES.map(|name| (format!("{name}_losses"), format!("{name}_loss")));
    let losses = losses
        .each_ref()
        .map(|(what, metric)| (what.as_str(), metric.as_str()));
    golden.compare_steps(&events, &losses);
    assert!(golden.compare_weights(folder.path()) > 100);
}

/// Writes images and objects in COCO's format, the first image for validation, too.
fn write_images(golden: &Golden, data: &Path) {
    golden.takes_in_turn(IMAGES as i64);
    let (pixels, side) = (golden.bytes("pixels"), SIDE as u32);
    let (mut images, mut annotations) = (Vec::new(), Vec::new());
    for (index, pixels) in pixels.chunks(SIDE * SIDE * 3).enumerate() {
        let image = RgbImage::from_raw(side, side, pixels.to_vec()).unwrap();
        let (name, id) = (format!("{index}.png"), index + 1);
        for split in ["train", "val"] {
            let folder = data.join(split);
            fs_err::create_dir_all(&folder).unwrap();
            image.save(folder.join(&name)).unwrap();
        }
        images.push(json!({"id": id, "file_name": name, "width": SIDE, "height": SIDE}));
        let boxes = golden.f32s(&format!("boxes.{index}"));
        let labels = golden.i64s(&format!("labels.{index}"));
        let masks = golden.bytes(&format!("masks.{index}"));
        let objects = boxes.chunks(4).zip(labels).zip(masks.chunks(SIDE * SIDE));
        for ((corners, label), mask) in objects {
            let [left, top] = [corners[0], corners[1]];
            annotations.push(json!({
                "id": annotations.len() + 1, "image_id": id, "category_id": label + 1,
                "bbox": [left, top, corners[2] - left, corners[3] - top],
                "area": mask.iter().filter(|pixel| **pixel > 0).count(),
                "segmentation": {"size": [SIDE, SIDE], "counts": runs(mask)},
            }));
        }
    }
    assert_eq!(images.len(), IMAGES);
    let categories =
        ["a", "b", "c"].map(|name| json!({"id": name.as_bytes()[0] - 96, "name": name}));
    fs_err::create_dir_all(data.join("annotations")).unwrap();
    for (split, kept) in [("train", IMAGES), ("val", 1)] {
        let of_kept = annotations
            .iter()
            .filter(|of| of["image_id"].as_u64().unwrap() <= kept as u64);
        let file = json!({
            "images": images[..kept], "annotations": of_kept.collect::<Vec<_>>(), "categories": categories,
        });
        let path = data.join(format!("annotations/instances_{split}.json"));
        fs_err::write(path, file.to_string()).unwrap();
    }
}

/// A mask as runs, column by column, the first one outside.
fn runs(mask: &[u8]) -> Vec<u32> {
    let (mut runs, mut inside) = (vec![0], false);
    for pixel in (0..SIDE).flat_map(|x| (0..SIDE).map(move |y| mask[y * SIDE + x])) {
        if (pixel > 0) != inside {
            inside = !inside;
            runs.push(0);
        }
        *runs.last_mut().unwrap() += 1;
    }
    runs
}

fn config(golden: &Value, folder: &Path) -> String {
    let per_epoch = IMAGES as f64 / golden["batch_size"].as_f64().unwrap();
    let milestones = golden["milestones"].as_array().unwrap().iter();
    let epochs: Vec<f64> = milestones
        .map(|update| update.as_f64().unwrap() / per_epoch)
        .collect();
    let proposals = &golden["proposals"];
    let own = [
        format!(
            "[data]\nkind = \"coco\"\npath = {:?}\nshuffle = false\ngroup_orientation = false\nworkers = 0",
            folder.join("data")
        ),
        format!("[multiscale]\nsizes = [{SIDE}]\nmax = {SIDE}\ncrop_before = false\nhflip = 0.0"),
        format!(
            "[detect]\nchannels = {}\nhidden = {}\nwindow_padding = {}\nanchors = {ALL}\nregions = {ALL}\ntrain_per_level = {}\n\
             train_proposals = {}",
            golden["channels"],
            golden["hidden"],
            golden["window_padding"],
            proposals["before"],
            proposals["kept"],
        ),
        format!(
            "[schedule]\nkind = \"step\"\nstep_at = {epochs:?}\nstep_rate = {}\nper = \"step\"\nwarmup_updates = {}\nwarmup_ratio = {}",
            golden["gamma"], golden["warmup_updates"], golden["warmup_ratio"],
        ),
    ];
    format!(
        "task = \"detect\"\n{}{}\n",
        sections(golden, folder),
        own.join("\n")
    )
}
