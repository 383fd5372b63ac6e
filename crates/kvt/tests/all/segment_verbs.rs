//! What a user of segmentation sees: numbers, painted images, reports and previews of a small run on generated scenes.

use image::{Rgb, RgbImage};
use serde_json::json;

use crate::scenes::{detect, preview, report_has, segment, step_is_timed, workspace};
use crate::support::Workspace;

fn trained() -> Workspace {
    let workspace = workspace(&segment());
    let output = workspace.line("train scenes.toml").assert().success();
    let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(said.contains("best  mIoU "), "{said}");
    // A mean over classes has no interval of images.
    assert!(!said.contains("interval"), "{said}");
    assert!(
        said.contains("next  kvt eval --run run --per-class")
            && said.contains("kvt predict --run run --out DIR IMAGE..."),
        "{said}"
    );
    workspace
}

#[test]
fn a_run_is_judged_painted_and_reported() {
    let workspace = trained();
    let json = workspace.json(&[
        "eval",
        "--run",
        "run",
        "--json",
        "--per-class",
        "--out",
        "judged",
    ]);
    let miou = json["miou"].as_f64().unwrap();
    let last = workspace
        .log("run")
        .into_iter()
        .filter_map(|event| match event {
            kvt_train::run::Event::Eval(eval) => eval.metrics.get("miou"),
            _ => None,
        });
    // The best of the log is that of the checkpoint that was evaluated.
    assert_eq!(Some(miou), last.reduce(f64::max));
    assert_eq!(json["images"], 6);
    assert_eq!(json["split"], "val");
    assert_eq!(json["classes"].as_array().unwrap().len(), 3);
    let table = workspace.read("judged/iou.csv");
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains("0,background,"), "{table}");
    #[cfg(target_os = "linux")]
    {
        workspace.unprinted("eval --run run --out unprinted");
        assert_eq!(workspace.read("unprinted/iou.csv"), table);
    }
    let text = workspace
        .line("eval --run run --per-class")
        .assert()
        .success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(
        text.starts_with(&format!("mIoU {miou:.2} %  mAcc ")),
        "{text}"
    );
    assert!(
        text.contains("IoU") && text.contains("background"),
        "{text}"
    );

    // Other names for the same classes, and windows in place of whole images.
    workspace.write("names.txt", "nothing\nround\nother\n");
    let named = workspace.json(&[
        "eval",
        "--run",
        "run",
        "--json",
        "--per-class",
        "--classes",
        "names.txt",
    ]);
    assert_eq!(named["miou"], json["miou"]);
    assert!(named["classes"].to_string().contains("nothing"), "{named}");
    let windows = "eval --run run --json --set segment.eval=slide --set segment.eval_crop=[16,16] --set segment.eval_stride=[8,8]";
    let words: Vec<&str> = windows.split(' ').collect();
    let slid = workspace.json(&words)["loss"].as_f64().unwrap();
    let whole = json["loss"].as_f64().unwrap();
    assert!(slid > 0.0 && slid != whole, "{slid} {whole}");

    // Another size than the run's: the answer has the image's own.
    let picture = RgbImage::from_fn(50, 40, |x, y| Rgb([x as u8, y as u8, 90]));
    picture.save(workspace.path("photo.png")).unwrap();
    let predict = |more: &[&str]| {
        let command = [&["predict", "--run", "run", "photo.png"], more].concat();
        workspace.kvt(&command).assert().success();
    };
    predict(&["--out", "masks", "--masks"]);
    let seen = workspace.json(&["predict", "--run", "run", "photo.png", "--json"]);
    assert_eq!(
        (&seen[0]["height"], &seen[0]["width"]),
        (&json!(40), &json!(50))
    );
    let pixels = seen[0]["classes"].as_array().unwrap().iter();
    let pixels: u64 = pixels.map(|class| class["pixels"].as_u64().unwrap()).sum();
    assert_eq!(pixels, 2000);
    let mask = image::open(workspace.path("masks/000-photo.png")).unwrap();
    assert_eq!((mask.width(), mask.height()), (50, 40));
    // Without the data, the weights say how many classes there are.
    predict(&["--checkpoint", "last", "--out", "last", "--masks"]);
    let weights = workspace.last_checkpoint("run").join("model.safetensors");
    let command = "predict --config scenes.toml --set data.path=nowhere photo.png --out alone --masks --weights";
    let mut words: Vec<&str> = command.split(' ').collect();
    words.push(weights.to_str().unwrap());
    workspace.kvt(&words).assert().success();
    let bytes = |folder: &str| fs_err::read(workspace.path(folder).join("000-photo.png")).unwrap();
    assert!(bytes("alone") == bytes("last"));
    predict(&["--out", "painted"]);
    // Enlarged by six, with a legend below.
    let painted = image::open(workspace.path("painted/000-photo.png")).unwrap();
    assert!(
        painted.width() == 300 && painted.height() > 240,
        "{:?}",
        painted.width()
    );

    let texts = [
        "mean accuracy of the classes",
        "background",
        "% of the pixels right",
    ];
    report_has(&workspace, &texts);
}

