//! A new run, and what every start writes to the run's folder.

use std::sync::Arc;

use kvt_data::fs::write_text;

use super::Session;
use super::initial::device_and_size;
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
        let (device, size, slow) = device_and_size::<T>(&*world, &plan)?;
        let views = T::views(&plan, size)?;
        let splits = Splits::open(&plan, size, None, generating)?.with_train_views(views);
        let model = T::model(&plan, &splits)?;
        let images = Some(splits.train.samples.len());
        let of_data = splits.warnings().into_iter();
        let warnings = of_data
            .chain(config::warnings(&plan, &model, images))
            .chain(slow);
        let mut notes = vec![Note::new(0, Topic::Start, splits.describe())];
        notes.extend(warnings.map(|text| Note::new(0, Topic::Warning, text)));
        let weights = Weights::OfPlan;
        let mut session = Self::initial(world, plan, device, splits, model, weights, notes)?;
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
