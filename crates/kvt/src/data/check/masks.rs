//! `kvt data check` of a configuration: of images with masks or objects, with a table of labels, or with any number of labels.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;

use super::{SHOWN, class_table, judged, sizes, tell_bad, tell_unread, told};
use crate::common::{Overrides, generating};
use crate::table::{grouped, table};
use kvt_data::text::{counted, quoted};
use kvt_train::config::load_plan;
use kvt_train::data::{Check, DataKind, MaskCheck, check_labels, check_masks};
use kvt_train::splits::{ensure_data, image_limits};

pub(super) fn run(config: &Path, overrides: &Overrides) -> anyhow::Result<ExitCode> {
    let plan = load_plan(config, &overrides.all())?;
    let data = plan.read_data();
    if !data.labels.is_empty() || data.label_sets {
        return super::tell(&check_labels(&data, image_limits(&plan))?);
    }
    let has_objects = data.kind == DataKind::Coco;
    if !has_objects && !data.is_masks() {
        bail!(
            "the images of `{}` have neither masks nor objects, nor a table of labels, nor any number of labels: `kvt data check {}` checks their folder",
            config.display(),
            plan.data.path.display()
        );
    }
    ensure_data(&plan, &mut generating())?;
    if has_objects {
        return super::objects::run(&data, image_limits(&plan));
    }
    let found = check_masks(&plan.data, image_limits(&plan))?;
    judged(&describe(&found), found.is_sound())
}

fn describe(found: &Check<MaskCheck>) -> String {
    let header = "split,images,sizes,bad pairs,no mask,no image,ignored";
    let rows = found.splits.iter().map(|split| {
        vec![
            split.name.clone(),
            grouped(split.images),
            sizes(split.sizes),
            split.unreadable.len().to_string(),
            split.unpaired.images.len().to_string(),
            (split.unpaired.masks.len() + split.unpaired.listed.len()).to_string(),
            share(split.ignored, pixels(split)),
        ]
    });
    let classes = class_table(
        &found.splits,
        |split| (split.name.as_str(), &split.classes[..]),
        |split, own| share(own, pixels(split)),
    );
    let tables = format!("{}\n\n{classes}", table(header.split(','), rows));
    told(found, vec![tables], tell)
}

/// All pixels of a split.
fn pixels(split: &MaskCheck) -> u64 {
    split.ignored + split.classes.iter().map(|(_, pixels)| pixels).sum::<u64>()
}

fn share(part: u64, of: u64) -> String {
    format!("{:.2} %", 100.0 * part as f64 / of.max(1) as f64)
}

/// Reports the problems of a split.
fn tell(split: &MaskCheck, lines: &mut Vec<String>) {
    let name = &split.name;
    let missing = split.classes.iter().filter(|(_, pixels)| *pixels == 0);
    let missing: Vec<String> = missing.map(|(class, _)| class.clone()).collect();
    if !missing.is_empty() {
        lines.push(format!("no pixel in `{name}` is of {}", quoted(&missing)));
    }
    if let Some(first) = split.unlabelled.first() {
        lines.push(format!(
            "{} in `{name}` without any pixel that has a class, such as `{}`: nothing is learned from such an image",
            counted(split.unlabelled.len(), "image"),
            first.display()
        ));
    }
    tell_bad("bad", &split.unreadable, lines);
    for path in split.unpaired.images.iter().take(SHOWN) {
        lines.push(format!("no mask of `{}`", path.display()));
    }
    for path in split.unpaired.masks.iter().take(SHOWN) {
        lines.push(format!("no image of `{}`", path.display()));
    }
    for listed in split.unpaired.listed.iter().take(SHOWN) {
        lines.push(format!("no image of the name `{listed}` in the list"));
    }
    tell_unread(name, &split.unlisted, &split.others, lines);
}
