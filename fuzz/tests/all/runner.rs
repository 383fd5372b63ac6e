//! Runs a target on many inputs: for a moment, or for as long as somebody wants.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Seconds that each target runs, with other cases each time.
const SECONDS: &str = "KVT_FUZZ_SECONDS";
/// A few bytes that ask for gigabytes.
const MOST_MEMORY: u64 = 2 << 30;

/// Runs `check` on the same `cases` inputs, or for [`SECONDS`] on new ones. An input that fails is made
/// as small as it can be, and shown.
pub(crate) fn fuzz<S: Strategy>(cases: u32, strategy: &S, check: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let seconds: Option<u64> = std::env::var(SECONDS)
        .ok()
        .map(|text| text.parse().unwrap());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let (start, mut done) = (Instant::now(), 0);
    loop {
        let mut runner = match seconds {
            Some(_) => TestRunner::new(config.clone()),
            None => {
                let same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
                TestRunner::new_with_rng(config.clone(), same)
            }
        };
        let result = runner.run(strategy, |input| {
            let before = peak_memory();
            check(input);
            let taken = peak_memory().saturating_sub(before);
            assert!(taken < MOST_MEMORY, "{taken} bytes of memory");
            Ok(())
        });
        match result {
            Ok(()) => done += cases,
            Err(TestError::Fail(reason, input)) => panic!("{reason}: {input:?}"),
            Err(error) => panic!("{error}"),
        }
        if seconds.is_none_or(|seconds| start.elapsed() > Duration::from_secs(seconds)) {
            break;
        }
    }
    if seconds.is_some() {
        tell(done);
    }
}

#[expect(
    clippy::print_stderr,
    reason = "what a long run has done is part of its result"
)]
fn tell(cases: u32) {
    eprintln!("{cases} cases");
}

/// The most address space that this process has had, in bytes: also what was asked for and never touched.
/// 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}
