//! What a user of detection sees: numbers, painted images, reports and previews of a small run on generated scenes.

use serde_json::{Value, json};

use crate::scenes::{detect, preview, report_has, step_is_timed, workspace};
use crate::support::Workspace;

/// A very short run.
fn objects() -> Workspace {
    let length = "updates = 2\neval_every_updates = 2\nbatch_size = 2\n";
    workspace(&detect("scenes", 2, ("[48, 80]", 80), length))
}

/// The detections of all validation images, as `kvt eval` writes them, are those of `kvt predict`, image by image.
#[test]
fn a_run_is_judged_painted_and_reported() {
    let workspace = objects();
    let output = workspace.line("train scenes.toml").assert().success();
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(
        said.contains("kvt predict --run run --out DIR IMAGE..."),
        "{said}"
    );
    let eval = "eval --run run --out detections.json";
    workspace.line(eval).assert().success();
    let judged: Vec<Value> = serde_json::from_str(&workspace.read("detections.json")).unwrap();
    assert!(!judged.is_empty());
    #[cfg(target_os = "linux")]
    {
        workspace.unprinted("eval --run run --out unprinted.json");
        let detections = workspace.read("detections.json");
        assert!(workspace.read("unprinted.json") == detections);
    }
    let truth: Value =
        serde_json::from_str(&workspace.read("scenes/annotations/val.json")).unwrap();
    // Detections replace earlier ones, but no annotations.
    workspace.line(eval).assert().success();
    let annotations = workspace.read("scenes/annotations/train.json");
    let error = workspace.error(&[
        "eval",
        "--run",
        "run",
        "--out",
        "scenes/annotations/train.json",
    ]);
    assert!(
        error.contains("train.json` exists and is no earlier result"),
        "{error}"
    );
    assert!(workspace.read("scenes/annotations/train.json") == annotations);

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
        let line = format!("predict --run run {image} --out {folder} --min-score {score}");
        workspace.line(&line).assert().success();
        let file = workspace.path(folder).join("000-000000.png");
        image::open(file).unwrap().to_rgb8()
    };
    let command = "predict --run run scenes/images/val/000000.png --out less --min-score 0.005 --set detect.score=0.005";
    let command: Vec<&str> = command.split(' ').collect();
    workspace.kvt(&command).assert().success();
    let (all, none) = (painted("all", "0.01"), painted("none", "1"));
    assert_eq!(all.dimensions(), (512, 512));
    let plain = image::open(workspace.path("scenes/images/val/000000.png")).unwrap();
    let plain = plain.to_rgb8();
    let is_plain = none
        .enumerate_pixels()
        .all(|(x, y, pixel)| plain.get_pixel(x / 8, y / 8) == pixel);
    assert!(is_plain, "no detection is certain");
    assert!(all != none);
    let line = "predict --run run scenes/images/val/000000.png --out bare --min-score 1";
    let said = workspace.line(line).output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    let bare =
        "1 image without an object with a score of at least 1: a lower `--min-score` paints more";
    assert!(said.contains(bare), "{said}");

    let texts = [
        "as pycocotools counts",
        "All twelve numbers",
        "AP of class",
        "On the left the objects that are there",
        " there, ",
        // The curves.
        "box AP",
        "mask AP",
    ];
    report_has(&workspace, &texts);
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
            "predict --run run scenes/images/val/000000.png --out x --min-score 0.005",
            "`--min-score 0.005` is below `detect.score`, 0.01, and only objects above that are found: add `--set detect.score=0.005`",
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
    let workspace = objects();
    // 80 px are drawn twice as large.
    let (sheet, rows) = preview(&workspace, 160);
    // Boxes are in the full colour of their class, in the first image and in augmented ones.
    let colors = [0, 1, 2].map(kvt_tools::paint::object_color);
    for column in 0..8 {
        let left = 8 + column * 168;
        let cell = image::imageops::crop_imm(&sheet, left, 0, 160, rows).to_image();
        let lines = cell.pixels().filter(|pixel| colors.contains(&pixel.0));
        assert!(lines.count() > 100, "column {column}");
    }
}

#[test]
fn a_step_is_timed() {
    let workspace = objects();
    // An image of 4 to 3 has a shorter side of 80, which is padded.
    step_is_timed(&workspace, 96);
    let line = "bench step --config scenes.toml --set multiscale.max=320 --batch 1 --kind dense --runs 1 --warmup 0 --json step.json";
    let words: Vec<&str> = line.split(' ').collect();
    let macs = |more: &[&str]| {
        workspace.kvt(&[&words, more].concat()).assert().success();
        let report: Value = serde_json::from_str(&workspace.read("step.json")).unwrap();
        let record = &report["records"][0];
        record["gflops"].as_f64().unwrap() * record["step_ms"].as_f64().unwrap()
    };
    let usual = macs(&[]);
    // Boxes and masks cost the same, however large an image is.
    let larger = macs(&["--largest"]);
    assert!(larger > 1.001 * usual, "{larger} {usual}");
    let classifier = "bench step --model deit_tiny_patch16_224 --largest";
    let error = workspace.error(&classifier.split(' ').collect::<Vec<_>>());
    assert!(error.contains("`--largest` is for detection"), "{error}");
    let forward = "bench forward --config scenes.toml";
    let error = workspace.error(&forward.split(' ').collect::<Vec<_>>());
    assert!(error.contains("for segmentation and detection"), "{error}");
}
