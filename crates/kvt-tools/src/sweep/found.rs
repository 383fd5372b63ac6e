//! The state and the results of a cell, read from its folder.

use super::{Cell, Predictions, State, SweepError, linear};
use crate::report::{Curve, points};
use kvt_train::run::{Environment, EpochRows, Event, Metric, RunDir, read_log};

/// The state and the results of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Its state.
    pub state: State,
    /// Its metrics after each epoch, under the name of its row; without epochs unless it is finished.
    pub curve: Curve,
    /// Its predictions for the validation images.
    pub predictions: Option<Predictions>,
    /// Top-1 of the last and of the best epoch of its linear evaluation, in percent.
    pub linear: Option<[f64; 2]>,
    /// Training images per epoch, if an epoch is done.
    pub images: Option<u64>,
    /// Images per evaluation, if there was one.
    pub eval_images: Option<u64>,
    /// Seconds of training in its finished epochs, without evaluations.
    pub seconds: f64,
    /// Its last start, if that is recorded.
    pub environment: Option<Environment>,
    /// Why some of its results cannot be read, a line for each.
    pub unread: Vec<String>,
}

impl Found {
    /// Reads the state and the results of a cell.
    ///
    /// # Errors
    /// If its log or another of its files cannot be read.
    pub fn of(cell: &Cell) -> Result<Self, SweepError> {
        let state = State::of(cell);
        let mut found = Self {
            curve: Curve {
                label: cell.name.clone(),
                seed: cell.plan.seed,
                epochs: Vec::new(),
            },
            state,
            ..Self::default()
        };
        if let Some(known) = cell.known.as_ref().filter(|_| found.is_known(cell)) {
            return Ok(known.found.clone());
        }
        // The numbers of another run do not belong to this cell.
        if matches!(found.state, State::Missing | State::Foreign(_)) {
            return Ok(found);
        }
        let run = RunDir::open(cell.dir())?;
        found.environment = Environment::read(&run.environment()).ok();
        if let (State::Begun(0) | State::Crashed(_), false) = (&found.state, run.log().exists()) {
            return Ok(found);
        }
        let mut rows = EpochRows::default();
        for event in &read_log(&run.log())?.events {
            rows.push(event);
            match event {
                Event::Epoch(epoch) => {
                    let images = epoch.images_per_second * epoch.seconds;
                    found.images = found.images.max(Some(images.round() as u64));
                    found.seconds += epoch.seconds;
                }
                Event::Eval(eval) => found.eval_images = Some(eval.images),
                Event::Step(_) | Event::Layer(_) | Event::Note(_) => {}
            }
        }
        if found.state == State::Finished {
            found.curve.epochs = points(&rows, cell.plan.ema.report, true);
            found.predictions = found.readable(Predictions::read(cell.dir()));
            found.linear = found.readable(linear::read(cell));
        }
        Ok(found)
    }

    /// A result, or none and the reason why it cannot be read: the other results count without it.
    fn readable<T>(&mut self, read: Result<Option<T>, SweepError>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.unread.push(error.to_string());
            None
        })
    }

    /// Whether its training is finished, here or in an earlier sweep.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state.is_finished()
    }

    /// Whether it is that of a table of an earlier sweep.
    #[must_use]
    pub fn is_known(&self, cell: &Cell) -> bool {
        cell.known.is_some() && self.state != State::Finished
    }

    /// The metric after the last evaluated epoch.
    #[must_use]
    pub fn last(&self, metric: Metric) -> Option<f64> {
        self.curve.last(metric)
    }

    /// The metric after the best epoch.
    #[must_use]
    pub fn best(&self, metric: Metric) -> Option<f64> {
        self.curve.best(metric)
    }

    /// The metric after `epochs` finished epochs.
    #[must_use]
    pub fn at(&self, metric: Metric, epochs: u32) -> Option<f64> {
        self.curve.at(metric, epochs)
    }
}
