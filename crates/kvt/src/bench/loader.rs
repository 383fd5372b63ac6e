//! `kvt bench loader`

use std::path::PathBuf;

use anyhow::bail;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use crate::common::{ConfigArgs, done_of, generating, number};
use crate::output;
use crate::table::table;
use kvt_data::fs::write_text;
use kvt_data::text::counted;
use kvt_tools::bench::{self, LoaderCase, LoaderMeasurement};
use kvt_train::splits::Splits;
use kvt_train::task::{Classify, Dino, Task, TaskKind};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt bench loader photos.toml --workers 4\n  kvt bench loader photos.toml --device-rate 2000"
)]
pub(super) struct LoaderArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Images of a round.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000_000))]
    images: usize,
    /// Threads of the loader, each on a core.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    workers: usize,
    /// Rounds that count; one more goes before.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1000))]
    rounds: usize,
    /// Images per second that a device trains on: how many cores feed it?
    #[arg(long, value_name = "RATE", value_parser = number(|rate| rate > 0.0 && rate < 1e12, "a number of images per second"))]
    device_rate: Option<f64>,
    /// Also write the record to a file.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// The content of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    kvt: &'a str,
    date: String,
    #[serde(flatten)]
    record: &'a LoaderMeasurement,
    device_rate: Option<f64>,
    cores: Option<u64>,
}

pub(super) fn run(args: &LoaderArgs) -> anyhow::Result<()> {
    let plan = args.config.plan()?;
    let size = plan.model.config(None)?.img_size().sides();
    let views = match plan.task {
        TaskKind::Classify | TaskKind::MultiLabel => Classify::views(&plan, size)?,
        TaskKind::Dino => Dino::views(&plan, size)?,
        TaskKind::Detect | TaskKind::Segment => bail!(
            "`kvt bench loader` times transforms of whole images; those of images with objects or masks are not measured"
        ),
    };
    let splits = Splits::open(&plan, size, None, &mut generating())?.with_train_views(views);
    output::warnings(splits.warnings());
    let case = LoaderCase {
        images: args.images,
        workers: args.workers,
        rounds: args.rounds,
    };
    let record = bench::loader(&plan, &splits, case, done_of("timing", args.rounds))?;
    let cores = args
        .device_rate
        .map(|rate| (rate / record.images_per_second_per_core).ceil() as u64);
    output::print(&describe(&record, args.device_rate.zip(cores)))?;
    let Some(path) = &args.json else {
        return Ok(());
    };
    let report = Report {
        kvt: env!("CARGO_PKG_VERSION"),
        date: jiff::Timestamp::now().to_string(),
        record: &record,
        device_rate: args.device_rate,
        cores,
    };
    let text = serde_json::to_string_pretty(&report)?;
    Ok(write_text(path, &text)?)
}

/// The table of the stages, and the conclusions from it.
fn describe(record: &LoaderMeasurement, device: Option<(f64, u64)>) -> String {
    let stages = record.stages.iter().map(|stage| {
        vec![
            stage.name.to_owned(),
            format!("{:.3}", stage.ms),
            format!("{:.1}", 100.0 * stage.share),
        ]
    });
    let ms: f64 = record.stages.iter().map(|stage| stage.ms).sum();
    let total = ["all".to_owned(), format!("{ms:.3}"), "100.0".to_owned()];
    let rows = stages.chain([total.to_vec()]);
    let views = match record.views {
        1 => String::new(),
        views => format!(", {views} views of each"),
    };
    let mut text = format!(
        "{} images a round{views}\n\n{}\n\n{:.0} images/s on one core; reading and decoding alone make {:.0} ({:.0} %)\n\
         {:.0} images/s with {} ({:.0}-{:.0}), {:.0} for each",
        record.images,
        table(["stage", "ms for an image", "share %"], rows),
        record.images_per_second_alone,
        record.decode_limit,
        100.0 * record.images_per_second_alone / record.decode_limit,
        record.loader.median,
        counted(record.workers, "worker"),
        record.loader.low,
        record.loader.high,
        record.images_per_second_per_core,
    );
    if let Some((rate, cores)) = device {
        text += &format!("\na device that trains on {rate:.0} images/s needs {cores} such cores");
    }
    text
}
