//! `kvt bench`: the cost of an attention operation, a forward pass or a training step, dense and k-NN, and the speed of image
//! loading.

mod attention;
mod forward;
mod kinds;
mod loader;
mod model;
mod step;

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use clap::Subcommand;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::attention::AttentionArgs;
use self::forward::ForwardArgs;
use self::loader::LoaderArgs;
use self::step::StepArgs;
use super::common::done_of;
use super::output;
use kvt_data::fs::{check_writable, write_text};
use kvt_tools::bench::{self, Peak, Rounds, Timing};
use kvt_train::device::ResolvedDevice;
use kvt_train::world;

/// `kvt bench attention`, `kvt bench forward`, `kvt bench step` and `kvt bench loader`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt bench step --model deit_tiny_patch16_224\n  kvt bench forward --model deit_tiny_patch16_224 --batch 1,32\n  kvt bench attention --kind all --tokens 197,1024\n  kvt bench loader photos.toml"
)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Time one attention operation on random q, k and v.
    Attention(AttentionArgs),
    /// Time one forward pass of a model in evaluation mode on random images.
    Forward(ForwardArgs),
    /// Time one training step of a model on random images.
    Step(StepArgs),
    /// Time how training images get from the disk into a batch.
    Loader(LoaderArgs),
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Timed runs of each case; they take turns.
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    runs: usize,
    /// Runs before those.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(..=1_000_000))]
    warmup: usize,
    /// Also write the records to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the peak memory of one case, for the process that measures all of them.
    #[arg(long, value_name = "CASE", hide = true)]
    peak_of: Option<usize>,
}

/// The content of `--json`.
#[derive(Serialize)]
struct Report<'a, R> {
    kvt: &'a str,
    device: &'a str,
    /// A description of the device.
    description: &'a str,
    /// Threads of the CPU backend.
    threads: usize,
    date: String,
    runs: usize,
    /// The device's peak performance, for comparison.
    peak: Option<Peak>,
    records: &'a [R],
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let json = match &args.what {
        What::Attention(AttentionArgs { common, .. })
        | What::Forward(ForwardArgs { common, .. })
        | What::Step(StepArgs { common, .. }) => &common.json,
        What::Loader(args) => &args.json,
    };
    // Check the file before measuring.
    if let Some(path) = json {
        check_writable(path)?;
    }
    // A step is measured in a job, which starts them itself.
    if !matches!(args.what, What::Step(_)) {
        world::start_threads()?;
    }
    match &args.what {
        What::Attention(args) => attention::run(args),
        What::Forward(args) => forward::run(args),
        What::Step(args) => step::run(args),
        What::Loader(args) => loader::run(args),
    }
}

impl Common {
    fn rounds(&self) -> Rounds {
        Rounds {
            warmup: self.warmup,
            timed: self.runs,
        }
    }

    /// Runs the timing under a progress bar.
    fn timed<R>(
        &self,
        work: impl FnOnce(Rounds, &mut dyn FnMut(usize)) -> Result<R, bench::BenchError>,
    ) -> anyhow::Result<R> {
        let rounds = self.rounds();
        let progress = &mut done_of("timing", rounds.warmup + rounds.timed);
        Ok(work(rounds, progress)?)
    }

    /// The peak memory of each case, measured in another process; `None` if that fails, since the times are valid without it.
    fn peaks(&self, cases: usize) -> Vec<Option<u64>> {
        (0..cases)
            .map(|case| self.peak(case).ok().flatten())
            .collect()
    }

    /// The peak memory of a case, or `None` where the system does not report it; an error says why the process failed.
    fn peak(&self, case: usize) -> Result<Option<u64>, String> {
        // With huge pages, the system counts 2 MiB for every single value written.
        let small_pages = ("MIMALLOC_ALLOW_THP", "0");
        self.child(&format!("--peak-of={case}"), &[small_pages])
    }

