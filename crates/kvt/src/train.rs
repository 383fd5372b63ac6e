//! `kvt train`

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;

use super::common::{ConfigArgs, generating};
use super::job;
use super::training::{Display, carry_out, exit_code};
use kvt_train::config::Plan;
use kvt_train::engine::{End, Session, Start};
use kvt_train::run::Which;
use kvt_train::task::{Classify, Detect, Dino, MultiLabel, Segment, Task, TaskKind};
use kvt_train::world::World;

/// `kvt train CONFIG [--set KEY=VALUE]... [--resume[=auto] | --resume-from CHECKPOINT]`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt train photos.toml\n  kvt train photos.toml --set train.epochs=10 --device cuda\n  kvt train photos.toml --resume\n  kvt train photos.toml --resume=auto"
)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Go on with the run in `run.dir` where it was stopped; with `auto`, or begin it if there is none.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "always", value_enum)]
    resume: Option<Resume>,
    /// Go on from another checkpoint of the run: `best`, or a name in its `checkpoints`.
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "resume")]
    resume_from: Option<PathBuf>,
    /// The run's folder; short for `--set run.dir=DIR`.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    #[command(flatten)]
    display: Display,
}

/// When a run goes on.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Resume {
    /// It is an error if there is no run.
    Always,
    /// Without a run, one begins.
    Auto,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    job::run(|world| train(args, world))
}

fn train(args: &Args, world: &Arc<dyn World>) -> anyhow::Result<ExitCode> {
    let mut plan = job::agree(world, args.config.plan())?;
    if let Some(dir) = &args.run_dir {
        plan.run.dir.clone_from(dir);
    }
    let start = match &args.resume_from {
        Some(checkpoint) => Start::Resume(Which::from(checkpoint.as_path())),
        None => match args.resume {
            Some(Resume::Always) => Start::RESUME,
            Some(Resume::Auto) => Start::auto(&plan.run.dir),
            None => Start::New,
        },
    };
    let end = match plan.task {
        TaskKind::Classify => train_task::<Classify>(world, plan, start, &args.display)?,
        TaskKind::MultiLabel => train_task::<MultiLabel>(world, plan, start, &args.display)?,
        TaskKind::Dino => train_task::<Dino>(world, plan, start, &args.display)?,
        TaskKind::Segment => train_task::<Segment>(world, plan, start, &args.display)?,
        TaskKind::Detect => train_task::<Detect>(world, plan, start, &args.display)?,
    };
    Ok(exit_code(end))
}

fn train_task<T: Task>(
    world: &Arc<dyn World>,
    plan: Plan,
    start: Start<'_>,
    display: &Display,
) -> anyhow::Result<End> {
    let world = Arc::clone(world);
    let session = Session::<T>::prepare(world, plan, start, &mut generating())?;
    carry_out(session, display)
}
