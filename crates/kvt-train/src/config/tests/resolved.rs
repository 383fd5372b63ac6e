//! The inverse direction: resolved plans, differences, schema and reference.

use super::*;
use kvt_data::schema::{by_kind, doc, expected, kinds};

#[test]
fn a_resolved_plan_loads_again() {
    for plan in [
        plan_of(SMALL, &[]).unwrap(),
        plan_of(FULL, &[]).unwrap(),
        plan_of(SMALL, &["model.img_size=[64, 96]"]).unwrap(),
        plan_of(FULL, &["data.kind=folder", "model.attention.neighbors=1.0"]).unwrap(),
    ] {
        assert_eq!(plan_of(&resolved_toml(&plan).unwrap(), &[]).unwrap(), plan);
    }
}

/// Every key of `old` has the same value in `new`, which may have more keys.
fn assert_contains(new: &toml::Value, old: &toml::Value, place: &str) {
    let Some(table) = old.as_table() else {
        return assert_eq!(new, old, "{place}");
    };
    for (key, old) in table {
        assert_contains(&new[key], old, &format!("{place}.{key}"));
    }
}

/// Files that version 0.1.0 wrote, before sections were declared next to the code that uses them.
#[test]
fn files_of_the_version_before_mean_the_same() {
    for old in [
        include_str!("../../../tests/fixtures/resolved/knn_shapes.toml"),
        include_str!("../../../tests/fixtures/resolved/dense_folder.toml"),
    ] {
        let plan = plan_of(old, &[]).unwrap();
        let new: toml::Table = resolved_toml(&plan).unwrap().parse().unwrap();
        let old: toml::Table = old.parse().unwrap();
        assert_contains(&toml::Value::Table(new), &toml::Value::Table(old), "");
    }
    let full = include_str!("../../../tests/fixtures/resolved/knn_shapes.toml");
    // That version had no reports of a run by itself, and the default is to write them.
    let full = plan_of(full, &["report.auto=false"]);
    assert_eq!(full.unwrap(), plan_of(FULL, &[]).unwrap());
}

#[test]
fn keys_of_file_plan_and_reference_are_the_same() {
    // The file is as old as its fixture.
    let newer = ["train.patience=3", "train.max_hours=2.5", "model.pool=mean"];
    let plan = plan_of(FULL, &newer).unwrap();
    let written: Vec<String> = entries(&plan).unwrap().into_keys().collect();
    let mut documented = Vec::new();
    let page = reference();
    for section in sections() {
        for field in &section.fields {
            assert!(
                !doc(&field.schema).is_empty(),
                "{} {}",
                section.name,
                field.name
            );
            let expected = by_kind(&field.schema, expected);
            assert!(page.contains(&format!("| `{}` | {expected} |", field.name)));
            // The full file uses only one kind of attention.
            let kinds = kinds(&field.schema);
            if !kinds.is_empty() && !kinds.contains(&"knn") {
                continue;
            }
            documented.push(match section.name.as_str() {
                "" => field.name.clone(),
                name => format!("{name}.{}", field.name),
            });
        }
        assert!(page.contains(&format!("[{}]", section.name)) || section.name.is_empty());
    }
    // A base is only allowed in files, saved logits conflict with a teacher, and shapes have classes.
    documented.retain(|key| !["base", "distill.logits", "data.classes"].contains(&key.as_str()));
    documented.sort();
    assert_eq!(written, documented);
}

