#![expect(clippy::unwrap_used, reason = "tests")]

use tempfile::TempDir;

use super::manifest::MANIFEST;
use super::*;

fn setup() -> (TempDir, Checkpoints) {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(&RunDir::of_another(folder.path()));
    (folder, checkpoints)
}

/// Saves two files, one of which contains the step, and the step as state.
fn save(checkpoints: &Checkpoints, step: u64, best: bool) -> Vec<String> {
    let files = |folder: &Path| -> Result<_, RunError> {
        fs::write(folder.join("model"), format!("model {step}"))?;
        fs::write(folder.join("optim"), vec![7; 100_000])?;
        Ok(vec!["model".to_owned(), "optim".to_owned()])
    };
    let saved = checkpoints.save(step, (Stage::Done, best), &step, files);
    saved.unwrap()
}

fn load(checkpoints: &Checkpoints, which: Which<'_>) -> (u64, Option<String>) {
    let (checkpoint, warning) = checkpoints.load(which).unwrap();
    let step = checkpoint.state().unwrap();
    assert_eq!(
        fs::read_to_string(checkpoint.file("model")).unwrap(),
        format!("model {step}")
    );
    (step, warning)
}

fn entries(checkpoints: &Checkpoints) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(&checkpoints.folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A folder that cannot be listed may have checkpoints.
#[cfg(unix)]
#[test]
fn only_a_missing_folder_has_no_checkpoints() {
    let (_folder, checkpoints) = setup();
    assert_eq!(checkpoints.names().unwrap(), []);
    // A link to itself.
    std::os::unix::fs::symlink(&checkpoints.folder, &checkpoints.folder).unwrap();
    assert!(matches!(checkpoints.names(), Err(RunError::Io(_))));
}

#[test]
fn last_and_best_are_kept_and_the_others_deleted() {
    let (_folder, checkpoints) = setup();
    for (step, best) in [(10, true), (20, true), (30, false), (40, false)] {
        assert!(save(&checkpoints, step, best).is_empty());
    }
    assert_eq!(
        entries(&checkpoints),
        ["best", "last", "step-00000020", "step-00000040"]
    );
    assert_eq!(load(&checkpoints, Which::Last), (40, None));
    assert_eq!(load(&checkpoints, Which::Best), (20, None));
    let path = checkpoints.folder.join("step-00000020");
    assert_eq!(load(&checkpoints, Which::from(path.as_path())), (20, None));
    assert_eq!(
        ["last", "best"].map(|name| Which::from(Path::new(name))),
        [Which::Last, Which::Best]
    );
}

/// Each save deletes the checkpoint before it, which is both `last` and `best`.
#[test]
fn a_checkpoint_that_a_run_replaces_meanwhile_gives_way_to_the_newer_one() {
    for pointer in [LAST, BEST] {
        let (_folder, checkpoints) = setup();
        save(&checkpoints, 1, true);
        let mut tried = Vec::new();
        let mut replaced_until = |last: u64| {
            tried.clear();
            let found = checkpoints.pointed(pointer, |path| {
                let step = Name::parse(path.file_name().unwrap().to_str().unwrap())
                    .unwrap()
                    .step;
                tried.push(step);
                if step < last {
                    save(&checkpoints, step + 1, true);
                }
                Checkpoint::load(path)
            });
            let step = found.map(|found| found.unwrap().state::<u64>().unwrap());
            (step.ok(), tried.clone())
        };
        assert_eq!(replaced_until(1), (Some(1), vec![1]));
        assert_eq!(replaced_until(3), (Some(3), vec![1, 2, 3]));
        // It ends, even if each is replaced.
        assert_eq!(replaced_until(100), (None, (3..=13).collect()));
        // One that is broken, and that nothing replaces.
        fs::remove_file(checkpoints.folder.join("step-00000014/model")).unwrap();
        assert_eq!(replaced_until(14), (None, vec![14]));
    }
}

#[test]
fn nothing_saved_is_told_apart_from_something_broken() {
    let (_folder, checkpoints) = setup();
    for which in [Which::Last, Which::Best] {
        let error = checkpoints.load(which).unwrap_err();
        assert!(matches!(error, RunError::NoCheckpoint { .. }), "{error}");
    }
    save(&checkpoints, 1, false);
    assert!(matches!(
        checkpoints.load(Which::Best),
        Err(RunError::NoCheckpoint { .. })
    ));
    fs::remove_file(checkpoints.folder.join("step-00000001/model")).unwrap();
    let error = checkpoints.load(Which::Last).unwrap_err();
    assert!(
        matches!(error, RunError::NoUsableCheckpoint { .. }),
        "{error}"
    );
}

#[test]
fn every_kind_of_damage_names_the_file_and_falls_back() {
    type Damage = (&'static str, fn(&Path));
    let damages: [Damage; 7] = [
        ("`model` is missing", |path| {
            fs::remove_file(path.join("model")).unwrap();
        }),
        ("`optim` has 99999 bytes instead of 100000", |path| {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(path.join("optim"))
                .unwrap();
            file.set_len(99_999).unwrap();
        }),
        ("`optim` was altered", |path| {
            let mut bytes = fs::read(path.join("optim")).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(path.join("optim"), bytes).unwrap();
        }),
        ("`state.json` has 3 bytes instead of 2", |path| {
            fs::write(path.join("state.json"), "21\n").unwrap();
        }),
        ("`manifest.json` is missing", |path| {
            fs::remove_file(path.join(MANIFEST)).unwrap();
        }),
        ("`manifest.json` does not parse", |path| {
            let text = fs::read_to_string(path.join(MANIFEST)).unwrap();
            fs::write(path.join(MANIFEST), text.get(..text.len() / 2).unwrap()).unwrap();
        }),
        ("`manifest.json` is missing", |path| {
            fs::remove_dir_all(path).unwrap();
        }),
    ];
    for (message, damage) in damages {
        let (_folder, checkpoints) = setup();
        save(&checkpoints, 1, true);
        save(&checkpoints, 2, false);
        damage(&checkpoints.folder.join("step-00000002"));
        let (step, warning) = load(&checkpoints, Which::Last);
        let text = warning.unwrap();
        assert_eq!(step, 1);
        assert!(text.contains(message), "{text}");
        assert!(text.contains("step-00000001"), "{text}");
    }
}

#[test]
fn a_broken_best_is_an_error() {
    let (_folder, checkpoints) = setup();
    save(&checkpoints, 1, true);
    save(&checkpoints, 2, false);
    fs::remove_file(checkpoints.folder.join("step-00000001/optim")).unwrap();
    let error = checkpoints.load(Which::Best).unwrap_err();
    assert!(error.to_string().contains("`optim` is missing"), "{error}");
}

#[test]
fn a_manifest_cannot_lead_out_of_its_folder() {
    let (_folder, checkpoints) = setup();
    save(&checkpoints, 1, false);
    let path = checkpoints.folder.join("step-00000001").join(MANIFEST);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"model\"", "\"../last\"")).unwrap();
    let error = checkpoints.load(Which::Last).unwrap_err();
    assert!(
        error.to_string().contains("`../last` is not a file name"),
        "{error}"
    );
}

