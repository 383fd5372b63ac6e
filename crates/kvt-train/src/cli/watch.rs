//! What the terminal shows of work that goes over many runs.

use std::sync::atomic::AtomicBool;

use indicatif::ProgressBar;

use super::common::bar;
use super::{interrupt, output, progress};
use crate::engine::Workload;
use crate::run::{Event, Listener, RunError};
use crate::sweep::Watch;

/// A bar for steps, and for each run what `kvt train` shows.
pub(super) struct Terminal(ProgressBar);

impl Terminal {
    pub(super) fn new(what: &str) -> Self {
        Self(bar(what, 0))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Watch for Terminal {
    fn progress(&self, done: usize, of: usize) {
        self.0.set_length(of as u64);
        self.0.set_position(done as u64);
    }

    fn say(&self, text: &str) {
        self.0.suspend(|| output::status(text));
    }

    fn warn(&self, text: &str) {
        self.0.suspend(|| output::warning(text));
    }

    fn training(&self, name: &str, workload: Workload, alone: bool) -> Box<dyn Listener> {
        match alone {
            true => progress::listener(workload),
            false => Box::new(Beside(name.to_owned())),
        }
    }

    fn stop(&self) -> &AtomicBool {
        &interrupt::STOP
    }
}

/// A run beside others, which says only what each epoch came to: bars of several would be written over each other.
struct Beside(String);

impl Listener for Beside {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if let Event::Epoch(epoch) = event {
            output::status(&format!(
                "{}: epoch {}  train loss {:.4}  {:.1} s",
                self.0,
                epoch.epoch + 1,
                epoch.train_loss,
                epoch.seconds
            ));
        }
        Ok(())
    }
}