#[test]
fn every_key_of_the_full_file_differs_from_its_default() {
    let full = plan_of(FULL, &[]).unwrap();
    let changed: Vec<String> = diff(&plan_of(SMALL, &[]).unwrap(), &full)
        .unwrap()
        .into_iter()
        .map(|difference| difference.key)
        .collect();
    let same: Vec<String> = entries(&full)
        .unwrap()
        .into_keys()
        .filter(|key| !changed.iter().any(|other| other == key))
        .collect();
    // A classifier has neither a student nor a teacher, nor masks or boxes; and the file is as old as its fixture.
    let same: Vec<_> = same
        .into_iter()
        .filter(|key| {
            let others = [
                "dino.",
                "segment.",
                "dense.",
                "detect.",
                "multiscale.",
                "multi_label.",
                // The backbone is frozen.
                "lora.",
            ];
            key != "task" && !others.iter().any(|section| key.starts_with(section))
        })
        .collect();
    // SMALL uses shapes as well, which have no validation fraction, and gradients are clipped in one way. Images in the
    // memory cache are decoded as a whole.
    assert_eq!(
        same,
        [
            "data.balance",
            "data.decode",
            "data.group_orientation",
            "data.ignore",
            "data.image_suffix",
            "data.images",
            "data.kind",
            "data.labels",
            "data.list",
            "data.map",
            "data.mask_suffix",
            "data.masks",
            "data.shapes.layout",
            "data.shapes.objects",
            "data.shapes.radius",
            "data.train_annotations",
            "data.val_annotations",
            "data.val_fraction",
            "data.zero",
            "loss.class_weights",
            "optim.clip_agc",
            "optim.clip_parameter",
            "optim.clip_value",
            "optim.decay",
            "schedule.step_at",
            "schedule.warmup_ratio",
            "schedule.warmup_updates",
            "train.eval_every_updates",
            "train.updates"
        ]
    );
}

#[test]
fn only_differences_without_effect_are_harmless() {
    let old = plan_of(FULL, &[]).unwrap();
    assert_eq!(diff(&old, &old).unwrap(), []);

    let harmless = [
        "run.dir=x",
        "log.every_steps=1",
        "log.tensorboard=true",
        "report.auto=true",
        "checkpoint.every_epochs=1",
        "checkpoint.every_steps=1",
        "checkpoint.keep_last=1",
        "data.path=x",
        "distill.teacher=elsewhere.pth",
        "data.workers=auto",
        "data.prefetch=1",
        "data.cache=0",
        "data.on_error=fail",
        "data.max_pixels=5",
        "data.check_sizes=true",
        "eval.batch_size=1",
        "train.device=wgpu",
        "train.max_steps=1",
    ];
    let refused = [
        "seed=1",
        "model.depth=1",
        "model.attention.kind=dense",
        "data.train=x",
        "data.shuffle=true",
        "data.repeats=2",
        "data.replicas=4",
        "mix.mixup=0.2",
        "mix.off_epoch=0",
        "loss.heads=mean",
        "distill.alpha=0.5",
        "augment.padding=1",
        "optim.lr=1",
        "ema.decay=0.9",
        "optim.name=lion",
        "schedule.counts=finished",
        "train.epochs=1",
        "train.batch_size=1",
        "train.eval_every=1",
    ];
    for (sets, is_harmless) in [(&harmless[..], true), (&refused[..], false)] {
        for set in sets {
            let differences = diff(&old, &plan_of(FULL, &[set]).unwrap()).unwrap();
            assert!(!differences.is_empty(), "{set}");
            for difference in differences {
                assert_eq!(difference.is_harmless, is_harmless, "{set}");
            }
        }
    }

    let new = plan_of(SMALL, &["train.epochs=3"]).unwrap();
    let shown: Vec<String> = diff(&old, &new)
        .unwrap()
        .iter()
        .filter(|difference| difference.key.starts_with("train."))
        .map(ToString::to_string)
        .collect();
    assert_snapshot!(shown.join("\n"), @r#"
    `train.accumulate`: `4` -> `1`
    `train.batch_size`: `8` -> `64`
    `train.device`: `"cpu"` -> `"auto"`
    `train.epochs`: `2` -> `3`
    `train.eval_every`: `0` -> `1`
    `train.max_steps`: `100` -> not set
    `train.precision`: `"bf16"` -> `"f32"`
    `train.sync_batch_norm`: `false` -> `true`
    "#);
}

#[test]
fn the_schema_is_closed_and_knows_no_null() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    let knn = &schema["properties"]["model"]["properties"]["attention"]["properties"];
    assert_eq!(knn["neighbors"]["default"], 0.5);
    assert!(!schema.to_string().contains("null"));
}

