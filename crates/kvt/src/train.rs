//! `kvt train`

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use super::common::{ConfigArgs, generating};
use super::progress::Tallying;
use super::{interrupt, job, output, progress};
use kvt_train::config::Plan;
use kvt_train::engine::{End, Session, Start, Workload};
use kvt_train::run::{Listener, Which};
use kvt_train::task::{Classify, Dino, Task, TaskKind};
use kvt_train::world::World;

/// `kvt train CONFIG [--set KEY=VALUE]... [--resume | --resume-from CHECKPOINT]`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kvt train configs/quickstart/dense.toml\n  kvt train photos.toml --set train.epochs=10 --device cuda\n  kvt train photos.toml --resume"
)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Go on with the run in `run.dir` where it was stopped.
    #[arg(long)]
    resume: bool,
    /// Go on from another checkpoint of the run: `best`, or a name in its `checkpoints`.
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "resume")]
    resume_from: Option<PathBuf>,
    /// The run's folder; short for `--set run.dir=DIR`.
    #[arg(long, value_name = "DIR")]
    run_dir: Option<PathBuf>,
    #[command(flatten)]
    display: Display,
}

/// How the progress of a run is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Display {
    /// Show Burn's terminal dashboard instead of a progress bar.
    #[cfg(feature = "tui")]
    #[arg(long)]
    tui: bool,
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
        None if args.resume => Start::RESUME,
        None => Start::New,
    };
    let end = match plan.task {
        TaskKind::Classify => train_task::<Classify>(world, plan, start, &args.display)?,
        TaskKind::Dino => train_task::<Dino>(world, plan, start, &args.display)?,
    };
    Ok(match end {
        End::Finished => ExitCode::SUCCESS,
        End::Stopped => interrupt::exit_code(),
    })
}

fn train_task<T: Task>(
    world: &Arc<dyn World>,
    plan: Plan,
    start: Start<'_>,
    display: &Display,
) -> anyhow::Result<End> {
    let world = Arc::clone(world);
    let session = Session::<T>::prepare_in(world, plan, start, &mut generating())?;
    carry_out(session, display)
}

/// Trains a session until it ends or is interrupted, and prints a summary.
pub(super) fn carry_out<T: Task>(session: Session<T>, display: &Display) -> anyhow::Result<End> {
    interrupt::listen();
    let (dir, task) = (session.plan().run.dir.clone(), session.plan().task);
    output::status(&progress::describe(&session));

    let workload = session.workload();
    let shown = if session.world().is_first() {
        listener(display, &session.model_config().name(), workload)?
    } else {
        progress::silent()
    };
    let mut listener = Tallying::new(workload, shown);
    // On an error, too, the bar or the dashboard is closed before the error is printed.
    let end = session.train(&mut listener, &interrupt::STOP)?;
    output::status(&listener.summary(end, &dir, task));
    Ok(end)
}

#[cfg(feature = "tui")]
fn listener(
    display: &Display,
    model: &str,
    workload: Workload,
) -> anyhow::Result<Box<dyn Listener>> {
    if display.tui {
        let dashboard = super::tui::Dashboard::start(model, workload)?;
        return Ok(Box::new(dashboard));
    }
    Ok(progress::listener(workload))
}

#[cfg(not(feature = "tui"))]
fn listener(
    _display: &Display,
    _model: &str,
    workload: Workload,
) -> anyhow::Result<Box<dyn Listener>> {
    Ok(progress::listener(workload))
}
