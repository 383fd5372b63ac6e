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
    fs::write(first.environment(), "{}").unwrap();
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
fn a_log_is_copied_to_a_free_name() {
    let folder = tempfile::tempdir().unwrap();
    let run = make(&folder.path().join("run"));
    for number in ["1", "2"] {
        fs::write(run.log(), number).unwrap();
        let kept = run.copy_log().unwrap();
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
        Err(RunError::NotARun(_))
    ));
    assert!(matches!(
        RunDir::open(folder.path()),
        Err(RunError::NotARun(_))
    ));
    RunDir::create(folder.path(), false).unwrap();
}

#[test]
fn a_folder_of_other_files_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    assert!(matches!(
        RunDir::create(folder.path(), false),
        Err(RunError::Foreign(_))
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

/// Files with the names of ours are a user's where no lock file shows a start, and so is a lock file with other words.
#[test]
fn a_file_of_the_user_is_not_ours_by_its_name() {
    for (name, beside) in [
        (CLASSES, None),
        (ENVIRONMENT, None),
        (CLASSES, Some("mine")),
        (LOCK, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, "mine").unwrap();
        if let Some(text) = beside {
            fs::write(folder.path().join(LOCK), text).unwrap();
        }
        let error = RunDir::create(folder.path(), false).unwrap_err();
        assert!(matches!(error, RunError::Foreign(_)), "{name}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let count = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(count, 1 + usize::from(beside.is_some()));
    }
    // A start that died before the configuration was written.
    let folder = tempfile::tempdir().unwrap();
    drop(RunDir::create(folder.path(), false).unwrap());
    fs::write(folder.path().join(CLASSES), "a\n").unwrap();
    RunDir::create(folder.path(), false).unwrap();
}

#[test]
fn a_configuration_of_the_user_is_no_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), "mine").unwrap();
    for resume in [true, false] {
        let error = RunDir::create(folder.path(), resume).unwrap_err();
        assert!(matches!(error, RunError::Foreign(_)), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[cfg(unix)]
#[test]
fn a_run_that_was_moved_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("run"), folder.path().join("moved"));
    let run = make(&path);
    run.check().unwrap();
    fs::rename(&path, &moved).unwrap();
    for other in [false, true] {
        if other {
            fs::create_dir(&path).unwrap();
        }
        let error = run.check().unwrap_err();
        assert!(matches!(error, RunError::Moved(_)), "{error}");
    }
    fs::remove_dir(&path).unwrap();
    fs::rename(&moved, &path).unwrap();
    run.check().unwrap();
}

/// Some network file systems lock nothing.
fn refused() -> Result<(), std::fs::TryLockError> {
    let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
    Err(std::fs::TryLockError::Error(error))
}

fn without_locks(path: &Path) -> Result<Lock, RunError> {
    Lock::take(path, |_| refused())
}

#[test]
fn without_locks_the_file_names_the_holder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(LOCK);
    let host = sysinfo::System::host_name().unwrap();
    let own = format!("process {} on `{host}`\n", std::process::id());
    let lock = without_locks(folder.path()).unwrap();
    assert!(lock.warning().unwrap().contains("without locks"));
    assert_eq!(fs::read_to_string(&file).unwrap(), own);
    lock.check().unwrap();
    // Another start has taken it at the same moment.
    let other = "process 4294967294 on `elsewhere`\n";
    fs::write(&file, other).unwrap();
    let error = lock.check().unwrap_err();
    assert!(matches!(error, RunError::Locked { .. }), "{error}");
    drop(lock);
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
    let error = without_locks(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("process 4294967294 on `elsewhere` (as `"),
        "{error}"
    );
    assert!(
        error.contains("remove it if that process is gone"),
        "{error}"
    );
    // A process of this machine that has ended; a number that no process can have.
    fs::write(&file, format!("process 4294967294 on `{host}`\n")).unwrap();
    drop(without_locks(folder.path()).unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    drop(without_locks(folder.path()).unwrap());
}

/// The parent of the tests.
#[cfg(unix)]
#[test]
fn without_locks_a_living_process_holds_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let host = sysinfo::System::host_name().unwrap();
    let line = format!(
        "process {} on `{host}`\n",
        std::os::unix::process::parent_id()
    );
    fs::write(folder.path().join(LOCK), &line).unwrap();
    let error = without_locks(folder.path()).unwrap_err();
    assert!(matches!(error, RunError::Locked { .. }), "{error}");
}

/// Not every system locks both a folder and a file.
#[cfg(unix)]
#[test]
fn where_there_is_a_lock_there_is_no_warning() {
    let folder = tempfile::tempdir().unwrap();
    let folder_only = |file: &std::fs::File| {
        if file.metadata().unwrap().is_dir() {
            file.try_lock()
        } else {
            refused()
        }
    };
    let lock = Lock::take(folder.path(), folder_only).unwrap();
    assert_eq!(lock.warning(), None);
}
