//! `kvt bench`: what an attention operation or a training step costs, dense beside k-NN, and how fast images arrive.

mod attention;
mod kinds;
mod loader;
mod step;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Subcommand;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::attention::AttentionArgs;
use self::loader::LoaderArgs;
use self::step::StepArgs;
use super::common::bar;
use super::output;
use crate::bench::{self, Peak, Rounds, Timing};
use crate::device::ResolvedDevice;
use crate::fs::{check_writable, write_atomic};

/// `kvt bench attention`, `kvt bench step` and `kvt bench loader`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// One attention operation on random q, k and v.
    Attention(AttentionArgs),
    /// One training step of a model on random images.
    Step(StepArgs),
    /// The way of the training images from the disk to the batch.
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

/// What `--json` writes.
#[derive(Serialize)]
struct Report<'a, R> {
    kvt: &'a str,
    device: &'a str,
    /// What the device is, in words.
    description: &'a str,
    /// Threads of the CPU backend.
    threads: usize,
    date: String,
    runs: usize,
    /// What the device does elsewhere.
    peak: Option<Peak>,
    records: &'a [R],
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = match &args.what {
        What::Attention(AttentionArgs { common, .. }) | What::Step(StepArgs { common, .. }) => {
            &common.json
        }
        What::Loader(args) => &args.json,
    };
    // Not only when all is measured.
    if let Some(path) = json {
        check_writable(path)?;
    }
    match &args.what {
        What::Attention(args) => attention::run(args)?,
        What::Step(args) => step::run(args)?,
        What::Loader(args) => loader::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
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
        let progress = bar("timing", rounds.warmup + rounds.timed);
        let result = work(rounds, &mut |done| progress.set_position(done as u64));
        progress.finish_and_clear();
        Ok(result?)
    }

    /// The peak memory of each case, in a process of its own. Without it the times are still good.
    fn peaks(&self, cases: usize) -> Vec<Option<u64>> {
        (0..cases)
            .map(|case| self.peak(case).unwrap_or_default())
            .collect()
    }

    fn peak(&self, case: usize) -> Option<Option<u64>> {
        // With huge pages the system counts 2 MiB wherever one value was written.
        let small_pages = ("MIMALLOC_ALLOW_THP", "0");
        self.child(&format!("--peak-of={case}"), &[small_pages])
            .ok()
    }

    /// What this command prints with one more argument, in a process of its own; or why it prints nothing.
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
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().rfind(|line| !line.trim().is_empty());
            // A process that the system ended, as for its memory, says nothing.
            last.map_or_else(|| output.status.to_string(), str::to_owned)
        })
    }

    fn finish<R: Serialize>(
        &self,
        title: &str,
        device: &ResolvedDevice,
        table: &str,
        records: &[R],
    ) -> anyhow::Result<()> {
        // What was timed is good without it.
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
        Ok(write_atomic(path, |file| file.write_all(text.as_bytes()))?)
    }
}

/// What the device does elsewhere, to compare with.
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

fn print_peak(peak: Option<u64>) -> anyhow::Result<()> {
    output::print(&serde_json::to_string(&peak)?)
}

fn spread(timing: &Timing) -> String {
    let Timing { median, low, high } = timing;
    format!("{median:.2} ({low:.2}-{high:.2})")
}

fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| {
        format!("{:.1}", bytes as f64 / 1_048_576.0)
    })
}
