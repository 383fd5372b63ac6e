//! `kvt logits`: weights and prepared images in, logits out, to check kvt against another implementation; or a run and all images
//! of a split, for `distill.logits`.

mod split;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use burn::tensor::{Tensor, TensorData};
use clap::ArgGroup;
use kvt_models::weights::{self, LoadOptions, StateDict};
use kvt_ops::{Key, Phase};

use super::common::{ModelArgs, Overrides, classes};
use super::output;
use kvt_data::fs::check_writable;
use kvt_train::device;
use kvt_train::task::write_weights;
use kvt_train::task::{LOGITS, model_config};

/// Images of one forward pass.
const BATCH: usize = 16;

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
    after_help = "Examples:\n  kvt logits --model deit_tiny_patch16_224 --weights w.pth --input in.safetensors --output out.safetensors\n  kvt logits --run runs/teacher --output logits.safetensors --half"
)]
pub(super) struct Args {
    /// A model's name, as `kvt models list` has them.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// A configuration file; its `[model]` is used.
    #[arg(long, value_name = "CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Weights, `.safetensors` or `.pth`.
    #[arg(long, value_name = "FILE", required_unless_present = "run")]
    weights: Option<PathBuf>,
    /// Normalised images.
    #[arg(long, value_name = "FILE", required_unless_present = "run")]
    input: Option<PathBuf>,
    /// Where the logits go.
    #[arg(long, alias = "out", value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    split: split::Args,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_writable(&args.output)?;
    if let Some(run) = &args.split.run {
        return split::run(run, args);
    }
    let (Some(weights), Some(input)) = (&args.weights, &args.input) else {
        bail!("neither a run nor weights and images");
    };
    let Some(model) = ModelArgs::new(args.model.clone(), args.config.clone()) else {
        bail!("neither `--model` nor `--config`");
    };
    let weights = weights::read(weights)?;
    let document = model.document(&args.overrides.all())?;
    let plan = document.plan_without_data()?;
    let config = model_config(&plan.model, classes(&weights))?;
    let device = device::resolve(&plan.train.device)?;
    let model = config.init(&device.device, Key::new(0))?;
    let (model, report) = model.load(&weights, LoadOptions::default())?;
    for name in report.names(kvt_models::weights::Outcome::Unused) {
        output::warning(&format!("`{name}` of the weights is not used"));
    }

    let tensors = weights::read(input)?;
    let Some(images) = tensors.get("images") else {
        bail!("`{}` has no tensor `images`", input.display());
    };
    let shape: [usize; 4] = images
        .shape()
        .to_vec()
        .try_into()
        .map_err(|found: Vec<usize>| {
            anyhow::anyhow!(
                "`images` in `{}` has shape {found:?}, expected [n, channels, height, width]",
                input.display()
            )
        })?;
    model.check_input(shape)?;
    let images = Tensor::<4>::from_data(images.clone(), &device.device);
    let mut logits = Vec::new();
    for start in (0..shape[0]).step_by(BATCH) {
        let batch = images.clone().narrow(0, start, BATCH.min(shape[0] - start));
        let values = model.forward(batch, Phase::Eval).try_into_vec_as::<f32>();
        logits.extend(values.context("could not read the logits")?);
    }
    let broken = broken(&logits, config.num_classes());
    if broken > 0 {
        output::warning(&format!(
            "the logits of {broken} of {} images are not finite",
            shape[0]
        ));
    }
    let shape_out = [shape[0], config.num_classes()];
    let mut out = StateDict::default();
    out.insert(LOGITS, TensorData::new(logits, shape_out));
    write_weights(&args.output, &out, &BTreeMap::new())?;
    output::status(&format!(
        "wrote the logits of {} images to `{}` ({} on {})",
        shape[0],
        args.output.display(),
        config.name(),
        device.name
    ));
    Ok(ExitCode::SUCCESS)
}

/// Number of rows with logits that are not finite.
fn broken(logits: &[f32], classes: usize) -> usize {
    let rows = logits.chunks(classes);
    rows.filter(|row| !row.iter().all(|x| x.is_finite()))
        .count()
}
