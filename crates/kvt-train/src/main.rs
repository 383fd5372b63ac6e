//! The `kvt` binary.

use std::process::ExitCode;

/// A training step allocates and frees the same large blocks over and over. mimalloc keeps them,
/// where glibc gives them back to the system and pays for it in page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    keep_memory();
    kvt_train::cli::main()
}

/// Has mimalloc keep for good what it would give back after a while; a step is 8 % faster for it. It
/// reads this setting from the environment, before `main`: so the program starts itself again with
/// it, in the same process. A value that the user has set is left alone.
#[cfg(unix)]
fn keep_memory() {
    use std::os::unix::process::CommandExt;
    const SETTING: &str = "MIMALLOC_PURGE_DELAY";
    let mut arguments = std::env::args_os();
    if std::env::var_os(SETTING).is_none()
        && let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next())
    {
        // Returns only if it failed, and then all is well but for the speed.
        let _ = std::process::Command::new(program)
            .arg0(name)
            .args(arguments)
            .env(SETTING, "-1")
            .exec();
    }
}

#[cfg(not(unix))]
fn keep_memory() {}
