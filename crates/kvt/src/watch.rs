//! Terminal output for work that spans many runs.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use super::common::{Overrides, counting, generating};
use super::progress::{Progress, of_epoch};
use super::table::table;
use super::{interrupt, output};
use kvt_tools::sweep::{PLAN_HEADER, Sweep, Watch, check_devices, costs, plan_rows};
use kvt_train::engine::Workload;
use kvt_train::run::{Event, Listener, RunError};

/// How runs are trained.
#[derive(Debug, clap::Args)]
pub(super) struct Training {
    #[command(flatten)]
    pub(super) overrides: Overrides,
    /// Train each run with this many seeds, counted up from its own, or from the first one that its sweep gives it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) seeds: Option<u64>,
    /// Train on several devices at the same time, a run on each, as in `cpu,cuda:0`.
    #[arg(
        long,
        value_name = "DEVICES",
        value_delimiter = ',',
        conflicts_with = "device"
    )]
    pub(super) devices: Vec<String>,
    /// Print how far each run is and what it costs, and train nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Train nothing: make the result of the runs that are finished.
    #[arg(long)]
    pub(super) as_is: bool,
}

/// Shows how many steps of many are done.
type Count = Mutex<Box<dyn FnMut(usize, usize) + Send>>;

/// A bar for steps, cleared while a run shows its own, and for each run the output of `kvt train`.
pub(super) struct Terminal {
    steps: Count,
    images: Count,
}

impl Terminal {
    pub(super) fn new(what: &'static str) -> Self {
        Self {
            steps: Mutex::new(Box::new(counting(what))),
            images: Mutex::new(Box::new(generating())),
        }
    }
}

fn show(count: &Count, done: usize, of: usize) {
    let mut show = count.lock().unwrap_or_else(PoisonError::into_inner);
    show(done, of);
}

impl Watch for Terminal {
    fn progress(&self, done: usize, of: usize) {
        show(&self.steps, done, of);
    }

    fn generating(&self, done: usize, of: usize) {
        show(&self.images, done, of);
    }

    fn say(&self, text: &str) {
        output::status(text);
    }

    fn warn(&self, text: &str) {
        output::warning(text);
    }

    fn training(&self, name: &str, workload: Workload, alone: bool) -> Box<dyn Listener> {
        if alone {
            Box::new(Progress::new(workload))
        } else {
            Box::new(Beside(name.to_owned()))
        }
    }

    fn stop(&self) -> &AtomicBool {
        &interrupt::STOP
    }
}

/// A run in parallel with others, which prints only a line per epoch: the bars of several runs would overwrite each other.
struct Beside(String);

impl Listener for Beside {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if let Event::Epoch(epoch) = event {
            output::status(&format!("{}: {}", self.0, of_epoch(epoch)));
        }
        Ok(())
    }
}

/// Prints the progress and the cost of each run of a sweep; if it trains, its devices are looked for.
pub(super) fn dry_run(sweep: &Sweep, training: &Training) -> anyhow::Result<ExitCode> {
    if !training.as_is {
        check_devices(sweep, &training.devices)?;
    }
    let (cells, found) = (&sweep.cells, sweep.found()?);
    let mut measured = counting("models measured");
    let costs = costs(cells, &found, |name, done, of| {
        if !output::is_watched() {
            output::status(&format!("{name} ({} of {of}): measuring a step", done + 1));
        }
        measured(done, of);
    })?;
    drop(measured);
    output::print(&table(
        PLAN_HEADER.iter().copied(),
        plan_rows(cells, &found, &costs),
    ))?;
    output::status(
        "TMAC: 10^12 multiplications and additions of training and evaluation. Times are estimated from finished runs of the same \
         sweep, or else from one measured step of each model; loading, checkpoints and start-up are extra",
    );
    Ok(ExitCode::SUCCESS)
}
