//! `kvt finetune`

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use kvt_models::ImgSize;

use super::common::{Overrides, generating, one_of};
use super::training::{Display, carry_out, exit_code};
use super::{job, output};
use kvt_tools::finetune::{Choices, FinetuneError, Request, propose, resume};
use kvt_train::config::{Plan, resolved_toml};
use kvt_train::engine::{Session, Start, TrainError};
use kvt_train::task::{Classify, Freeze, TaskKind};
use kvt_train::world::World;

/// `kvt finetune FOLDER --weights WEIGHTS [--model NAME] [--freeze backbone]`
///
/// Everything but FOLDER and `--weights` has a default for small data; `--print-config` shows all of it.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "  kvt finetune photos --weights deit_small_patch16_224",
    override_usage = "kvt finetune [OPTIONS] --weights <WEIGHTS> <FOLDER>\n       kvt finetune [OPTIONS] --resume [FOLDER]",
    after_help = "Examples:\n  kvt finetune photos --weights deit_small_patch16_224\n  kvt finetune photos --weights runs/photos --linear-probe --epochs 10\n  kvt finetune photos --weights w.pth --print-config > photos.toml"
)]
pub(super) struct Args {
    /// Required without `--resume`: the images, `FOLDER/<class>/*`, or the same in `FOLDER/train` and `FOLDER/val`; or tar shards, Parquet files, CIFAR.
    #[arg(value_name = "FOLDER", required_unless_present = "resume")]
    folder: Option<PathBuf>,
    /// Required without `--resume`: the weights to start from. A name of `kvt models list --weights`, which is downloaded; a file, `.safetensors`
    /// or `.pth` under timm's names or the authors'; or the folder of a run.
    #[arg(long, value_name = "WEIGHTS", required_unless_present = "resume")]
    weights: Option<PathBuf>,
    /// The weights' model, a name of `kvt models list` or one of timm's `vit_*`; needed only if the weights do not say.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Epochs; by default 5 to 50, so that about 20,000 images are seen.
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Learning rate of the head, used as given; by default 5e-4 x batch / 128 (probe: 4e-3, LoRA: 5e-3).
    #[arg(long, value_name = "X")]
    lr: Option<f64>,
    /// Images of an update; by default 32, or fewer in a small folder.
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Side of the images in pixels, or height x width as in `224x320` for a ViT; position embeddings are resampled to it. By default that of the weights.
    #[arg(long, value_name = "PIXELS")]
    img_size: Option<ImgSize>,
    /// What is not trained.
    #[arg(long, default_value = "none", value_parser = one_of(FREEZE))]
    freeze: Freeze,
    /// Train the head alone; the same as `--freeze backbone`.
    #[arg(long, conflicts_with = "freeze")]
    linear_probe: bool,
    /// Train factors of this rank beside the weights of the attention (LoRA), and the head; the weights that are saved have them merged.
    #[arg(long, value_name = "RANK", conflicts_with_all = ["freeze", "linear_probe"])]
    lora: Option<NonZeroUsize>,
    /// The run's folder; by default `runs/finetune/` and the name of FOLDER.
    #[arg(long, alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run where it was stopped, with the configuration that is in its folder.
    #[arg(long)]
    resume: bool,
    /// Print the complete configuration instead of training: a file for `kvt train`.
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    display: Display,
}

/// What stays as the weights have it.
const FREEZE: [(Freeze, &str, &str); 2] = [
    (Freeze::None, "none", "Nothing"),
    (Freeze::Backbone, "backbone", "Everything but the head"),
];

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    job::run(|world| finetune(args, world))
}

fn finetune(args: &Args, world: &Arc<dyn World>) -> anyhow::Result<ExitCode> {
    let (plan, start) = job::agree(world, args.proposed())?;
    if args.print_config {
        output::print(&resolved_toml(&plan)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if plan.task != TaskKind::Classify {
        return Err(FinetuneError::OtherTask.into());
    }
    let world = Arc::clone(world);
    let session =
        Session::<Classify>::prepare(world, plan, start, &mut generating()).map_err(with_out)?;
    Ok(exit_code(carry_out(session, &args.display)?))
}

/// Makes errors about the run's folder, and about another recipe for it, mention the options by which both are chosen here.
fn with_out(error: TrainError) -> anyhow::Error {
    match error {
        TrainError::Run(error) => anyhow!(error.with_folder("--out")),
        error @ TrainError::ConfigChanged { .. } => {
            anyhow!("{error} (with `kvt finetune` they are `--out DIR` and `--weights RUN`)")
        }
        error => error.into(),
    }
}

impl Args {
    /// The plan to train, and how training starts.
    fn proposed(&self) -> anyhow::Result<(Plan, Start<'static>)> {
        let is_probe = self.linear_probe || self.freeze == Freeze::Backbone;
        let lora = self.lora.map(NonZeroUsize::get);
        if self.resume {
            let model = self.model.as_deref();
            let choices = self.choices().resumed(model, is_probe, lora);
            let plan = resume(self.folder.as_deref(), &choices)?;
            return Ok((plan, Start::RESUME));
        }
        let (Some(folder), Some(weights)) = (&self.folder, &self.weights) else {
            bail!("a folder of images and `--weights` are needed");
        };
        let proposal = propose(&Request {
            folder: folder.clone(),
            weights: Some(weights.clone()),
            model: self.model.clone(),
            probe: is_probe,
            lora,
            choices: self.choices(),
        })?;
        proposal.notes.iter().for_each(|note| output::status(note));
        Ok((proposal.plan, Start::New))
    }

    fn choices(&self) -> Choices {
        Choices {
            epochs: self.epochs,
            lr: self.lr,
            batch_size: self.batch_size,
            img_size: self.img_size,
            out: self.out.clone(),
            set: self.overrides.all(),
        }
    }
}
