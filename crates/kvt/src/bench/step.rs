//! `kvt bench step`

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use clap::builder::RangedU64ValueParser;

use super::model::MeasuredModel;
use super::{Common, print_peak, spread};
use crate::table::{grouped, table};
use crate::{job, output};
use kvt_tools::bench::{self, ModelCase, mebibytes};
use kvt_train::device;
use kvt_train::engine::Processes;
use kvt_train::run::Topic;
use kvt_train::task::TaskKind;
use kvt_train::world::{World, on_device};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt bench step --model deit_tiny_patch16_224 --batch 32\n  kvt bench step --config photos.toml --kind dense,knn --device cuda"
)]
pub(super) struct StepArgs {
    #[command(flatten)]
    model: MeasuredModel,
    /// Images of a step. With segmentation and detection they have the size of the configuration, and generated masks or seven objects.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    batch: usize,
    /// With detection: images of the largest size that the configuration makes, in place of 4 to 3.
    #[arg(long)]
    largest: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) fn run(args: &StepArgs) -> anyhow::Result<()> {
    job::run(|world| {
        if world.is_alone() {
            measure(args)
        } else {
            scale(args, world)
        }
    })
}

/// Measures the steps of several processes alone and together, and how efficient they are together.
fn scale(args: &StepArgs, world: &Arc<dyn World>) -> anyhow::Result<()> {
    let ready = || -> anyhow::Result<_> {
        let (cases, plan) = (args.cases()?, args.model.plan()?);
        let device = device::resolve_local(&plan.train.device, world.local())?;
        device.check_precision(plan.train.precision)?;
        Ok((cases, device))
    };
    let (cases, device) = job::agree(world, ready())?;
    let way = on_device::connect(world, &device)?;
    if let Some((topic, message)) = way.message() {
        if topic == Topic::Warning {
            output::warning(&message);
        } else {
            output::status(&message);
        }
    }
    let processes = Processes::new(Arc::clone(world), true, way);
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
    let said = records
        .first()
        .map(|r| (r.model.as_str(), lora(r.lora_rank, r.trained)));
    let (name, lora) = said.unwrap_or_default();
    let (size, batch) = (world.size(), args.batch);
    let title = format!("step of {name}, batch {batch} in each of {size} processes{lora}");
    let header = "kind,alone ms,together ms,communication ms,images/s,efficiency";
    args.common
        .finish(&title, &device, &table(header.split(','), rows), &records)
}

fn measure(args: &StepArgs) -> anyhow::Result<()> {
    let (cases, plan) = (args.cases()?, args.model.plan()?);
    let device = device::resolve(&plan.train.device)?;
    output::warnings(device.check_precision(plan.train.precision)?);
    if let Some(number) = args.common.peak_of {
        let case = cases.get(number).context("no such case")?;
        return print_peak(case.step_peak_bytes(&device.device)?);
    }
    let peaks = args.common.peaks(cases.len());
    // A signal ends the process by itself here.
    let stop = AtomicBool::new(false);
    let mut records = args
        .common
        .timed(|rounds, progress| bench::step(&cases, &device.device, rounds, &stop, progress))?;
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
    let said = records
        .first()
        .map(|r| (r.model.as_str(), lora(r.lora_rank, r.trained)));
    let (name, lora) = said.unwrap_or_default();
    let dtype = plan.train.precision.name();
    let title = format!("step of {name}, batch {}, {dtype}{lora}", args.batch);
    let header = "kind,k,forward ms,step ms,images/s,GFLOP/s,GB/s,peak MiB";
    args.common
        .finish(&title, &device, &table(header.split(','), rows), &records)
}

/// What is trained in place of the weights, if it is LoRA's factors; they are the same for every kind of attention.
fn lora(rank: usize, trained: usize) -> String {
    match rank {
        0 => String::new(),
        _ => format!(
            ", LoRA of rank {rank}: {} parameters are trained",
            grouped(trained)
        ),
    }
}

impl StepArgs {
    fn cases(&self) -> anyhow::Result<Vec<ModelCase>> {
        let kinds = self.model.kind.iter();
        kinds
            .map(|kind| {
                let case = self.model.case(kind, self.batch, &[])?;
                let detects = case
                    .dense
                    .as_ref()
                    .is_some_and(|plan| plan.task == TaskKind::Detect);
                if self.largest && !detects {
                    anyhow::bail!("`--largest` is for detection: other images have one size");
                }
                Ok(ModelCase {
                    largest: self.largest,
                    ..case
                })
            })
            .collect()
    }
}