#[test]
fn a_newer_format_is_refused() {
    let (_folder, checkpoints) = setup();
    save(&checkpoints, 1, false);
    let path = checkpoints.folder.join("step-00000001").join(MANIFEST);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"format\": 1", "\"format\": 2")).unwrap();
    let error = checkpoints.load(Which::Last).unwrap_err();
    assert!(error.to_string().contains("its format is 2"), "{error}");
}

/// The states that a killed process can leave, in the order of `save`. Each must load the previous checkpoint, or the new one
/// once it is complete, and must not disturb the next save.
#[test]
fn a_crash_at_any_point_loses_nothing() {
    type Crash = (u64, fn(&Checkpoints));
    let crashes: [Crash; 5] = [
        // While the files are written.
        (1, |checkpoints| {
            // Under the name that the next save, with the same pid and step, will use.
            let folder = checkpoints.temporary("step-00000003");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("model"), "mod").unwrap();
            fs::write(folder.join("extra"), "").unwrap();
        }),
        // Before the rename of the folder.
        (1, |checkpoints| {
            save(checkpoints, 2, false);
            fs::rename(
                checkpoints.folder.join("step-00000002"),
                checkpoints.folder.join(".step-00000002.tmp-1"),
            )
            .unwrap();
            checkpoints.point(LAST, "step-00000001").unwrap();
        }),
        // Before the pointer is replaced, with its temporary file half written.
        (1, |checkpoints| {
            save(checkpoints, 2, false);
            checkpoints.point(LAST, "step-00000001").unwrap();
            fs::write(checkpoints.folder.join(".kvt-tmp-x"), "step-0000").unwrap();
        }),
        // Before `best` is updated: it still names the older one.
        (2, |checkpoints| {
            save(checkpoints, 2, false);
        }),
        // While an old checkpoint is deleted.
        (2, |checkpoints| {
            save(checkpoints, 2, false);
            let folder = checkpoints.folder.join(".step-00000000.tmp-1");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(MANIFEST), "{}").unwrap();
        }),
    ];
    for (expected, crash) in crashes {
        let (_folder, checkpoints) = setup();
        save(&checkpoints, 1, true);
        crash(&checkpoints);
        assert_eq!(load(&checkpoints, Which::Last), (expected, None));
        assert_eq!(load(&checkpoints, Which::Best), (1, None));
        assert!(save(&checkpoints, 3, true).is_empty());
        assert_eq!(load(&checkpoints, Which::Last), (3, None));
        let names = entries(&checkpoints);
        assert_eq!(names, ["best", "last", "step-00000003"]);
        assert!(!checkpoints.folder.join("step-00000003/extra").exists());
    }
}

