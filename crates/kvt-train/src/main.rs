//! The `kvt` binary.

use std::process::ExitCode;

/// A training step allocates and frees the same large blocks over and over. mimalloc keeps them,
/// where glibc gives them back to the system and pays for it in page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    prepare_environment();
    kvt_train::cli::main()
}

/// Sets what libraries read from the environment before or behind our back, and starts the program again with it, in the
/// same process: a program that has threads cannot change its environment safely. What the user has set is left alone.
///
/// - `MIMALLOC_PURGE_DELAY`: mimalloc keeps for good what it would give back after a while; a step is 8 % faster for it. It
///   reads this before `main`.
/// - `XDG_RUNTIME_DIR`: without it, the graphics libraries that look for a GPU write several lines to stderr that look like
///   errors, because they also look for a desktop. `/dev/null` is an absolute path, which is all that they ask for, and below
///   it there can be no socket of a desktop, and no file that somebody must delete.
#[cfg(unix)]
fn prepare_environment() {
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
    // Returns only if it failed, and then all is well but for the speed and the lines.
    let _ = again.exec();
}

#[cfg(not(unix))]
fn prepare_environment() {}
