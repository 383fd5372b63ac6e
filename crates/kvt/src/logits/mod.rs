//! `kvt logits`: weights and prepared images in, logits out, to check kvt against another implementation; or a run and all images
//! of a split, for `distill.logits`.

mod split;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::bail;
use clap::ArgGroup;
use kvt_models::weights::{self, StateDict};
use kvt_ops::Key;

use super::common::{ModelArgs, Overrides, check_not_read, with_weights};
use super::output;
use kvt_data::fs::check_writable;
use kvt_tools::trained::{count_broken, of_images};
use kvt_train::device;
use kvt_train::fetch::locate;
use kvt_train::task::{LOGITS, write_weights};

/// `kvt logits --model NAME --weights W.safetensors --input IN.safetensors --output OUT.safetensors`
///
/// IN holds `images` `[n, channels, height, width]`, already normalised; OUT gets `logits`
/// `[n, classes]`. Both are f32.
///
/// `kvt logits --run RUN --output OUT.safetensors`
///
/// OUT gets `logits` of all images of a split, in their order, their `labels`, and in its metadata the names of the classes and a hash of the
/// images: what `distill.logits` reads and checks.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("subject").required(true).args(["model", "config", "run"])))]
#[command(
    override_usage = "kvt logits [OPTIONS] --output <FILE> <--model <NAME>|--config <CONFIG>>\n       kvt logits [OPTIONS] --output <FILE> --run <RUN>",
    after_help = "Examples:\n  kvt logits --model deit_tiny_patch16_224 --weights w.pth \\\n      --input in.safetensors --output out.safetensors\n  kvt logits --run runs/teacher --output logits.safetensors --half"
)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    overrides: Overrides,
    /// Weights, `.safetensors` or `.pth`, or a name of `kvt models list --weights`.
    #[arg(long, value_name = "FILE", required_unless_present = "run")]
    weights: Option<PathBuf>,
    /// Normalised images.
    #[arg(long, value_name = "FILE", required_unless_present = "run", conflicts_with_all = ["checkpoint", "ema", "raw", "split", "half"])]
    input: Option<PathBuf>,
    /// Where the logits go.
    #[arg(long, alias = "out", value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    split: split::Args,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    check_writable(&args.output)?;
    if let Some(run) = &args.split.run {
        return split::run(run, args);
    }
    let (Some(weights), Some(input)) = (&args.weights, &args.input) else {
        bail!("neither a run nor weights and images");
    };
    let weights = locate(weights)?;
    let config = args.model.config.as_deref();
    let read = [weights.as_path(), input.as_path()]
        .into_iter()
        .chain(config);
    check_not_read(&args.output, read)?;
    let weights = weights::read(&weights)?;
    let (plan, config) = args.model.plan(&args.overrides.all(), &weights)?;
    let device = device::resolve(&plan.train.device)?;
    let (model, _) = with_weights(config.init(&device.device, Key::new(0))?, weights)?;

    let logits = of_images(&model, &weights::read(input)?, input, &device.device)?;
    let classes = config.num_classes();
    let images = logits.num_elements() / classes;
    let broken = logits
        .as_slice::<f32>()
        .map_or(0, |logits| count_broken(logits, classes));
    if broken > 0 {
        output::warning(&format!(
            "the logits of {broken} of {images} images are not finite"
        ));
    }
    let mut out = StateDict::default();
    out.insert(LOGITS, logits);
    write_weights(&args.output, &out, &BTreeMap::new())?;
    output::status(&format!(
        "wrote the logits of {images} images to `{}` ({} on {})",
        args.output.display(),
        config.name(),
        device.name
    ));
    Ok(())
}