#[test]
fn a_failing_writer_leaves_the_previous_checkpoint_and_no_rest() {
    let (_folder, checkpoints) = setup();
    save(&checkpoints, 1, true);
    let before = entries(&checkpoints);
    let model = |folder: &Path| {
        fs::write(folder.join("model"), "half")?;
        Err(RunError::Io(io::Error::new(
            io::ErrorKind::StorageFull,
            "disk full",
        )))
    };
    let error = checkpoints
        .save(2, (Stage::Done, true), &2_u64, model)
        .unwrap_err();
    assert_eq!(error.to_string(), "disk full");
    assert_eq!(entries(&checkpoints), before);
    assert_eq!(load(&checkpoints, Which::Last), (1, None));
    assert_eq!(load(&checkpoints, Which::Best), (1, None));
}

#[test]
fn a_step_saved_again_replaces_the_first_only_when_complete() {
    let (_folder, checkpoints) = setup();
    save(&checkpoints, 5, true);
    save(&checkpoints, 5, false);
    assert_eq!(
        entries(&checkpoints),
        ["best", "last", "step-00000005", "step-00000005-2"]
    );
    // The second attempt is the newer of the two.
    fs::remove_file(checkpoints.folder.join(LAST)).unwrap();
    let (checkpoint, warning) = checkpoints.load(Which::Last).unwrap();
    assert!(checkpoint.path().ends_with("step-00000005-2"));
    assert!(warning.is_some());
}

