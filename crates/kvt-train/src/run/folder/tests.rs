#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn make(path: &Path) -> RunDir {
    let run = RunDir::create(path, false).unwrap();
    fs::write(run.config(), "").unwrap();
    run
}

#[test]
fn a_second_writer_learns_who_holds_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nested/run");
    let first = make(&path);
    for resume in [false, true] {
        let error = RunDir::create(&path, resume).unwrap_err();
        assert!(matches!(error, RunError::Locked { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("process {} on `", std::process::id())),
            "{text}"
        );
    }
    // Reading is always possible.
    RunDir::open(&path).unwrap();
    drop(first);
    RunDir::create(&path, true).unwrap();
}

#[cfg(unix)]
#[test]
fn without_its_lock_file_a_run_is_still_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let first = make(&path);
    fs::remove_file(path.join(LOCK)).unwrap();
    let error = RunDir::create(&path, true).unwrap_err();
    assert!(error.to_string().contains("by another process"), "{error}");
    drop(first);
    RunDir::create(&path, true).unwrap();
}

#[test]
fn left_over_temporary_files_go_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    drop(make(&path));
    for name in [&format!("{TEMPORARY_PREFIX}a1b2"), "notes.txt"] {
        fs::write(path.join(name), "half").unwrap();
    }
    drop(RunDir::create(&path, true).unwrap());
    let mut names: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["config.toml", "notes.txt", LOCK]);
}

#[test]
fn a_log_is_set_aside_under_a_free_name() {
    let folder = tempfile::tempdir().unwrap();
    let run = make(&folder.path().join("run"));
    assert_eq!(run.set_log_aside().unwrap(), None);
    for number in ["1", "2"] {
        fs::write(run.log(), number).unwrap();
        let kept = run.set_log_aside().unwrap().unwrap();
        assert!(kept.ends_with(format!("log.jsonl.{number}")));
        assert_eq!(fs::read_to_string(kept).unwrap(), number);
    }
}

#[test]
fn an_existing_run_is_refused_unless_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    drop(make(&path));
    let error = RunDir::create(&path, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "run `{}` exists: use `--resume` or another `run.dir`",
            path.display()
        )
    );
    RunDir::create(&path, true).unwrap();
}

#[test]
fn a_start_that_died_before_its_config_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    drop(RunDir::create(folder.path(), false).unwrap());
    fs::write(
        folder.path().join(format!("{TEMPORARY_PREFIX}a1b2")),
        "half",
    )
    .unwrap();
    assert!(matches!(
        RunDir::create(folder.path(), true),
        Err(RunError::NotARun { .. })
    ));
    assert!(matches!(
        RunDir::open(folder.path()),
        Err(RunError::NotARun { .. })
    ));
    RunDir::create(folder.path(), false).unwrap();
}

#[test]
fn a_folder_of_other_files_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    assert!(matches!(
        RunDir::create(folder.path(), false),
        Err(RunError::Foreign { .. })
    ));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn classes_come_back_and_line_breaks_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunDir::create(folder.path(), false).unwrap();
    let classes = vec!["b".to_owned(), " spaced name ".to_owned(), "ä".to_owned()];
    run.write_classes(&classes).unwrap();
    assert_eq!(run.read_classes().unwrap(), classes);
    let error = run.write_classes(&["a\nb".to_owned()]).unwrap_err();
    assert!(error.to_string().contains(r#""a\nb""#), "{error}");
    assert_eq!(run.read_classes().unwrap(), classes);
}
