//! The `kvt` binary.

use std::process::ExitCode;

/// A training step allocates and frees the same large blocks over and over. mimalloc keeps them,
/// where glibc gives them back to the system and pays for it in page faults.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kvt_train::cli::main()
}