#[test]
fn of_the_latest_steps_one_checkpoint_each_is_kept() {
    let (_folder, checkpoints) = setup();
    let checkpoints = checkpoints.keeping(2);
    let none = |_: &Path| Ok::<_, RunError>(Vec::new());
    for step in [10, 20, 30] {
        for stage in [Stage::BeforeEval, Stage::Done] {
            let best = step == 10 && stage == Stage::Done;
            checkpoints.save(step, (stage, best), &step, none).unwrap();
        }
    }
    fs::create_dir(checkpoints.folder.join("step-00000010-mine")).unwrap();
    checkpoints
        .save(40, (Stage::BeforeEval, false), &40, none)
        .unwrap();
    let expected = [
        "best",
        "last",
        // The best, a user's own folder, and the two latest steps.
        "step-00000010",
        "step-00000010-mine",
        "step-00000030",
        "step-00000040-before-eval",
    ];
    assert_eq!(entries(&checkpoints), expected);
}

fn settle(
    checkpoints: &Checkpoints,
    which: Which<'_>,
    best: Option<u64>,
) -> (u64, Vec<String>, bool) {
    let (mut recovered, _) = checkpoints.recover(which).unwrap();
    let mut warnings = Vec::new();
    let settled = checkpoints.settle(&mut recovered, best.map(Some), &mut warnings);
    let best_is_lost = settled.unwrap();
    // After any damage, the next start finds a consistent folder.
    let step = recovered.state().unwrap();
    assert_eq!(load(checkpoints, Which::Last), (step, None));
    (step, warnings, best_is_lost)
}

/// Steps 1 (the best) to 3, all kept.
fn three() -> (TempDir, Checkpoints) {
    let (folder, checkpoints) = setup();
    let checkpoints = checkpoints.keeping(9);
    for step in 1..=3 {
        save(&checkpoints, step, step == 1);
    }
    (folder, checkpoints)
}

#[test]
fn a_broken_last_checkpoint_is_set_aside_and_not_deleted() {
    let (_folder, checkpoints) = three();
    fs::write(checkpoints.folder.join("step-00000003/model"), "modem 3").unwrap();
    let (step, warnings, best_is_lost) = settle(&checkpoints, Which::Last, Some(1));
    assert_eq!((step, best_is_lost), (2, false));
    assert!(
        warnings[0].contains("set-aside-step-00000003"),
        "{warnings:?}"
    );
    for _ in 0..2 {
        save(&checkpoints, 3, false);
    }
    let aside = checkpoints.folder.join("set-aside-step-00000003/model");
    assert_eq!(fs::read_to_string(aside).unwrap(), "modem 3");
}

#[test]
fn going_on_from_an_older_checkpoint_keeps_the_newer_ones_aside() {
    let (_folder, checkpoints) = three();
    let best = settle(&checkpoints, Which::Best, Some(1));
    assert_eq!((best.0, best.1.len(), best.2), (1, 2, false));
    let names = [
        "best",
        "last",
        "set-aside-step-00000002",
        "set-aside-step-00000003",
        "step-00000001",
    ];
    assert_eq!(entries(&checkpoints), names);
    // And back again, under every form of the name.
    let aside = checkpoints.folder.join("set-aside-step-00000002");
    assert_eq!(settle(&checkpoints, Which::Path(&aside), Some(1)).0, 2);
    let name = Path::new("set-aside-step-00000003");
    assert_eq!(settle(&checkpoints, Which::Path(name), Some(1)).0, 3);
    assert_eq!(
        settle(
            &checkpoints,
            Which::Path(Path::new("step-00000002")),
            Some(1)
        )
        .0,
        2
    );
}

#[test]
fn checkpoints_of_other_runs_are_refused() {
    let (_folder, checkpoints) = three();
    let (_other, others) = three();
    for path in [others.folder.join("step-00000001"), "/".into(), "..".into()] {
        let error = checkpoints.recover(Which::Path(&path)).unwrap_err();
        assert!(
            matches!(error, RunError::ForeignCheckpoint { .. }),
            "{error}"
        );
    }
    let error = checkpoints
        .recover(Which::Path(Path::new("step-9")))
        .unwrap_err();
    assert!(
        matches!(error, RunError::ForeignCheckpoint { .. }),
        "{error}"
    );
}

