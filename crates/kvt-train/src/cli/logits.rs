//! `kvt logits`: weights and prepared images in, logits out, for anyone who checks us against another
//! implementation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use burn::tensor::{Tensor, TensorData};
use kvt_models::checkpoint::LoadOptions;
use kvt_models::weights::{self, StateDict};
use kvt_ops::{Key, Phase};

use super::common::{ModelArgs, Overrides, classes};
use super::output;
use crate::device;
use crate::fs::check_writable;
use crate::task::model_config;

/// Images of one forward pass.
const BATCH: usize = 16;

/// `kvt logits --model NAME --weights W.safetensors --input IN.safetensors --output OUT.safetensors`
///
/// IN holds `images` `[n, channels, height, width]`, already normalised; OUT gets `logits`
/// `[n, classes]`. Both are f32.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    overrides: Overrides,
    /// Weights, `.safetensors` or `.pth`.
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,
    /// Normalised images.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Where the logits go.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_writable(&args.output)?;
    let weights = weights::read(&args.weights)?;
    let document = args.model.document(&args.overrides.all())?;
    let plan = document.plan_without_data()?;
    let config = model_config(&plan.model, classes(&weights))?;
    let device = device::resolve(&plan.train.device)?;
    let model = config.init(&device.device, Key::new(0))?;
    let (model, report) = model.load(&weights, LoadOptions::default())?;
    for name in report.names(kvt_models::weights::Outcome::Unused) {
        output::warning(&format!("`{name}` of the weights is not used"));
    }

    let input = weights::read(&args.input)?;
    let Some(images) = input.get("images") else {
        bail!("`{}` has no tensor `images`", args.input.display());
    };
    let shape: [usize; 4] = images
        .shape()
        .to_vec()
        .try_into()
        .map_err(|found: Vec<usize>| {
            anyhow::anyhow!(
                "`images` in `{}` has shape {found:?}, expected [n, channels, height, width]",
                args.input.display()
            )
        })?;
    model.check_input(shape)?;
    let images = Tensor::<4>::from_data(images.clone(), &device.device);
    let mut logits = Vec::new();
    for start in (0..shape[0]).step_by(BATCH) {
        let batch = images.clone().narrow(0, start, BATCH.min(shape[0] - start));
        let data = model.forward(batch, Phase::Eval).try_into_data()?;
        let values: Vec<f32> = data
            .convert::<f32>()
            .try_to_vec()
            .map_err(|e| anyhow::anyhow!("could not read the logits: {e:?}"))?;
        logits.extend(values);
    }
    let broken = logits
        .chunks(config.num_classes())
        .filter(|row| !row.iter().all(|x| x.is_finite()))
        .count();
    if broken > 0 {
        output::warning(&format!(
            "the logits of {broken} of {} images are not finite",
            shape[0]
        ));
    }
    let shape_out = [shape[0], config.num_classes()];
    write(&args.output, TensorData::new(logits, shape_out))?;
    output::status(&format!(
        "wrote the logits of {} images to `{}` ({} on {})",
        shape[0],
        args.output.display(),
        config.name(),
        device.name
    ));
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, logits: TensorData) -> anyhow::Result<()> {
    let mut out = StateDict::default();
    out.insert("logits", logits);
    weights::write(path, &out, &Default::default())
        .with_context(|| format!("could not write `{}`", path.display()))
}
