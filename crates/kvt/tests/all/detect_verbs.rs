//! What a user of detection sees: numbers, painted images, reports and previews of a small run on generated scenes.

use serde_json::{Value, json};

use crate::support::Workspace;

/// A very short run on scenes of 64 px.
const SCENES: &str = r#"task = "detect"
seed = 3

[model]
name = "swin_tiny_patch4_window7_224"
img_size = 64
window_size = 4
embed_dim = 8
depth = [1, 1, 2, 1]
num_heads = [1, 2, 2, 4]

[detect]
channels = 8
hidden = 16
anchors = 16
regions = 8
train_per_level = 20
train_proposals = 10
test_per_level = 20
test_proposals = 10
score = 0.01

[data]
kind = "shapes"
path = "scenes"
workers = 0

[data.shapes]
layout = "dense"
image_size = 64
classes = 3
train_per_class = 2
val_per_class = 1

[multiscale]
sizes = [48, 80]
max = 80
crop_before = false

[optim]
lr = 1e-3
lr_batch = 0

[schedule]
kind = "constant"
per = "step"
warmup_epochs = 0

[train]
updates = 2
eval_every_updates = 2
batch_size = 2
device = "cpu"

[log]
tensorboard = false

[report]
auto = false

[run]
dir = "run"
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::empty();
    workspace.write("scenes.toml", SCENES);
    workspace
}

/// The detections of all validation images, as `kvt eval` writes them, are those of `kvt predict`, image by image.
#[test]
fn a_run_is_judged_painted_and_reported() {
    let workspace = workspace();
    let output = workspace.kvt(&["train", "scenes.toml"]).assert().success();
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(
        said.contains("kvt predict --run run --out DIR IMAGE..."),
        "{said}"
    );
    let eval = ["eval", "--run", "run", "--out", "detections.json"];
    workspace.kvt(&eval).assert().success();
    let judged: Vec<Value> = serde_json::from_str(&workspace.read("detections.json")).unwrap();
    assert!(!judged.is_empty());
    let truth: Value =
        serde_json::from_str(&workspace.read("scenes/annotations/val.json")).unwrap();

    let seen = workspace.json(&["predict", "--run", "run", "scenes/images/val", "--json"]);
    let seen = seen.as_array().unwrap();
    let images = truth["images"].as_array().unwrap();
    assert_eq!((seen.len(), images.len()), (3, 3));
    let mut count = 0;
    for image in images {
        let file = image["file_name"].as_str().unwrap();
        let is_this = |one: &&Value| {
            one["image"]
                .as_str()
                .is_some_and(|path| path.ends_with(file))
        };
        let found = seen.iter().find(is_this).unwrap();
        assert_eq!(
            (&found["height"], &found["width"]),
            (&json!(64), &json!(64))
        );
        let own = judged.iter().filter(|one| one["image_id"] == image["id"]);
        let objects = found["objects"].as_array().unwrap();
        assert_eq!(own.clone().count(), objects.len(), "{file}");
        for (one, object) in own.zip(objects) {
            for key in ["bbox", "score", "segmentation"] {
                assert_eq!(one[key], object[key], "{file} {key}");
            }
            let categories = truth["categories"].as_array().unwrap().iter();
            let name = categories.filter(|class| class["id"] == one["category_id"]);
            let names: Vec<&Value> = name.map(|class| &class["name"]).collect();
            assert_eq!(names, [&object["class"]]);
            count += 1;
        }
    }
    assert_eq!(count, judged.len());

    // Enlarged by eight; what is drawn depends on the least score.
    let painted = |folder: &str, score: &str| {
        let image = "scenes/images/val/000000.png";
        let command = [
            "predict",
            "--run",
            "run",
            image,
            "--out",
            folder,
            "--min-score",
            score,
        ];
        workspace.kvt(&command).assert().success();
        let file = workspace.path(folder).join("000-000000.png");
        image::open(file).unwrap().to_rgb8()
    };
    let (all, none) = (painted("all", "0"), painted("none", "1"));
    assert_eq!(all.dimensions(), (512, 512));
    let plain = image::open(workspace.path("scenes/images/val/000000.png")).unwrap();
    let plain = plain.to_rgb8();
    let is_plain = none
        .enumerate_pixels()
        .all(|(x, y, pixel)| plain.get_pixel(x / 8, y / 8) == pixel);
    assert!(is_plain, "no detection is certain");
    assert!(all != none);

    workspace
        .kvt(&["report", "run", "--eval", "--samples", "2"])
        .assert()
        .success();
    let page = workspace.read("run/report.html");
    for text in [
        "as pycocotools counts",
        "All twelve numbers",
        "AP of class",
        "On the left the objects that are there",
        " there, ",
        // The curves.
        "box AP",
        "mask AP",
    ] {
        assert!(page.contains(text), "{text}");
    }
    for (line, reason) in [
        (
            "predict --run run scenes/images/val/000000.png",
            "`--out DIR` says where",
        ),
        (
            "predict --run run scenes/images/val/000000.png --output x.csv",
            "this model finds objects, so it is a folder",
        ),
        (
            "predict --run run scenes/images/val/000000.png --out x --masks",
            "`--masks` is for segmentation: this model finds objects",
        ),
        (
            "report run --eval --data scenes",
            "it is judged on the images and annotations of its own",
        ),
        (
            "probe --run run --method knn",
            "finds objects, not classes of images",
        ),
        (
            "export --run run m.onnx",
            "finds objects, not classes of images",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let error = workspace.error(&words);
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn a_preview_shows_images_with_their_objects() {
    let workspace = workspace();
    workspace
        .kvt(&["config", "preview", "scenes.toml", "--out", "shown"])
        .assert()
        .success();
    let sheet = image::open(workspace.path("shown/images.png"))
        .unwrap()
        .to_rgb8();
    // 80 px are drawn twice as large, in 8 columns and 4 rows; below them are the names of the classes.
    let (width, rows) = (8 + 8 * (160 + 8), 8 + 24 + 4 * (24 + 160 + 8));
    assert!(
        sheet.width() == width && sheet.height() > rows,
        "{:?}",
        sheet.dimensions()
    );
    // Boxes are in the full colour of their class, in the first image and in augmented ones.
    let colors = [0, 1, 2].map(kvt_train::paint::object_color);
    for column in 0..8 {
        let left = 8 + column * 168;
        let cell = image::imageops::crop_imm(&sheet, left, 0, 160, rows).to_image();
        let lines = cell.pixels().filter(|pixel| colors.contains(&pixel.0));
        assert!(lines.count() > 100, "column {column}");
    }
}

#[test]
fn a_step_is_timed() {
    let workspace = workspace();
    let line = "bench step --config scenes.toml --batch 2 --kind dense --runs 1 --warmup 1 --json step.json";
    let words: Vec<&str> = line.split(' ').collect();
    workspace.kvt(&words).assert().success();
    let found = workspace.read("step.json");
    // An image of 4 to 3 has a shorter side of 80, which is padded.
    assert!(
        found.contains("step_ms") && found.contains("\"img_size\": 96"),
        "{found}"
    );
    let forward = "bench forward --config scenes.toml";
    let words: Vec<&str> = forward.split(' ').collect();
    let error = workspace.error(&words);
    assert!(error.contains("for segmentation and detection"), "{error}");
}
