//! How the verbs that train one run show it.

use std::process::ExitCode;

use super::common::counting;
use super::progress::Progress;
use super::{interrupt, output};
use kvt_tools::report::report_itself;
use kvt_train::engine::{End, Session, Workload};
use kvt_train::task::Task;

/// How the progress of a run is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Display {
    /// Show Burn's terminal dashboard instead of a progress bar.
    #[cfg(feature = "tui")]
    #[arg(long)]
    tui: bool,
}

/// Trains a session until it ends or is interrupted, and prints a summary.
pub(super) fn carry_out<T: Task>(session: Session<T>, display: &Display) -> anyhow::Result<End> {
    interrupt::listen();
    let (dir, task) = (session.plan().run.dir.clone(), session.plan().task);
    let is_reported = session.plan().report.auto && session.world().is_first();
    output::status(&session.describe());

    let workload = session.workload();
    let mut listener = listener(display, &session.model_config().name(), workload)?;
    // On an error, too, the bar or the dashboard is closed before the error is printed.
    let end = session.train(&mut listener, &interrupt::STOP)?;
    let summary = listener.summary(end, &dir, task);
    if is_reported {
        let is_finished = end == End::Finished;
        let progress = &mut counting("evaluating");
        match report_itself(&dir, is_finished, progress, &mut output::warning) {
            Ok(Some(page)) => output::status(&format!("curves are in `{}`", page.display())),
            Ok(None) => {}
            Err(error) => {
                let error = anyhow::Error::from(error);
                output::warning(&format!("the report is not whole: {error:#}"));
            }
        }
    }
    output::status(&summary);
    Ok(end)
}

fn listener(display: &Display, model: &str, workload: Workload) -> anyhow::Result<Progress> {
    // Another process of a job than the first has plain lines, which it does not print.
    #[cfg(feature = "tui")]
    if display.tui && !output::is_silent() {
        let dashboard = super::tui::Dashboard::start(model, workload)?;
        return Ok(Progress::on(dashboard, workload));
    }
    #[cfg(not(feature = "tui"))]
    let _ = (display, model);
    Ok(Progress::new(workload))
}

pub(super) fn exit_code(end: End) -> ExitCode {
    match end {
        End::Finished => ExitCode::SUCCESS,
        End::Stopped => interrupt::exit_code(),
    }
}
