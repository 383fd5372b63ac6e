//! The images: where they are, and which keys their kind has.

use crate::config::Plan;
use crate::config::document::Checks;
use crate::data::shapes::{Layout, ShapesConfig};
use crate::data::{Balance, DataConfig, DataKind, DecodeMode, OnError};
use crate::task::TaskKind;

/// Keys of `[data]` that belong to one kind.
const OF_ONE_KIND: [(&str, &str); 3] = [
    (
        "masks",
        "images masks image_suffix mask_suffix list zero ignore map",
    ),
    // Also of a table of labels.
    ("masks", CLASSES),
    (
        "coco",
        "train_annotations val_annotations group_orientation",
    ),
];
const CLASSES: &str = "classes";

/// Leaves out the keys of other kinds, and reports them if no kind is given.
pub(in crate::config) fn leave_other_kinds(known: &mut toml::Table, checks: &mut Checks<'_>) {
    let Some(toml::Value::Table(data)) = known.get_mut("data") else {
        return;
    };
    let text = |key: &str| data.get(key).and_then(toml::Value::as_str).unwrap_or("");
    let kind = text("kind").to_owned();
    let has_labels = ["", "folder"].contains(&text("kind")) && !text("labels").is_empty();
    for (of, keys) in OF_ONE_KIND {
        if of == kind || has_labels && keys == CLASSES {
            continue;
        }
        for key in keys.split(' ') {
            data.remove(key);
            let help = format!("add `kind = \"{of}\"` under `[data]`, or leave it out");
            checks.needs(&format!("data.{key}"), "data.kind", &help);
        }
    }
}

/// Where the images are, a table of labels, and the order in which an epoch has them.
pub(super) fn data(plan: &mut Plan, with_data: bool, checks: &mut Checks<'_>) {
    let data = &mut plan.data;
    path(data, with_data, checks);
    if data.kind != DataKind::Folder {
        without_labels(data, checks);
    }
    if data.kind == DataKind::Coco && plan.task != TaskKind::Detect {
        checks.conflict(
            "data.kind",
            "the images have objects with boxes, but no class each",
            "add `task = \"detect\"` at the top of the file",
        );
    }
    if data.val_fraction > 0.0 {
        refuse_division(data, checks);
    }
    if let Some(shapes) = &mut data.shapes {
        generated(shapes, data.subset, checks);
    }
    if data.cache > 0 && data.decode == DecodeMode::Scaled {
        let expected = "0 with `data.decode = \"scaled\"`";
        checks.refuse("data.cache", &data.cache.to_string(), expected);
    }
    if data.on_error == OnError::Fail {
        data.max_skipped = DataConfig::default().max_skipped;
    }
    if data.balance != Balance::None {
        balance(data, plan.task, checks);
    }
    // Without repeats, dividing the positions of a random order among replicas only gives another random order.
    if data.repeats == 1 {
        data.replicas = 1;
    }
    let (replicas, accumulate) = (data.replicas, plan.train.accumulate);
    if !accumulate.is_multiple_of(replicas) {
        let expected = format!("a divisor of `train.accumulate`, {accumulate}");
        checks.refuse("data.replicas", &replicas.to_string(), &expected);
    }
}

/// The folder of the data: required, except for shapes, which are generated.
fn path(data: &mut DataConfig, with_data: bool, checks: &mut Checks<'_>) {
    let has_path = checks.sets("data.path");
    if data.kind == DataKind::Shapes {
        data.shapes.get_or_insert_default();
        if !has_path {
            data.path = "data/shapes".into();
        }
        return;
    }
    data.shapes = None;
    if !with_data || has_path || checks.refuses("data.kind") {
        return;
    }
    let content = match data.kind {
        DataKind::Tar => "shards at `FOLDER/train/*.tar`",
        DataKind::Parquet => "files such as `FOLDER/train-00000-of-00001.parquet`",
        DataKind::Cifar => "CIFAR's binary files in it",
        DataKind::Masks => {
            "images at `FOLDER/images/train/*` and masks of the same names at `FOLDER/masks/train/*`"
        }
        DataKind::Coco => {
            "images at `FOLDER/train/*` and their annotations in `FOLDER/annotations/instances_train.json`; COCO's splits are \
             `train = \"train2017\"`, `val = \"val2017\"`"
        }
        DataKind::Folder | DataKind::Shapes => {
            "images at `FOLDER/train/<class>/*`, or `kind = \"shapes\"` for generated images"
        }
    };
    let help = format!("add `path = \"FOLDER\"` under `[data]`, with {content}");
    checks.missing("data.path", &help);
}

/// Refuses `data.val_fraction` where the images are divided already: by lists, or by their kind.
fn refuse_division(data: &DataConfig, checks: &mut Checks<'_>) {
    if !data.list.is_empty() {
        let expected = "\"\" with `data.val_fraction`, which divides all images";
        checks.refuse("data.list", &format!("{:?}", data.list), expected);
    }
    if [DataKind::Shapes, DataKind::Cifar, DataKind::Coco].contains(&data.kind) {
        let value = format!("{:?}", data.val_fraction);
        let expected = "0.0: images of this kind have a split for validation already";
        checks.refuse("data.val_fraction", &value, expected);
    }
}

/// `[data.shapes]`, and how many of its training images can be chosen.
fn generated(shapes: &mut ShapesConfig, subset: usize, checks: &mut Checks<'_>) {
    if shapes.layout == Layout::Folder {
        let unused = ShapesConfig::default();
        (shapes.objects, shapes.radius) = (unused.objects, unused.radius);
    }
    if !checks.refuses("data.shapes.classes") && !checks.refuses("data.shapes.train_per_class") {
        let all = shapes.classes * shapes.train_per_class;
        if subset > all {
            let expected = format!("at most {all}, the training images of `[data.shapes]`");
            checks.refuse("data.subset", &subset.to_string(), &expected);
        }
    }
}

/// Refuses what does not go with drawing images by their class.
fn balance(data: &DataConfig, task: TaskKind, checks: &mut Checks<'_>) {
    let mut refuse = |key: &str, value: &str, needed: &str| {
        let expected = format!("{needed} with `data.balance`, which draws images");
        checks.refuse(key, value, &expected);
    };
    if !data.shuffle {
        refuse("data.shuffle", "false", "true");
    }
    if data.repeats > 1 {
        refuse("data.repeats", &data.repeats.to_string(), "1");
    }
    if task != TaskKind::Classify {
        checks.conflict(
            "data.balance",
            "`data.balance` goes by the class of an image, which this task does not have",
            "leave it out",
        );
    }
}

/// Refuses a table of labels that is not read: without it the run would have other labels. A later file or override that chooses another
/// kind disables it.
fn without_labels(data: &mut DataConfig, checks: &mut Checks<'_>) {
    let (key, choice) = ("data.labels", "data.kind");
    let is_meant = !data.labels.is_empty() && !checks.document.is_for_another(key, choice);
    if is_meant && !checks.refuses(choice) {
        let chosen = checks.document.value(choice).and_then(toml::Value::as_str);
        let message = format!(
            "`{key}` does not apply to `{choice} = {:?}`, which has its labels elsewhere",
            chosen.unwrap_or_default()
        );
        let help = "leave it out, or leave `data.kind` out: a table is for images in folders";
        checks.conflict(key, message, help);
    }
    data.labels = String::new();
}