#[test]
fn a_file_is_told_from_a_checkpoint() {
    let (folder, checkpoints) = three();
    let file = folder.path().join("epoch=3.ckpt");
    fs::write(&file, "weights").unwrap();
    for error in [
        checkpoints.recover(Which::Path(&file)).unwrap_err(),
        checkpoints.load(Which::Path(&file)).unwrap_err(),
    ] {
        let error = error.to_string();
        let start = format!("`{}` is a file, as PyTorch and Lightning", file.display());
        assert!(error.starts_with(&start), "{error}");
        assert!(error.ends_with("with `init.weights`"), "{error}");
    }
}

#[test]
fn a_lost_best_is_found_again_or_said_to_be_lost() {
    // Only the pointer is lost, is garbage, or names another checkpoint: the step identifies the best.
    for damage in [None, Some(""), Some("../x"), Some("step-00000002")] {
        let (_folder, checkpoints) = three();
        match damage {
            None => fs::remove_file(checkpoints.folder.join(BEST)).unwrap(),
            Some(text) => fs::write(checkpoints.folder.join(BEST), text).unwrap(),
        }
        assert_eq!(
            settle(&checkpoints, Which::Last, Some(1)),
            (3, vec![], false)
        );
        assert_eq!(load(&checkpoints, Which::Best), (1, None));
    }
    // The best is broken.
    let (_folder, checkpoints) = three();
    fs::write(checkpoints.folder.join("step-00000001/model"), "").unwrap();
    let (_, warnings, best_is_lost) = settle(&checkpoints, Which::Last, Some(1));
    assert!(
        best_is_lost && warnings[0].contains("set-aside-step-00000001"),
        "{warnings:?}"
    );
    // The best is gone.
    let (_folder, checkpoints) = three();
    fs::remove_dir_all(checkpoints.folder.join("step-00000001")).unwrap();
    assert!(settle(&checkpoints, Which::Last, Some(1)).2);
    assert!(matches!(
        checkpoints.load(Which::Best),
        Err(RunError::NoCheckpoint { .. })
    ));
    // No evaluation yet at the checkpoint: the pointer is to steps that will be repeated.
    let (_folder, checkpoints) = three();
    assert!(!settle(&checkpoints, Which::Last, None).2);
    assert!(!checkpoints.folder.join(BEST).exists());
}

#[test]
fn a_complete_checkpoint_that_is_not_yet_the_last_is_gone_on_from() {
    let (_folder, checkpoints) = three();
    checkpoints.point(LAST, "step-00000001").unwrap();
    checkpoints.point(BEST, "step-00000003").unwrap();
    assert_eq!(
        settle(&checkpoints, Which::Last, Some(1)),
        (3, vec![], false)
    );
    assert_eq!(load(&checkpoints, Which::Best), (1, None));
}

#[test]
fn a_checkpoint_that_was_put_back_is_never_deleted() {
    let (_folder, checkpoints) = three();
    let older = Path::new("step-00000001");
    assert_eq!(settle(&checkpoints, Which::Path(older), Some(1)).0, 1);
    let folder = &checkpoints.folder;
    fs::rename(
        folder.join("set-aside-step-00000003"),
        folder.join("step-00000003"),
    )
    .unwrap();
    assert_eq!(settle(&checkpoints, Which::Last, Some(1)).0, 3);
}

#[test]
fn where_all_were_set_aside_they_are_named() {
    let (_folder, checkpoints) = three();
    for step in 1..=3 {
        checkpoints.set_aside(Name::new(step, Stage::Done)).unwrap();
    }
    let error = checkpoints.recover(Which::Last).unwrap_err().to_string();
    assert!(
        error.contains("--resume-from") && error.contains("set-aside-step-00000002"),
        "{error}"
    );
}

