//! Settings that are allowed but probably not intended.

use super::*;

fn of(sets: &[&str]) -> Vec<String> {
    let plan = plan_of(SMALL, sets).unwrap();
    warnings(&plan, &plan.model.config(None).unwrap(), None)
}

/// 5000 generated images in batches of 64: 78 updates per epoch.
#[test]
fn a_warm_up_that_fills_the_run() {
    assert_eq!(of(&[]), Vec::<String>::new());
    assert_snapshot!(of(&["train.epochs=5"]).join("\n"), @"the warm-up (`schedule.warmup_epochs` = 5) is not shorter than the run: the learning rate never reaches its full value");
    assert_eq!(of(&["train.epochs=6"]).len(), 0);
    let endless = of(&["schedule.warmup_epochs=1e300"]).join("\n");
    assert!(
        endless.contains("(`schedule.warmup_epochs` = 1e300)"),
        "{endless}"
    );
    assert_eq!(of(&["train.max_steps=390"]).len(), 1);
    assert_eq!(of(&["train.max_steps=391"]).len(), 0);
    assert_eq!(
        of(&["train.max_steps=1", "schedule.warmup_epochs=0"]).len(),
        0
    );
}

#[test]
fn a_count_of_neighbors_that_is_no_selection() {
    let knn = |neighbors: &str| of(&["model.attention.kind=knn", neighbors]);
    assert_snapshot!(knn("model.attention.neighbors=197").join("\n"), @"`model.attention.neighbors` = 197 keeps each of the 197 keys in `blocks`: attention is dense there");
    assert_eq!(knn("model.attention.neighbors=196").len(), 0);
    // A fraction of 1 is explicit.
    assert_eq!(knn("model.attention.neighbors=1.0").len(), 0);
    // Windows of 49 keys in each of four stages.
    let swin = |neighbors: &str| {
        of(&[
            "model.name=swin_tiny_patch4_window7_224",
            "model.attention.kind=knn",
            neighbors,
        ])
    };
    assert_eq!(swin("model.attention.neighbors=100").len(), 4);
    assert_eq!(swin("model.attention.neighbors=[48, 49, 0.5, 50]").len(), 2);
}

/// 78 updates per epoch, 300 epochs: 23,400 updates.
#[test]
fn an_average_over_more_updates_than_there_are() {
    assert_snapshot!(of(&["ema.decay=0.99996"]).join("\n"), @"`ema.decay` = 0.99996 averages over 25000 updates, but the run has 23400: the average stays near the initial weights");
    assert_eq!(of(&["ema.decay=0.9999"]).len(), 0);
    assert_eq!(of(&["ema.decay=0.99", "train.max_steps=99"]).len(), 2);
}

#[test]
fn a_data_folder_that_is_not_there() {
    let folder = of(&["data.kind=folder", "data.path=nowhere"]);
    assert_snapshot!(folder.join("\n"), @r"
    no folder `nowhere/train`, as `data.path` says
    no folder `nowhere/val`, as `data.path` says
    ");
}

#[test]
fn a_table_of_labels_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = || {
        let path = format!("data.path={:?}", folder.path());
        of(&["data.kind=folder", "data.labels=labels.csv", &path])
    };
    let table = folder.path().join("labels.csv");
    let expected = format!("no file `{}`, as `data.labels` says", table.display());
    assert_eq!(warnings(), [expected]);
    fs_err::write(&table, "path,label\n").unwrap();
    assert_eq!(warnings(), Vec::<String>::new());
    // Of a folder that is not there, this is enough.
    let folder = of(&[
        "data.kind=folder",
        "data.labels=labels.csv",
        "data.path=nowhere",
    ]);
    assert_eq!(folder, ["no folder `nowhere`, as `data.path` says"]);
}
