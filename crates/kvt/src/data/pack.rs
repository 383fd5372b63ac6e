//! `kvt data pack`

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;

use super::LABEL;
use crate::common::done_of;
use crate::output;
use kvt_train::data::{ClassOrder, DataConfig, pack, splits_to_pack, test_split};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt data pack photos shards\n  kvt data pack photos shards --val-fraction 0.2"
)]
pub(super) struct Args {
    /// The folder that holds the splits.
    dir: PathBuf,
    /// The folder to write; it must not exist.
    out: PathBuf,
    /// Names of the splits; without them `train` and `val`.
    #[arg(long, value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    splits: Vec<String>,
    /// Divide a folder without splits, `DIR/<class>/*`: share of each class that validates.
    #[arg(long, value_name = "SHARE", value_parser = super::share)]
    val_fraction: Option<f64>,
    /// Order the classes by the value of their digits (10 after 9), as `data.class_order = "natural"`, in place of by bytes.
    #[arg(long)]
    natural_order: bool,
    /// Column of the labels in Parquet files, as `data.label_column`.
    #[arg(long, value_name = "NAME", default_value = LABEL)]
    label_column: String,
    /// MiB of images in a shard.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    shard_size: u64,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let data = DataConfig {
        path: args.dir.clone(),
        class_order: if args.natural_order {
            ClassOrder::Natural
        } else {
            ClassOrder::Byte
        },
        label_column: args.label_column.clone(),
        val_fraction: args.val_fraction.unwrap_or(0.0),
        ..DataConfig::default()
    };
    let sources = splits_to_pack(data, &args.splits)?;
    for (_, source) in &sources {
        output::warnings(source.warnings());
    }
    if let (None, Some(test)) = (args.val_fraction, test_split(&args.dir))
        && args.splits.is_empty()
    {
        output::warning(&format!(
            "`{test}` is not packed: `--splits train,val,{test}` packs it too"
        ));
    }
    let splits: Vec<_> = sources
        .iter()
        .map(|(name, source)| (name.as_str(), source))
        .collect();
    let images = splits.iter().map(|(_, source)| source.samples.len()).sum();
    let progress = &mut done_of("packing", images);
    let packed = pack(&splits, &args.out, args.shard_size << 20, progress)?;
    output::print(&format!(
        "wrote {} images in {} shards to `{}`; train on them with `data.kind = \"tar\"` and `data.path`",
        packed.images,
        packed.shards,
        args.out.display()
    ))
}
