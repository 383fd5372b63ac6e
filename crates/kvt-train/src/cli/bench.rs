//! `kvt bench`: what an attention operation or a training step costs, dense beside k-NN.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use kvt_attention::{
    AttentionConfig, DenseConfig, Implementation, MechanismConfig as _, Neighbors, SoftmaxAttention,
};
use serde::Serialize;

use super::common::{ModelArgs, Overrides, bar};
use super::output;
use super::table::table;
use crate::bench::{
    self, AttentionCase, AttentionInput, AttentionShape, Peak, Rounds, StepCase, Timing,
};
use crate::config::Document;
use crate::device::{self, ResolvedDevice};
use crate::engine::model_config;
use crate::fs::{check_writable, write_atomic};

/// `kvt bench attention` and `kvt bench step`
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

#[derive(Debug, clap::Args)]
struct AttentionArgs {
    /// Device, as for `kvt train`.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Batch, heads, tokens and channels per head.
    #[arg(long, value_name = "B,H,N,D", default_value = "16,3,197,64", value_parser = shape)]
    shape: AttentionShape,
    /// Keys that a query keeps; several are measured in turn. Half of the tokens by default.
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    k: Vec<usize>,
    /// How k-NN attention is computed; several are measured in turn.
    #[arg(long, value_delimiter = ',', default_value = "auto", value_parser = implementation)]
    implementation: Vec<Implementation>,
    /// What the scores are like: `normal`, with a `sink` (a key that nearly all queries like most), or many
    /// `equal` ones; several are measured in turn.
    #[arg(long, value_delimiter = ',', default_value = "normal", value_parser = input)]
    input: Vec<AttentionInput>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct StepArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    overrides: Overrides,
    /// Images of a step.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    batch: usize,
    /// Which attention; dense and k-NN take turns by default.
    #[arg(long, value_delimiter = ',', default_value = "dense,knn", value_parser = PossibleValuesParser::new(AttentionConfig::KINDS))]
    kind: Vec<String>,
    #[command(flatten)]
    common: Common,
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
    let (What::Attention(AttentionArgs { common, .. }) | What::Step(StepArgs { common, .. })) =
        &args.what;
    // Not only when all is measured.
    if let Some(path) = &common.json {
        check_writable(path)?;
    }
    match &args.what {
        What::Attention(args) => attention(args)?,
        What::Step(args) => step(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn attention(args: &AttentionArgs) -> anyhow::Result<()> {
    let device = device::resolve(&args.device)?;
    let half = [(args.shape.tokens / 2).max(1)];
    let counts = match args.k.as_slice() {
        [] => &half,
        counts => counts,
    };
    let mut attentions = vec![SoftmaxAttention::dense()];
    for &k in counts {
        for &implementation in &args.implementation {
            attentions.push(SoftmaxAttention {
                implementation,
                ..SoftmaxAttention::knn(Neighbors::count(k)?)
            });
        }
    }
    let cases: Vec<AttentionCase> = args
        .input
        .iter()
        .flat_map(|&input| {
            attentions.iter().map(move |&attention| AttentionCase {
                shape: args.shape,
                input,
                attention,
            })
        })
        .collect();
    if let Some(number) = args.common.peak_of {
        let case = cases.get(number).context("no such case")?;
        return print_peak(case.peak_bytes(&device.device)?);
    }
    let peaks = args.common.peaks(cases.len());
    let mut records = args
        .common
        .timed(|rounds, progress| bench::attention(&cases, &device.device, rounds, progress))?;
    for (record, peak) in records.iter_mut().zip(peaks) {
        record.peak_bytes = peak;
    }
    // The dense one is the first of each input.
    let rows = records.chunks(attentions.len()).flat_map(|records| {
        let dense = records.first().map_or(f64::NAN, |r| r.forward_backward_ms);
        let ahead = records.first().map_or(f64::NAN, |r| r.forward_ms);
        records.iter().map(move |r| {
            vec![
                format!("{} {}", r.kind, r.implementation),
                r.input.name().to_owned(),
                r.k.to_string(),
                spread(&r.forward),
                format!("{:.2}", r.forward_ms / ahead),
                spread(&r.forward_backward),
                format!("{:.2}", r.forward_backward_ms / dense),
                format!("{:.0}", r.gflops),
                format!("{:.1}", r.gbps),
                mebibytes(r.peak_bytes),
            ]
        })
    });
    let AttentionShape {
        batch,
        heads,
        tokens,
        head_dim,
    } = args.shape;
    let title = format!("attention {batch},{heads},{tokens},{head_dim}");
    let header = [
        "kind",
        "input",
        "k",
        "forward ms",
        "of dense",
        "forward + backward ms",
        "of dense",
        "GFLOP/s",
        "GB/s",
        "peak MiB",
    ];
    args.common
        .finish(&title, &device, &table(&header, rows), &records)
}

fn step(args: &StepArgs) -> anyhow::Result<()> {
    let mut cases = Vec::new();
    for kind in &args.kind {
        cases.push(args.case(kind)?);
    }
    let device = device::resolve(
        &args
            .document(DenseConfig::KIND)?
            .plan_without_data()?
            .train
            .device,
    )?;
    if let Some(number) = args.common.peak_of {
        let case = cases.get(number).context("no such case")?;
        return print_peak(case.peak_bytes(&device.device)?);
    }
    let peaks = args.common.peaks(cases.len());
    let mut records = args
        .common
        .timed(|rounds, progress| bench::step(&cases, &device.device, rounds, progress))?;
    for (record, peak) in records.iter_mut().zip(peaks) {
        record.peak_bytes = peak;
    }
    let rows = records.iter().map(|r| {
        let k: Vec<String> = r.k.iter().map(usize::to_string).collect();
        vec![
            r.kind.clone(),
            k.join("/"),
            spread(&r.forward),
            spread(&r.step),
            format!("{:.1}", r.images_per_second),
            format!("{:.0}", r.gflops),
            format!("{:.1}", r.gbps),
            mebibytes(r.peak_bytes),
        ]
    });
    let name = records.first().map_or("", |r| r.model.as_str());
    let title = format!("step of {name}, batch {}", args.batch);
    let header = [
        "kind",
        "k",
        "forward ms",
        "step ms",
        "images/s",
        "GFLOP/s",
        "GB/s",
        "peak MiB",
    ];
    args.common
        .finish(&title, &device, &table(&header, rows), &records)
}

impl StepArgs {
    fn document(&self, kind: &str) -> anyhow::Result<Document> {
        let mut overrides = self.overrides.all();
        overrides.push(format!("model.attention.kind={kind}"));
        self.model.document(&overrides)
    }

    fn case(&self, kind: &str) -> anyhow::Result<StepCase> {
        Ok(StepCase {
            kind: kind.to_owned(),
            config: model_config(&self.document(kind)?.plan_without_data()?.model, None)?,
            batch: self.batch,
        })
    }
}

impl Common {
    /// Runs the timing under a progress bar.
    fn timed<R>(
        &self,
        work: impl FnOnce(Rounds, &mut dyn FnMut(usize)) -> Result<R, bench::BenchError>,
    ) -> anyhow::Result<R> {
        let rounds = Rounds {
            warmup: self.warmup,
            timed: self.runs,
        };
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
        let output = Command::new(std::env::current_exe().ok()?)
            .args(std::env::args_os().skip(1))
            .arg(format!("--peak-of={case}"))
            // With huge pages the system counts 2 MiB wherever one value was written.
            .env("MIMALLOC_ALLOW_THP", "0")
            .output()
            .ok()?;
        serde_json::from_slice(&output.stdout).ok()
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
            "{title}, f32, on {} ({}), {threads} threads\n\n{table}\n\nmedian (quartiles) of {} runs{}",
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

fn shape(text: &str) -> Result<AttentionShape, String> {
    let sizes: Option<Vec<usize>> = text
        .split(',')
        .map(|size| size.trim().parse().ok().filter(|size| *size > 0))
        .collect();
    match sizes.as_deref() {
        Some(&[batch, heads, tokens, head_dim]) => {
            // The largest tensor, the scores, is not larger than any machine's memory.
            let values = [heads, tokens, tokens.max(head_dim)]
                .into_iter()
                .try_fold(batch, usize::checked_mul);
            if values.is_none_or(|values| values > 1 << 36) {
                return Err("more than 2^36 scores".to_owned());
            }
            Ok(AttentionShape {
                batch,
                heads,
                tokens,
                head_dim,
            })
        }
        _ => Err("expected four positive numbers: batch,heads,tokens,head_dim".to_owned()),
    }
}

fn implementation(text: &str) -> Result<Implementation, String> {
    let all = Implementation::ALL;
    all.into_iter().find(|i| i.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|i| i.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn input(text: &str) -> Result<AttentionInput, String> {
    let all = AttentionInput::ALL;
    all.into_iter().find(|i| i.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|i| i.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}