    /// The output of this command with one more argument, run in another process, or why it has no output.
    fn child<R: DeserializeOwned>(
        &self,
        argument: &str,
        environment: &[(&str, &str)],
    ) -> Result<R, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let output = Command::new(program)
            .args(std::env::args_os().skip(1))
            .arg(argument)
            .envs(environment.iter().copied())
            .output()
            .map_err(|error| error.to_string())?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| failure(output.status, &String::from_utf8_lossy(&output.stderr)))
    }

    fn finish<R: Serialize>(
        &self,
        title: &str,
        device: &ResolvedDevice,
        table: &str,
        records: &[R],
    ) -> anyhow::Result<()> {
        // The timings are valid without it.
        let peak = Peak::measure(&device.device).ok();
        let threads = rayon::current_num_threads();
        output::print(&format!(
            "{title}, on {} ({}), {threads} threads\n\n{table}\n\nmedian (quartiles) of {} runs{}",
            device.name,
            device.description,
            self.runs,
            peak.as_ref().map_or_else(String::new, yardstick)
        ))?;
        let Some(path) = &self.json else {
            return Ok(());
        };
        let report = Report {
            kvt: env!("CARGO_PKG_VERSION"),
            device: &device.name,
            description: &device.description,
            threads,
            date: jiff::Timestamp::now().to_string(),
            runs: self.runs,
            peak,
            records,
        };
        let text = serde_json::to_string_pretty(&report)?;
        Ok(write_text(path, &text)?)
    }
}

/// Why a process failed, from its exit status and stderr. Graphics libraries also write to stderr, and an abort ends with notes,
/// so only this program's own messages count as a reason.
fn failure(status: ExitStatus, errors: &str) -> String {
    let mut lines = errors.lines().map(str::trim);
    let said = match status.code() {
        // Our own exit after an error, which is printed last.
        Some(1) => lines.rfind(|line| line.starts_with("error: ")),
        _ => {
            let is_panic =
                |line: &&str| line.starts_with("thread ") && line.contains(" panicked at ");
            let memory = |line: &&str| line.starts_with("memory allocation of ");
            let panic = lines.clone().skip_while(|line| !is_panic(line)).nth(1);
            panic.or_else(|| lines.find(memory))
        }
    };
    let said = said.map(|line| line.strip_prefix("error: ").unwrap_or(line));
    // A process that the system killed, for example for its memory use, prints nothing.
    let said = said.filter(|line| !line.is_empty());
    said.map_or_else(|| status.to_string(), str::to_owned)
}

/// The device's peak performance, for comparison.
fn yardstick(peak: &Peak) -> String {
    let mut text = format!(
        "\nthis device makes {:.0} GFLOP/s in a matrix product",
        peak.matmul_gflops
    );
    if let Some(rate) = peak.arithmetic_gflops {
        text += &format!(", {rate:.0} GFLOP/s of arithmetic without matrix units");
    }
    if let Some(rate) = peak.memory_gbps {
        text += &format!(", {rate:.1} GB/s in copies");
    }
    text
}

/// The values that are asked for, or else those that are measured by default.
fn asked_or<'a, T>(asked: &'a [T], default: &'a [T]) -> &'a [T] {
    if asked.is_empty() { default } else { asked }
}

fn print_peak(peak: Option<u64>) -> anyhow::Result<()> {
    output::print(&serde_json::to_string(&peak)?)
}

fn spread(timing: &Timing) -> String {
    let Timing { median, low, high } = timing;
    format!("{median:.2} ({low:.2}-{high:.2})")
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn a_process_failed_for_what_it_says_or_for_its_status() {
        use std::os::unix::process::ExitStatusExt as _;
        use std::process::ExitStatus;

        use super::failure;

        let noise = "error: XDG_RUNTIME_DIR is invalid or not set in the environment.\n";
        let panic = "\nthread 'main' (7) panicked at src/kinds.rs:7:5:\nno room left\n\
                     note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n";
        let memory =
            "memory allocation of 17179869184 bytes failed\nnote: run with `RUST_BACKTRACE=1`\n";
        let error = "error: `rank` is 99, but there are 17 keys\n\nwarning: ignored\n";
        let killed = "signal: 9 (SIGKILL)";
        // Killed, exit code 1, exit code 101, aborted.
        for (status, errors, expected) in [
            (9, "", killed),
            (9, noise, killed),
            (256, error, "`rank` is 99, but there are 17 keys"),
            (256, "", "exit status: 1"),
            (101 << 8, panic, "no room left"),
            (101 << 8, noise, "exit status: 101"),
            (6, memory, "memory allocation of 17179869184 bytes failed"),
        ] {
            let status = ExitStatus::from_raw(status);
            for before in ["", noise] {
                // Of two errors, ours is the last.
                let errors = format!("{before}{errors}");
                if status.code() == Some(1) && errors == noise {
                    continue;
                }
                assert_eq!(failure(status, &errors), expected, "{errors}");
            }
        }
    }
}
