//! `kvt bench forward`

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::builder::RangedU64ValueParser;
use kvt_attention::{KnnConfig, MechanismConfig as _};
use kvt_models::Precision;

use super::model::MeasuredModel;
use super::{Common, asked_or, print_peak};
use crate::common::named;
use crate::output;
use crate::table::table;
use kvt_data::fs::{check_writable, write_text};
use kvt_tools::bench::{self, ForwardMeasurement, ModelCase};
use kvt_train::device;
use kvt_train::table::Table;

/// The files of `--out`.
const CSV: &str = "forward.csv";
const MARKDOWN: &str = "forward.md";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt bench forward --model deit_tiny_patch16_224 --batch 1,32 --dtype f32,bf16\n  kvt bench forward --config photos.toml --kind dense --device cuda --out bench"
)]
pub(super) struct ForwardArgs {
    #[command(flatten)]
    model: MeasuredModel,
    /// Keys that a query keeps, with `--kind knn`; several are measured in turn. As configured by default.
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    k: Vec<usize>,
    /// Images of a pass; several are measured in turn.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,32", value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    batch: Vec<usize>,
    /// Types of matrix products, measured in turn. As configured by default.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = named([Precision::F32, Precision::Bf16, Precision::F16], Precision::name))]
    dtype: Vec<Precision>,
    /// Folder for the table (CSV and Markdown).
    #[arg(long, alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) fn run(args: &ForwardArgs) -> anyhow::Result<()> {
    let plan = args.model.plan()?;
    let device = device::resolve(&plan.train.device)?;
    let configured = [plan.train.precision];
    let precisions = asked_or(&args.dtype, &configured);
    for &precision in precisions {
        output::warnings(device.check_precision(precision)?);
    }
    let cases = args.cases(precisions)?;
    let common = &args.common;
    if let Some(number) = common.peak_of {
        let case = cases.get(number).context("no such case")?;
        return print_peak(case.forward_peak_bytes(&device.device)?);
    }
    if let Some(folder) = &args.out {
        fs_err::create_dir_all(folder)?;
        // Check the files before measuring.
        check_writable(&folder.join(CSV))?;
        check_writable(&folder.join(MARKDOWN))?;
    }
    let peaks = common.peaks(cases.len());
    let mut records = common
        .timed(|rounds, progress| bench::forward(&cases, &device.device, rounds, progress))?;
    for (record, peak) in records.iter_mut().zip(peaks) {
        record.peak_bytes = peak;
    }
    let columns = ForwardMeasurement::COLUMNS;
    let rows: Vec<[String; 10]> = records.iter().map(ForwardMeasurement::row).collect();
    if let Some(folder) = &args.out {
        let csv = Table::new(columns, rows.iter()).csv();
        write_text(&folder.join(CSV), &csv)?;
        let markdown = Table::new(columns, rows.iter()).markdown(&[0, 2]);
        write_text(&folder.join(MARKDOWN), &markdown)?;
    }
    let name = records.first().map_or("", |r| r.model.as_str());
    // As in a run's weights: a pass is that of the model without factors.
    let lora = match plan.lora.rank {
        0 => "",
        _ => ", with the factors of LoRA merged",
    };
    let title = format!("forward pass of {name} in evaluation mode{lora}");
    let rows = rows.into_iter().map(Vec::from);
    common.finish(&title, &device, &table(columns, rows), &records)
}

impl ForwardArgs {
    /// The cases, ordered by type, then by kind and k, then by batch.
    fn cases(&self, precisions: &[Precision]) -> anyhow::Result<Vec<ModelCase>> {
        let has_knn = self.model.kind.iter().any(|kind| kind == KnnConfig::KIND);
        ensure!(
            self.k.is_empty() || has_knn,
            "`--k` is for `--kind knn`, which is not measured: leave it out, or add the kind"
        );
        let mut cases = Vec::new();
        for &precision in precisions {
            for kind in &self.model.kind {
                let counts = self.k.iter().filter(|_| kind == KnnConfig::KIND);
                let mut more: Vec<Vec<String>> = counts
                    .map(|k| vec![format!("model.attention.neighbors={k}")])
                    .collect();
                if more.is_empty() {
                    more.push(Vec::new());
                }
                for more in &more {
                    for &batch in &self.batch {
                        let case = self.model.case(kind, batch, more)?;
                        ensure!(
                            case.dense.is_none(),
                            "`kvt bench forward` times classifiers: `kvt bench step` times networks for segmentation and detection, also their forward pass"
                        );
                        cases.push(ModelCase { precision, ..case });
                    }
                }
            }
        }
        Ok(cases)
    }
}
