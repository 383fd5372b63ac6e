#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn replaces_the_whole_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, "a much longer old content").unwrap();
    write_atomic(&path, |file| file.write_all(b"new")).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    write_text(&path, "grün\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "grün\n");
}

#[test]
fn a_failing_write_leaves_the_old_file_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, "old").unwrap();
    let error = write_atomic(&path, |file| {
        // More than the buffer holds, so that some bytes have reached the disk.
        file.write_all(&[b'x'; 100_000])?;
        Err(io::Error::new(io::ErrorKind::StorageFull, "disk full"))
    })
    .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().contains("a.txt"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn files_that_belong_together_are_written_together() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.txt", "b.txt"].map(|name| folder.path().join(name));
    let write = |number: usize, file: &mut BufWriter<&mut std::fs::File>| {
        file.write_all(["one", "two"][number].as_bytes())
    };
    write_together(&paths, write).unwrap();
    let error = write_together(&paths, |number, file| match number {
        0 => file.write_all(b"new"),
        _ => Err(io::Error::new(io::ErrorKind::StorageFull, "disk full")),
    })
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("b.txt") && error.contains("disk full"),
        "{error}"
    );
    let content = paths
        .each_ref()
        .map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(content, ["one", "two"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn left_over_files_go_but_not_those_in_the_making() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join(format!("{TEMPORARY_PREFIX}a1b2"));
    fs::write(&left, "half").unwrap();
    let path = folder.path().join("a.txt");
    write_atomic(&path, |file| {
        remove_leftovers(folder.path());
        file.write_all(b"whole")
    })
    .unwrap();
    assert!(!left.exists());
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join("a.txt");
    let error = write_atomic(&path, |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("a.txt"), "{error}");
}

#[test]
fn what_cannot_be_written_is_known_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    check_writable(&path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(&path, "old").unwrap();
    check_writable(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    for path in [
        folder.path().to_owned(),
        folder.path().join("none").join("a.txt"),
        path.join("a.txt"),
    ] {
        let error = check_writable(&path).unwrap_err().to_string();
        assert!(!error.contains(TEMPORARY_PREFIX), "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(write_atomic(&path, |_| Ok(())).is_err());
    }
}

/// Files cannot be created there, even by a privileged user.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_file_is_told_without_the_temporary_one() {
    let path = Path::new("/proc/a.txt");
    let errors = [check_writable(path), write_text(path, "")];
    for error in errors.map(|result| result.unwrap_err().to_string()) {
        assert!(
            error.starts_with("could not write `/proc/a.txt`: "),
            "{error}"
        );
        assert!(!error.contains(TEMPORARY_PREFIX), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn others_may_read_what_the_umask_lets_them() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (plain, atomic) = (folder.path().join("plain"), folder.path().join("atomic"));
    fs::write(&plain, "").unwrap();
    write_atomic(&atomic, |_| Ok(())).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&plain), mode(&atomic));
    // A private file stays private.
    fs::set_permissions(&atomic, std::fs::Permissions::from_mode(0o600)).unwrap();
    write_text(&atomic, "secret").unwrap();
    assert_eq!(mode(&atomic) & 0o777, 0o600);
}

#[test]
fn leftovers_beside_an_output_are_removed_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join(format!("{TEMPORARY_PREFIX}a1b2"));
    fs::write(&left, "half").unwrap();
    check_writable(&folder.path().join("a.txt")).unwrap();
    assert!(!left.exists());
}

/// The mode counts for every user: to root the system refuses nothing.
#[test]
fn a_read_only_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, "old").unwrap();
    let mut mode = fs::metadata(&path).unwrap().permissions();
    mode.set_readonly(true);
    fs::set_permissions(&path, mode).unwrap();
    let together = [folder.path().join("b.txt"), path.clone()];
    for result in [
        check_writable(&path),
        write_text(&path, "new"),
        write_together(&together, |_, file| file.write_all(b"new")),
    ] {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let text = error.to_string();
        assert!(text.contains("a.txt`: it is read-only"), "{text}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
mod unix {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    /// Over two folders, by a relative and an absolute link.
    #[test]
    fn of_a_link_the_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("far/away")).unwrap();
        fs::write(at("far/b.txt"), "old").unwrap();
        fs::hard_link(at("far/b.txt"), at("copy.txt")).unwrap();
        symlink("../b.txt", at("far/away/link")).unwrap();
        symlink(at("far/away/link"), at("a.txt")).unwrap();
        check_writable(&at("a.txt")).unwrap();
        write_text(&at("a.txt"), "new").unwrap();
        assert!(at("a.txt").is_symlink() && at("far/away/link").is_symlink());
        assert_eq!(fs::read_to_string(at("far/b.txt")).unwrap(), "new");
        // It was replaced, not overwritten.
        assert_eq!(fs::read_to_string(at("copy.txt")).unwrap(), "old");
        // A link to nothing is the place of a file.
        symlink("far/c.txt", at("c.txt")).unwrap();
        write_text(&at("c.txt"), "new").unwrap();
        assert!(at("c.txt").is_symlink());
        assert_eq!(fs::read_to_string(at("far/c.txt")).unwrap(), "new");
        symlink("e.txt", at("d.txt")).unwrap();
        symlink("d.txt", at("e.txt")).unwrap();
        let error = write_text(&at("d.txt"), "").unwrap_err().to_string();
        assert!(
            error.contains("d.txt`: its links lead in a circle"),
            "{error}"
        );
    }

    /// Devices of the test's own, by links: a mistake must not cost the machine its `/dev/null`.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, minor) in [("null", "3"), ("full", "7")] {
            let device = at(&format!("{name}.device"));
            let mut command = std::process::Command::new("mknod");
            let made = command.arg(&device).args(["c", "1", minor]).status();
            let opened = fs::OpenOptions::new().write(true).open(&device);
            if !made.is_ok_and(|made| made.success()) || opened.is_err() {
                kvt_testing::skipped("this user cannot make a device");
                return;
            }
            symlink(device, at(name)).unwrap();
        }
        check_writable(&at("full")).unwrap();
        write_together(&[at("null"), at("a.txt")], |_, file| file.write_all(b"new")).unwrap();
        let error = write_text(&at("full"), "new").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("full`: "), "{error}");
        for name in ["null", "full"] {
            assert!(at(name).is_symlink());
            assert!(fs::metadata(at(name)).unwrap().file_type().is_char_device());
        }
        assert_eq!(fs::read_to_string(at("a.txt")).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn a_pipe_gets_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        check_writable(&pipe).unwrap();
        let error = write_text(&pipe, "lost").unwrap_err().to_string();
        assert!(
            error.contains("pipe`: nothing reads from this pipe"),
            "{error}"
        );
        // More than a pipe holds at once.
        let content = "0123456789".repeat(100_000);
        let mut read = String::new();
        std::thread::scope(|scope| {
            let mut reader = fs::OpenOptions::new();
            // For writing, too, so that it opens at once; the writer's end is gone when all is read.
            let mut reader = reader.read(true).write(true).open(&pipe).unwrap();
            let reading = scope.spawn(move || {
                let mut bytes = vec![0; 1_000_000];
                reader.read_exact(&mut bytes).unwrap();
                String::from_utf8(bytes).unwrap()
            });
            write_text(&pipe, &content).unwrap();
            read = reading.join().unwrap();
        });
        assert_eq!(read, content);
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// As `kvt ... --out /dev/fd/3 3>> FILE` has it: what is in the file stays.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_descriptor_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "old\n").unwrap();
        let open = fs::File::open(&path).unwrap();
        let link = folder.path().join("link");
        symlink(format!("/dev/fd/{}", open.as_raw_fd()), &link).unwrap();
        write_text(&link, "new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old\nnew\n");
        assert!(link.is_symlink());
    }
}

#[test]
fn paths_have_no_detours() {
    for (path, expected) in [
        (
            "configs/reproduce/a/../../deit/x.toml",
            "configs/deit/x.toml",
        ),
        ("x.toml", "x.toml"),
        ("../../x.toml", "../../x.toml"),
        ("/a/b/./../c.toml", "/a/c.toml"),
    ] {
        assert_eq!(plain(Path::new(path)), Path::new(expected));
    }
}
