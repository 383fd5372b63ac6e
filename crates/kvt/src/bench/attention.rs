//! `kvt bench attention`

use std::path::PathBuf;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use kvt_attention::{AttentionConfig, Implementation, KnnConfig, Neighbors};

use super::{Common, asked_or, kinds, print_peak, spread};
use crate::common::named;
use crate::table::table;
use kvt_tools::bench::{
    self, AttentionCase, AttentionInput, AttentionMeasurement, AttentionShape, mebibytes,
};
use kvt_train::device;

const SHAPE: AttentionShape = AttentionShape {
    batch: 16,
    heads: 3,
    tokens: 197,
    head_dim: 64,
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt bench attention --k 20,100\n  kvt bench attention --kind dense,knn,linear --tokens 197,1024 --out bench"
)]
pub(super) struct AttentionArgs {
    /// Device, as for `kvt train`.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(super) device: String,
    /// Batch, heads, tokens and channels per head: 16,3,197,64, with `--kind` 1,4,197,64.
    #[arg(long, value_name = "B,H,N,D", value_parser = shape)]
    pub(super) shape: Option<AttentionShape>,
    /// Kinds of attention, or `all`, each with its defaults, measured in separate processes, instead of dense and k-NN
    /// attention in turn.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new([kinds::ALL].iter().chain(AttentionConfig::KINDS)), conflicts_with_all = ["k", "implementation", "input"])]
    pub(super) kind: Vec<String>,
    /// Numbers of tokens, instead of the one in `--shape`.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "kind", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 20))]
    pub(super) tokens: Vec<usize>,
    /// Override a key of `[model.attention]` in the kinds that have it, as in `--set landmarks=32`.
    #[arg(long, value_name = "KEY=VALUE", requires = "kind")]
    pub(super) set: Vec<String>,
    /// Folder for a table (CSV) and plots (SVG) of the kinds.
    #[arg(long, alias = "output", value_name = "DIR", requires = "kind")]
    pub(super) out: Option<PathBuf>,
    /// Keys that a query keeps; several are measured in turn. Half of the tokens by default.
    #[arg(long, value_name = "K", value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    k: Vec<usize>,
    /// How k-NN attention is computed; several are measured in turn.
    #[arg(long, value_delimiter = ',', default_value = "auto", value_parser = named(Implementation::ALL, Implementation::name))]
    implementation: Vec<Implementation>,
    /// What the scores are like: `normal`, with a `sink` (a key that nearly all queries like most), or many
    /// `equal` ones; several are measured in turn.
    #[arg(long, value_delimiter = ',', default_value = "normal", value_parser = named(AttentionInput::ALL, AttentionInput::name))]
    input: Vec<AttentionInput>,
    /// Print the times of one case of `--kind`, for the process that measures all of them.
    #[arg(long, value_name = "CASE", hide = true, requires = "kind")]
    pub(super) times_of: Option<usize>,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) fn run(args: &AttentionArgs) -> anyhow::Result<()> {
    if !args.kind.is_empty() {
        return kinds::run(args);
    }
    let device = device::resolve(&args.device)?;
    let shape = args.shape.unwrap_or(SHAPE);
    let half = [(shape.tokens / 2).max(1)];
    let mut attentions = vec![AttentionConfig::dense()];
    for &k in asked_or(&args.k, &half) {
        for &implementation in &args.implementation {
            attentions.push(AttentionConfig::Knn(KnnConfig {
                implementation,
                ..KnnConfig::new(Neighbors::count(k)?)
            }));
        }
    }
    let cases: Vec<AttentionCase> = args
        .input
        .iter()
        .flat_map(|&input| {
            attentions.iter().map(move |attention| AttentionCase {
                shape,
                input,
                attention: attention.clone(),
            })
        })
        .collect();
    if let Some(number) = args.common.peak_of {
        let case = cases.get(number).context("no such case")?;
        return print_peak(case.peak_bytes(&device.device)?);
    }
    let peaks = args.common.peaks(cases.len());
    let times = args
        .common
        .timed(|rounds, progress| bench::attention(&cases, &device.device, rounds, progress))?;
    let records = cases.iter().zip(times).zip(peaks);
    let records = records.map(|((case, times), peak)| case.measurement(times, peak));
    let records: Vec<AttentionMeasurement> = records.collect();
    // The first record of each input is dense attention.
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
    let [batch, heads, tokens, head_dim] = shape.sizes();
    let title = format!("attention {batch},{heads},{tokens},{head_dim}, f32");
    let header =
        "kind,input,k,forward ms,of dense,forward + backward ms,of dense,GFLOP/s,GB/s,peak MiB";
    args.common
        .finish(&title, &device, &table(header.split(','), rows), &records)
}

fn shape(text: &str) -> Result<AttentionShape, String> {
    let sizes: Option<Vec<usize>> = text
        .split(',')
        .map(|size| size.trim().parse().ok().filter(|size| *size > 0))
        .collect();
    match sizes.as_deref() {
        Some(&[batch, heads, tokens, head_dim]) => {
            // The largest tensor, the scores, must fit in the memory of some machine.
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
