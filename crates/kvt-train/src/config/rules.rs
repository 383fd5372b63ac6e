//! The rules over several keys, and those that need more than a schema: defaults that depend on other keys, what is
//! required when, which values fit each other.

use std::path::Path;

use super::Plan;
use super::document::{Checks, closest};
use super::problem::Problem;
use super::reference::{Field, section};
use crate::data::{DataConfig, DataKind, DecodeMode, OnError};
use crate::device::{NAMES, Wanted};
use crate::schema::kinds;

/// Fills in the defaults that depend on other keys, gives what another key switches off its default, and reports what
/// does not fit. Without `with_data` the data may be missing.
pub(super) fn complete(plan: &mut Plan, with_data: bool, checks: &mut Checks<'_>) {
    model(plan, checks);
    data(plan, with_data, checks);

    let augment = &mut plan.augment;
    if !checks.sets("augment.hflip") {
        augment.hflip = augment.preset.hflip();
    }
    if !checks.sets("augment.crop_pct") {
        augment.crop_pct = augment.preset.crop_pct();
    }
    for (key, [low, high]) in augment.reversed() {
        let (key, pair) = (format!("augment.{key}"), format!("[{low:?}, {high:?}]"));
        checks.refuse(&key, &pair, "the smaller value first");
    }

    // Without gradients twice as many images fit.
    if !checks.sets("eval.batch_size") {
        plan.eval.batch_size = 2 * plan.train.batch_size;
    }
    // Whether this machine has the device, only those ask who use it.
    let device = &plan.train.device;
    if device.parse::<Wanted>().is_err() {
        checks.refuse("train.device", &format!("{device:?}"), NAMES);
    }
    if !checks.sets("run.dir") {
        plan.run.dir = Path::new("runs").join(checks.document.name());
    }
}

fn model(plan: &mut Plan, checks: &mut Checks<'_>) {
    let names = kvt_models::names();
    let names = || names.iter().map(String::as_str);
    let name = plan.model.name.as_str();
    match checks.set_place("model.name") {
        None => {
            let example = names().next().unwrap_or_default();
            let help = format!("add `name = \"{example}\"` under `[model]`");
            checks.missing("model.name", &help);
        }
        Some(place) if !checks.refuses("model.name") && !names().any(|known| known == name) => {
            let help = match closest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`kvt models list` names them all".to_owned(),
            };
            let problem = Problem::new(place, format!("unknown model `{name}`"));
            checks.problems.push(problem.help(help));
        }
        Some(_) => {}
    }

    // An explicit `kind = "dense"` may switch off the neighbours of a base; silence may not.
    let keys = section("model.attention").map_or(&[][..], |section| &section.fields);
    for Field { name, schema, .. } in keys {
        let of_kinds = kinds(schema);
        let place = checks.set_place(&format!("model.attention.{name}"));
        if let (Some(kind), Some(place)) = (of_kinds.first(), place)
            && !of_kinds.contains(&"dense")
            && !checks.sets("model.attention.kind")
        {
            let message = format!("`{name}` is set, but nothing says which attention");
            let help = format!("add `kind = \"{kind}\"` under `[model.attention]`, or \"dense\"");
            checks
                .problems
                .push(Problem::new(place, message).help(help));
        }
    }

    // Named models have no dropout, and dense attention.
    let overrides = &mut plan.model.overrides;
    overrides.drop_path.get_or_insert(0.0);
    overrides.attn_drop.get_or_insert(0.0);
    overrides.attention.get_or_insert_default();

    let init = &mut plan.init;
    if let Some(path) = &init.weights {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if !matches!(ending, Some("safetensors" | "pth")) {
            let (value, expected) = (path.display(), "a `.safetensors` or `.pth` file");
            checks.refuse("init.weights", &value.to_string(), expected);
        }
    }
    init.reset_head &= init.weights.is_some();
}

fn data(plan: &mut Plan, with_data: bool, checks: &mut Checks<'_>) {
    let data = &mut plan.data;
    let has_path = checks.sets("data.path");
    match data.kind {
        DataKind::Shapes => {
            data.shapes.get_or_insert_default();
            if !has_path {
                data.path = "data/shapes".into();
            }
        }
        kind => {
            data.shapes = None;
            if with_data && !has_path && !checks.refuses("data.kind") {
                let help = match kind {
                    DataKind::Tar => {
                        "add `path = \"FOLDER\"` under `[data]`, with shards at `FOLDER/train/*.tar`"
                    }
                    DataKind::Cifar => {
                        "add `path = \"FOLDER\"` under `[data]`, with CIFAR's binary files in it"
                    }
                    DataKind::Folder | DataKind::Shapes => {
                        "add `path = \"FOLDER\"` under `[data]`, with images at `FOLDER/train/<class>/*`, or \
                         `kind = \"shapes\"` for generated images"
                    }
                };
                checks.missing("data.path", help);
            }
        }
    }
    if data.val_fraction > 0.0 && matches!(data.kind, DataKind::Shapes | DataKind::Cifar) {
        let (value, expected) = (
            format!("{:?}", data.val_fraction),
            "0.0 for data that is divided",
        );
        checks.refuse("data.val_fraction", &value, expected);
    }
    if data.cache > 0 && data.decode == DecodeMode::Scaled {
        let (value, expected) = (data.cache.to_string(), "0 with `data.decode = \"scaled\"`");
        checks.refuse("data.cache", &value, expected);
    }
    if data.on_error == OnError::Fail {
        data.max_skipped = DataConfig::default().max_skipped;
    }
}