#[test]
fn what_does_not_apply_is_refused() {
    let workspace = trained();
    let image = "scenes/images/val/000000.png";
    for (line, reason) in [
        (
            "eval --run run --data scenes",
            "`--data` is for classifiers",
        ),
        (
            "eval --run run --only background",
            "`--only` is for classifiers",
        ),
        (
            &*format!("predict --run run {image}"),
            "`--out DIR` says where",
        ),
        (
            &*format!("predict --run run {image} --output x.csv"),
            "so it is a folder",
        ),
        (
            &*format!("attention-map --run run {image}"),
            "labels pixels, not images",
        ),
        ("probe --run run --method knn", "labels pixels, not images"),
        ("analyze --run run", "labels pixels, not images"),
        ("export --run run m.onnx", "labels pixels, not images"),
        (
            "report run --eval --data scenes",
            "it is judged on the images and masks of its own",
        ),
        (
            "bench forward --config scenes.toml",
            "`kvt bench step` times networks for segmentation",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let error = workspace.error(&words);
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn a_preview_shows_images_with_their_masks() {
    let workspace = workspace(&segment());
    // 32 px are drawn three times as large.
    let (sheet, _) = preview(&workspace, 96);
    let patch = kvt_tools::paint::class_color(0);
    let patches = sheet.pixels().filter(|pixel| pixel.0 == patch).count();
    assert!(patches >= 256, "{patches}");
}

#[test]
fn a_step_is_timed() {
    step_is_timed(&workspace(&segment()), 32);
}

/// Table 4 with tiny models in place of the repository's: half by half, then from the table of its runs.
#[test]
fn table_4_is_made_of_runs() {
    let workspace = workspace(&segment());
    let run = |name: &str, set: &str| {
        format!("[[run]]\nname = \"{name}\"\nconfig = \"../../../scenes.toml\"\nset = [{set}]\n\n")
    };
    let sweep =
        "output = \"runs/table4\"\nseeds = [3, 4]\nmetric = \"miou\"\nset = [\"train.epochs=1\"]\n\
                 pairs = [[\"swin-dense\", \"swin-knn\"]]\n\n"
            .to_owned()
            + &run("swin-dense", "")
            + &run(
                "swin-knn",
                "\"model.attention.kind=knn\", \"model.attention.neighbors=0.5\"",
            );
    workspace.write("configs/reproduce/table4/shapes-short.toml", sweep);
    let length = "epochs = 1\nbatch_size = 4\n";
    workspace.write("objects.toml", detect("objects", 4, ("[64]", 64), length));
    let objects = "output = \"runs/objects\"\nseeds = [3]\nmetric = \"box_ap\"\n\n[[run]]\nname = \"swin-mask_rcnn-dense\"\n\
         config = \"../../../objects.toml\"\n";
    workspace.write(
        "configs/reproduce/table4/shapes-short-mask_rcnn.toml",
        objects,
    );
    let item = ["reproduce", "table4", "--scale", "shapes-short"];
    // A step of both networks is measured.
    let plan = workspace
        .kvt(&[&item[..], &["--dry-run"]].concat())
        .assert()
        .success();
    let plan = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    let timed = plan
        .lines()
        .filter(|line| line.contains("to be trained") && line.contains(" min"));
    assert_eq!(timed.count(), 5, "{plan}");
    let upernet = [&item[..], &["--only", "upernet"]].concat();
    workspace.kvt(&upernet).assert().success();
    assert!(!workspace.path("runs/objects").exists());
    let folder = "runs/reproduce/table4/shapes-short";
    let page = workspace.read(&format!("{folder}/table4.md"));
    for text in [
        "dense and with k-NN attention\n\n**By mIoU, ",
        "Made by `kvt reproduce table4 --scale shapes-short --only upernet`;",
        "Seeds of this half: swin-dense 3, 4; swin-knn 3, 4.\n",
        "No run of this half is finished.\n",
        "| Swin-T | Mask R-CNN 3x | k-NN, a share |  |  |  | 46.2 | ",
        "| Swin-T | UPerNet | k-NN, a share | ",
        "8 of 16",
        "| seen | 44.7 | ",
        "| swin-knn minus swin-dense | ",
        "says neither that k-NN attention is better",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let csv = workspace.read(&format!("{folder}/table4.csv"));
    assert_eq!(csv.lines().count(), 9, "{csv}");

    let svg = workspace.read(&format!("{folder}/table4.svg"));
    assert!(svg.contains("\nSwin-T, UPerNet, k-NN, a share\n"), "{svg}");

    // The other half leaves the first one as it is.
    let log = workspace.read("runs/table4/runs/swin-knn-seed4/log.jsonl");
    let objects = [&item[..], &["--only", "mask_rcnn"]].concat();
    workspace.kvt(&objects).assert().success();
    assert_eq!(
        workspace.read("runs/table4/runs/swin-knn-seed4/log.jsonl"),
        log
    );
    let page = workspace.read(&format!("{folder}/table4.md"));
    for text in [
        "Seeds of this half: swin-dense 3, 4; swin-knn 3, 4.\n",
        "Seeds of this half: swin-mask_rcnn-dense 3.\n",
        "| Swin-T | Mask R-CNN 3x | dense | ",
        "| swin-knn minus swin-dense | ",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let csv = workspace.read(&format!("{folder}/table4.csv"));
    let table = workspace.read(&format!("{folder}/table4-runs.csv"));
    assert!(
        table.contains(",last box_ap75,best box_ap75,last mask_ap,"),
        "{table}"
    );

    // Without the runs, their table is enough.
    fs_err::remove_dir_all(workspace.path("runs")).unwrap();
    workspace.write("known.csv", table);
    let known = [&item[..], &["--known", "known.csv"]].concat();
    workspace.kvt(&known).assert().success();
    assert_eq!(workspace.entries("runs"), ["reproduce"]);
    assert_eq!(workspace.read(&format!("{folder}/table4.csv")), csv);
    let page = workspace.read(&format!("{folder}/table4.md"));
    for text in [
        "| Swin-T | UPerNet | k-NN, a share † | ",
        "| Twins-SVT-Base | UPerNet | dense | ",
        "A row with † has runs that were not trained now",
        "- not trained now, but taken from `known.csv`: swin-dense-seed3, swin-dense-seed4, ",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
}

/// An image of which no pixel has a class teaches nothing.
#[test]
fn images_without_a_class_are_counted() {
    let workspace = workspace(&segment());
    let check = || {
        let output = workspace.line("data check scenes.toml").assert().success();
        String::from_utf8_lossy(&output.get_output().stdout).into_owned()
    };
    assert!(!check().contains("without any pixel"));
    let mask = workspace.path("scenes/masks/val/000001.png");
    image::GrayImage::from_pixel(32, 32, image::Luma([255]))
        .save(mask)
        .unwrap();
    let text = check();
    let line = "1 image in `val` without any pixel that has a class, such as `scenes/images/val/000001.png`: nothing is learned";
    assert!(text.contains(line), "{text}");
}
