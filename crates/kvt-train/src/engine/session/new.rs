//! A new run, and what every start writes to the run's folder.

use std::sync::Arc;

use kvt_data::fs::write_text;

use super::Session;
use crate::config::{self, Plan, resolved_toml};
use crate::engine::{Reader, TrainError};
use crate::run::{Environment, Note, RunDir, Topic};
use crate::splits::Splits;
use crate::task::{Task, Weights};
use crate::world::World;

impl<T: Task> Session<T> {
    /// A new run, in the first or only process of a world. Everything that can fail comes before the run's folder.
    pub(super) fn new(
        world: Arc<dyn World>,
        plan: Plan,
        generating: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, TrainError> {
        let open = |plan: &Plan, size| -> Result<_, TrainError> {
            Ok(Splits::open(plan, size, None, generating)?)
        };
        let mut session = Self::initial(world, plan, Weights::OfPlan, open)?;
        let start = Note::new(0, Topic::Start, session.splits.describe());
        let images = Some(session.splits.train.samples.len());
        let warnings = config::warnings(&session.plan, &session.model, images);
        session.note_first(vec![start], warnings);
        let environment = session.take_folder(false)?;
        session.record_start(&environment)?;
        Ok(session)
    }

    /// Makes this the process that writes the run's folder: a new one, or one to resume. Returns the environment of the start.
    pub(super) fn take_folder(&mut self, resume: bool) -> Result<Environment, TrainError> {
        // Before the folder is locked: this runs `git`, and its forked child holds every lock for a moment, even if this process
        // is killed meanwhile.
        let words = format!("{} ({})", self.device.name, self.device.description);
        let environment = Environment::collect(words);
        self.run = RunDir::create(&self.plan.run.dir, resume)?;
        self.reader = Reader::of(&self.device.device);
        Ok(environment)
    }

    /// Writes the run's description and environment. The configuration makes the folder a run, so it comes last.
    pub(super) fn record_start(&mut self, environment: &Environment) -> Result<(), TrainError> {
        self.run.check()?;
        let recorded = environment.record(&self.run.environment())?;
        let warnings = recorded.into_iter().chain(self.run.warning());
        let notes = warnings.map(|warning| Note::new(0, Topic::Warning, warning));
        self.notes.extend(notes);
        self.run.write_classes(self.splits.classes())?;
        let config = resolved_toml(&self.plan).map_err(Box::new)?;
        Ok(write_text(&self.run.config(), &config)?)
    }
}
