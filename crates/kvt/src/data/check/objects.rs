//! `kvt data check` of images with objects.

use std::process::ExitCode;

use super::{SHOWN, class_table, judged, sizes, tell_bad, told};
use crate::table::{grouped, table};
use kvt_data::text::{counted, quoted};
use kvt_train::data::{Check, CocoCheck, DataConfig, ImageLimits, check_coco};

pub(super) fn run(data: &DataConfig, limits: ImageLimits) -> anyhow::Result<ExitCode> {
    let found = check_coco(data, limits)?;
    judged(&describe(&found), found.is_sound())
}

fn describe(found: &Check<CocoCheck>) -> String {
    let header = "split,images,without objects,sizes,bad images,objects,left out,without a mask,bad annotations";
    let rows = found.splits.iter().map(|split| {
        let left_out = split.left_out.values();
        vec![
            split.name.clone(),
            grouped(split.images),
            grouped(split.without_objects),
            sizes(split.sizes),
            split.unreadable.len().to_string(),
            grouped(split.objects()),
            grouped(left_out.sum()),
            grouped(split.without_mask),
            split.bad.len().to_string(),
        ]
    });
    let classes = class_table(
        &found.splits,
        |split| (split.name.as_str(), &split.classes[..]),
        |_, objects| grouped(objects),
    );
    let tables = format!("{}\n\n{classes}", table(header.split(','), rows));
    told(found, vec![tables], tell)
}

/// Reports the problems of a split.
fn tell(split: &CocoCheck, lines: &mut Vec<String>) {
    let name = &split.name;
    lines.extend(split.notes.iter().cloned());
    let missing = split.classes.iter().filter(|(_, objects)| *objects == 0);
    let missing: Vec<String> = missing.map(|(class, _)| class.clone()).collect();
    if !missing.is_empty() {
        lines.push(format!("no object in `{name}` is of {}", quoted(&missing)));
    }
    for (reason, count) in &split.left_out {
        lines.push(format!(
            "left out in `{name}`: {} {}",
            grouped(*count),
            reason.words()
        ));
    }
    if split.empty_masks > 0 {
        lines.push(format!(
            "{} in `{name}` with a mask that has no pixel of its image: are its numbers pixels?",
            counted(split.empty_masks, "object")
        ));
    }
    if split.id_zero > 0 {
        lines.push(format!(
            "{} in `{}` with the id 0, which pycocotools takes for none",
            counted(split.id_zero, "object"),
            split.annotations.display()
        ));
    }
    tell_bad("bad", &split.unreadable, lines);
    for bad in split.bad.iter().take(SHOWN) {
        lines.push(format!(
            "bad annotation {} in `{}`: {}",
            bad.id,
            split.annotations.display(),
            bad.fault
        ));
    }
}