#[test]
fn choosing_changes_nothing() {
    let (_folder, checkpoints) = three();
    fs::write(checkpoints.folder.join("step-00000003/model"), "").unwrap();
    fs::create_dir(checkpoints.folder.join(".step-00000004.tmp-1")).unwrap();
    let before = entries(&checkpoints);
    let (_, warning) = checkpoints.recover(Which::Last).unwrap();
    assert!(warning.is_some());
    assert_eq!(entries(&checkpoints), before);
}

#[test]
fn every_bit_of_the_state_survives() {
    let (_folder, checkpoints) = setup();
    let state = vec![0.1_f64 + 0.2, 1e300 / 3.0, f64::MIN_POSITIVE, -0.0];
    let none = |_: &Path| Ok::<_, RunError>(Vec::new());
    checkpoints
        .save(1, (Stage::Done, false), &state, none)
        .unwrap();
    let (checkpoint, _) = checkpoints.load(Which::Last).unwrap();
    let back: Vec<f64> = checkpoint.state().unwrap();
    let bits = |values: &[f64]| {
        values
            .iter()
            .map(|value| value.to_bits())
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(&back), bits(&state));
}

/// Another run is in its place.
#[cfg(unix)]
#[test]
fn a_moved_run_writes_no_checkpoint_into_another() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("run"), folder.path().join("moved"));
    let run = RunDir::create(&path, false).unwrap();
    let checkpoints = Checkpoints::new(&run);
    save(&checkpoints, 1, true);
    let away = || {
        fs::rename(&path, &moved).unwrap();
        fs::create_dir_all(path.join("checkpoints")).unwrap();
    };
    // Before the checkpoint, and while it is written.
    for at_once in [true, false] {
        if at_once {
            away();
        }
        let model = |folder: &Path| -> Result<_, RunError> {
            if !at_once {
                away();
            }
            fs::write(folder.join("model"), "model")?;
            Ok(vec!["model".to_owned()])
        };
        let error = checkpoints.save(2, (Stage::Done, true), &2, model);
        assert!(matches!(error, Err(RunError::Moved(_))), "{error:?}");
        assert_eq!(entries(&checkpoints), Vec::<String>::new());
        fs::remove_dir_all(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
        assert_eq!(load(&checkpoints, Which::Last), (1, None));
    }
}

/// At any moment, between a check and a write too.
#[cfg(unix)]
#[test]
fn a_run_that_is_moved_while_it_saves_is_said_to_be_moved() {
    for pointer in [BEST, LAST].repeat(20) {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("run"), folder.path().join("moved"));
        let run = RunDir::create(&path, false).unwrap();
        let checkpoints = Checkpoints::new(&run);
        let pointer = checkpoints.folder.join(pointer);
        std::thread::scope(|scope| {
            let saving = scope.spawn(|| {
                let files = |_: &Path| Ok(Vec::new());
                let save = |step| checkpoints.save(step, (Stage::Done, true), &0, files);
                (1..5_000).map(save).find_map(Result::err)
            });
            while !pointer.exists() && !saving.is_finished() {}
            fs::rename(&path, &moved).unwrap();
            fs::create_dir(&path).unwrap();
            let error = saving.join().unwrap();
            assert!(matches!(error, Some(RunError::Moved(_))), "{error:?}");
        });
    }
}

#[cfg(unix)]
#[test]
fn a_moved_run_deletes_no_checkpoint_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let run = RunDir::create(&path, false).unwrap();
    let checkpoints = Checkpoints::new(&run);
    fs::rename(&path, folder.path().join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    let others = Checkpoints::new(&RunDir::of_another(&path)).keeping(3);
    for step in 1..4 {
        save(&others, step, false);
    }
    let before = entries(&others);
    assert_eq!(checkpoints.prune(), Vec::<String>::new());
    assert_eq!(entries(&others), before);
}