#[test]
fn the_reference_shows_type_default_and_meaning() {
    let page = reference();
    let lines: Vec<&str> = page
        .lines()
        .filter(|line| {
            [
                "depth",
                "kind",
                "neighbors",
                "workers",
                "betas",
                "scale",
                "max_steps",
                "hflip",
                "seed",
            ]
            .iter()
            .any(|key| line.starts_with(&format!("| `{key}`")))
        })
        .collect();
    assert_snapshot!(without_kinds(&lines.join("\n")), @r#"
    | `seed` | integer >= 0 | `0` | Seed of everything random: initial weights, order of the images, augmentation, dropout. |
    | `hflip` | float in [0, 1] | `0.5`, with none `0.0` | Probability of a horizontal flip. |
    | `scale` | list of 2 x float in (0, 1] | `[0.08, 1.0]` | Smallest and largest area of the random resized crop as a share of the image; only imagenet. |
    | `kind` | `"folder"` or `"shapes"` or `"tar"` or `"parquet"` or `"cifar"` or `"masks"` or `"coco"` | `"folder"` | An image folder, tar shards, Parquet files, CIFAR's own files, generated shapes, images with masks, or COCO's images and objects. |
    | `workers` | `"auto"` or integer in [0, 1024] | `"auto"` | Threads that decode and augment; `"auto"` is the number of cores, at most 8, and 0 works on the training thread. The result does not depend on it. |
    | `seed` | integer >= 0 | `0` | Seed of the images, independent of the run's seed. |
    | `hflip` | float in [0, 1] | `0.5` | Probability of a horizontal flip. |
    | `scale` | list of 2 x integer in [1, 65500] | `[2048, 512]` | Longest and shortest side that an image is resized to, in pixels: the larger size that keeps both. An evaluation resizes to it; training multiplies it by a random number. |
    | `kind` | `"none"` or `"hard"` or `"soft"` | `"none"` | Whether, and what of the teacher is learned: its best class, or its whole distribution. |
    | `kind` | `"cross-entropy"` or `"bce"` | `"cross-entropy"` | Cross-entropy, or the binary cross-entropy of each class by itself. |
    | `depth` | integer >= 1 or non-empty list of them | the model's own | Number of transformer blocks: one number, or a list with one per stage of the model. |
    | `kind` | KINDS | `"dense"` | The mechanism. |
    | `neighbors` | integer >= 1 (a count) or float in (0, 1] (a share of the keys) or non-empty list of them | `0.5` | How many keys a query keeps, or a list with one entry per stage of the model. Only with `knn`. |
    | `seed` | integer >= 0 | `0` | Seed of the random numbers of evaluation. Only with `favor`, `performer`, `performer-relu`, `rfa`, `clustered`, `clustered-improved`, `informer`, `scram`. |
    | `kind` | KINDS | `"dense"` | The mechanism. |
    | `neighbors` | integer >= 1 (a count) or float in (0, 1] (a share of the keys) or non-empty list of them | `0.5` | How many keys a query keeps, or a list with one entry per stage of the model. Only with `knn`. |
    | `seed` | integer >= 0 | `0` | Seed of the random numbers of evaluation. Only with `favor`, `performer`, `performer-relu`, `rfa`, `clustered`, `clustered-improved`, `informer`, `scram`. |
    | `hflip` | float in [0, 1] | `0.5` | Probability of a horizontal flip. |
    | `betas` | list of 2 x float in [0, 1) | `[0.9, 0.999]`, with lion `[0.9, 0.99]` | Decay of the first and second moment of `adamw`, `lamb`, and the part of `muon` that is AdamW; of `lion`, the weight of the momentum in an update, and the decay of the momentum. |
    | `kind` | `"cosine"` or `"linear"` or `"step"` or `"poly"` or `"constant"` | `"cosine"` | Shape of the learning rate after the warm-up. |
    | `max_steps` | integer >= 1 | none: all epochs | Ends the run after this many updates, wherever that is. |
    "#);
}

/// The kinds of attention are described once, below the first table.
#[test]
fn the_reference_describes_every_kind_of_attention_once() {
    let page = reference();
    for kind in kvt_attention::AttentionConfig::KINDS {
        assert_eq!(
            page.matches(&format!("\n- `{kind}`: ")).count(),
            1,
            "{kind}"
        );
    }
    let (before, after) = page.split_once("\n- `dense`: ").unwrap();
    assert!(
        before.contains("## `[model.attention]`")
            && !before.contains("## `[model.class_attention]`")
    );
    assert!(after.contains("\nThe kinds are those of `[model.attention]`.\n"));
    let attention = before.split("## `[model.attention]`").nth(1).unwrap();
    let kind = attention.find("| `kind` |").unwrap();
    assert!(kind < attention.find("| `implementation` |").unwrap());
}
