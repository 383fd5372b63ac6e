//! Shared by the tests of all crates: skips that say so, the [`devices`] to test on, a [`naive`] attention,
//! [`ranks`] of a job as threads, and configurations for [`scenes`].
//!
//! libtest reports a test that returns early as `ok`, and hides its output. So a test that cannot run, or not on
//! every device, writes a line directly to standard error: `SKIPPED: <test>: <reason>`. `.ci/run` counts these lines.

use std::collections::BTreeSet;
use std::io::Write;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

pub mod devices;
pub mod naive;
pub mod ranks;
pub mod scenes;

/// Reports that the current test, or a part of it, did not run; once for each test and reason.
#[track_caller]
pub fn skipped(reason: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = format!("SKIPPED: {}: {reason}\n", test());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.contains(&line) {
        // libtest captures `eprintln`. A failure to write cannot be reported anywhere.
        let _ = std::io::stderr().write_all(line.as_bytes());
        said.insert(line);
    }
}

/// [`skipped`], since there is neither a GPU nor the software Vulkan driver.
///
/// # Panics
/// If the environment variable `KVT_REQUIRE_GPU` is set.
#[track_caller]
pub fn no_gpu() {
    assert!(
        std::env::var_os("KVT_REQUIRE_GPU").is_none(),
        "KVT_REQUIRE_GPU is set, but there is no GPU adapter"
    );
    skipped("no GPU adapter");
}

/// Whether a case that takes a software driver long is to run on a GPU: if `KVT_GPU_CASES` is `all` or the beginning of its name.
/// If not, it is reported as skipped.
#[track_caller]
pub fn asks_for(case: &str) -> bool {
    let asked = std::env::var("KVT_GPU_CASES").unwrap_or_default();
    let is_asked = asked == "all" || !asked.is_empty() && case.starts_with(&asked);
    if !is_asked {
        skipped("cases on a GPU for which `KVT_GPU_CASES` does not ask");
    }
    is_asked
}

/// The name of the current test, by the name of its thread; in a thread that a test started, the place of the call.
#[track_caller]
fn test() -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => Location::caller().to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::process::Command;

    use super::*;

    #[test]
    #[ignore = "run by `a_skip_is_seen_although_its_test_passes`"]
    fn skips() {
        skipped("for the test");
        skipped("for the test");
        skipped("twice");
        no_gpu();
        std::thread::spawn(|| skipped("elsewhere")).join().unwrap();
    }

    fn run(require_gpu: bool) -> (bool, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "tests::skips"])
            .env_remove("KVT_REQUIRE_GPU")
            .env_remove("RUST_TEST_NOCAPTURE");
        if require_gpu {
            command.env("KVT_REQUIRE_GPU", "1");
        }
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), stderr)
    }

    #[test]
    fn a_skip_is_seen_although_its_test_passes() {
        let (passed, stderr) = run(false);
        assert!(passed, "{stderr}");
        let (lines, elsewhere) = stderr.trim_end().rsplit_once('\n').unwrap();
        let expected = "SKIPPED: tests::skips: for the test\n\
                        SKIPPED: tests::skips: twice\n\
                        SKIPPED: tests::skips: no GPU adapter";
        assert_eq!(lines, expected);
        assert!(elsewhere.starts_with("SKIPPED: "), "{elsewhere}");
        assert!(elsewhere.contains("lib.rs:"), "{elsewhere}");
        assert!(elsewhere.ends_with(": elsewhere"), "{elsewhere}");
    }

    #[test]
    fn a_missing_gpu_is_a_failure_where_one_is_required() {
        assert!(!run(true).0);
    }
}
