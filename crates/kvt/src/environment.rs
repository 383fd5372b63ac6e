//! The environment that libraries want.

/// Sets environment variables that libraries read on their own, even before `main`, and restarts the program with them,
/// in the same process: a program with threads cannot safely change its environment. Variables set by the user are not
/// changed.
///
/// - `MIMALLOC_PURGE_DELAY`: mimalloc permanently keeps memory that it would otherwise return after a while, which makes a
///   step 8 % faster. It reads this before `main`.
/// - `XDG_RUNTIME_DIR`: without it, the graphics libraries that look for a GPU write several lines to stderr that look like
///   errors, because they also look for a desktop. `/dev/null` is an absolute path, which is all they require, and there can
///   be neither a desktop's socket below it nor a file to delete.
#[cfg(unix)]
pub(super) fn prepare() {
    use std::os::unix::process::CommandExt;
    let is_path = |path: std::ffi::OsString| std::path::Path::new(&path).is_absolute();
    let has_memory = std::env::var_os("MIMALLOC_PURGE_DELAY").is_some();
    let has_folder = std::env::var_os("XDG_RUNTIME_DIR").is_some_and(is_path);
    if has_memory && has_folder {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) else {
        return;
    };
    let mut again = std::process::Command::new(program);
    again.arg0(name).args(arguments);
    if !has_memory {
        again.env("MIMALLOC_PURGE_DELAY", "-1");
    }
    if !has_folder {
        again.env("XDG_RUNTIME_DIR", "/dev/null");
    }
    // Returns only on failure, and then only the speed and the messages are affected.
    let _ = again.exec();
}

#[cfg(not(unix))]
pub(super) fn prepare() {}
