#![expect(clippy::unwrap_used, reason = "tests")]

mod config;
mod harm;
mod run;
mod trajectory;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::config::load_plan;
use crate::engine::{End, Session, Start};
use crate::error::TrainError;
use crate::run::{Event, Listener, RunError};

/// Records events, and asks for a stop after a number of updates.
struct Heard {
    events: Vec<Event>,
    stop: Arc<AtomicBool>,
    last: u64,
}

impl Listener for Heard {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if event.step() >= self.last && matches!(event, Event::Step(_)) {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.events.push(event.clone());
        Ok(())
    }
}

/// Trains a configuration in this process until its end, or until `last` updates were made.
fn train(
    config: &Path,
    overrides: &[String],
    start: Start<'_>,
    last: u64,
) -> Result<(End, Vec<Event>), TrainError> {
    let plan = load_plan(config, overrides)?;
    let session = Session::<Detect>::prepare(plan, start, &mut |_, _| {})?;
    let mut heard = Heard {
        events: Vec::new(),
        stop: Arc::new(AtomicBool::new(false)),
        last,
    };
    let stop = Arc::clone(&heard.stop);
    let end = session.train(&mut heard, &stop)?;
    Ok((end, heard.events))
}
