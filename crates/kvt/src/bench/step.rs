//! `kvt bench step`

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use kvt_attention::{AttentionConfig, DenseConfig, MechanismConfig as _};

use super::{Common, mebibytes, print_peak, spread};
use crate::common::{ModelArgs, Overrides};
use crate::job;
use crate::output;
use crate::table::table;
use kvt_train::bench::{self, StepCase};
use kvt_train::config::Document;
use kvt_train::device;
use kvt_train::engine::Processes;

use kvt_train::world::{World, on_device};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt bench step --model deit_tiny_patch16_224 --batch 32\n  kvt bench step --config photos.toml --kind dense,knn --device cuda"
)]
pub(super) struct StepArgs {
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
    pub(super) common: Common,
}

pub(super) fn run(args: &StepArgs) -> anyhow::Result<()> {
    job::run(|world| {
        if world.is_alone() {
            measure(args)?;
        } else {
            scale(args, world)?;
        }
        Ok(ExitCode::SUCCESS)
    })?;
    Ok(())
}

/// Measures the steps of several processes alone and together, and how efficient they are together.
fn scale(args: &StepArgs, world: &Arc<dyn World>) -> anyhow::Result<()> {
    let ready = || -> anyhow::Result<_> {
        let cases = args
            .kind
            .iter()
            .map(|kind| args.case(kind))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let plan = args.document(DenseConfig::KIND)?.plan_without_data()?;
        let device = device::resolve_local(&plan.train.device, world.local())?;
        device.check_precision(plan.train.precision)?;
        Ok((cases, device))
    };
    let (cases, device) = job::agree(world, ready())?;
    let way = on_device::connect(world, &device)?;
    if let Some(message) = way.message() {
        if way.is_second_best() {
            output::warning(&message);
        } else {
            output::status(&message);
        }
    }
    let processes = Processes::new(Arc::clone(world), true).with_way(way);
    let records = args.common.timed(|rounds, progress| {
        bench::scaling(&cases, &device.device, &processes, rounds, progress)
    })?;
    if !world.is_first() {
        return Ok(());
    }
    let rows = records.iter().map(|r| {
        vec![
            r.kind.clone(),
            spread(&r.alone),
            spread(&r.together),
            spread(&r.communication),
            format!("{:.1}", r.images_per_second),
            format!("{:.0} %", 100.0 * r.efficiency),
        ]
    });
    let name = records.first().map_or("", |r| r.model.as_str());
    let (size, batch) = (world.size(), args.batch);
    let title = format!("step of {name}, batch {batch} in each of {size} processes");
    let header = [
        "kind",
        "alone ms",
        "together ms",
        "communication ms",
        "images/s",
        "efficiency",
    ];
    args.common
        .finish(&title, &device, &table(&header, rows), &records)
}

fn measure(args: &StepArgs) -> anyhow::Result<()> {
    let mut cases = Vec::new();
    for kind in &args.kind {
        cases.push(args.case(kind)?);
    }
    let plan = args.document(DenseConfig::KIND)?.plan_without_data()?;
    let device = device::resolve(&plan.train.device)?;
    if let Some(warning) = device.check_precision(plan.train.precision)? {
        output::warning(&warning);
    }
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
    let dtype = plan.train.precision.name();
    let title = format!("step of {name}, batch {}, {dtype}", args.batch);
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
        Ok(self.model.document(&overrides)?.shared())
    }

    fn case(&self, kind: &str) -> anyhow::Result<StepCase> {
        let plan = self.document(kind)?.plan_without_data()?;
        Ok(StepCase {
            kind: kind.to_owned(),
            config: plan.model.config(None)?,
            batch: self.batch,
            precision: plan.train.precision,
        })
    }
}
