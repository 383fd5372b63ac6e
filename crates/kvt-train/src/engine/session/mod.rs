//! From a validated plan to a trained run: folder, data, device, network, optimizer, loop.

mod describe;
mod initial;
mod job;
mod new;
mod resume;
mod warm;
mod workload;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use kvt_models::ModelConfig;

pub use self::workload::Workload;
use super::checkpoint::Checkpointer;
use super::progress::Progress;
use super::{End, Late, Processes, Reader, Recorder, TrainError, TrainState, Trainer};
use crate::config::{self, Plan};
use crate::device::ResolvedDevice;
use crate::recipe::Schedule;
use crate::run::{Event, Listener, Note, RunDir, RunError, Topic, Which};
use crate::splits::Splits;
use crate::task::Task;
use crate::world::World;
use crate::world::on_device::GradientSum;

/// A run of a task that is ready to train.
pub struct Session<T: Task> {
    plan: Plan,
    world: Arc<dyn World>,
    run: RunDir,
    splits: Splits,
    model: ModelConfig,
    device: ResolvedDevice,
    /// How gradients are summed over the processes.
    way: GradientSum,
    /// Reads numbers while the device continues, if the run uses that.
    reader: Option<Reader>,
    state: TrainState<T>,
    progress: Progress,
    /// Log bytes and steps of the checkpoint that the run resumes from; both 0 if there was none.
    resumed: Option<(u64, u64)>,
    notes: Vec<Note>,
    /// When the hours of `train.max_hours` begin, if that is not when the training does.
    began: Option<Instant>,
}

/// How a run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// In a folder without a run.
    New,
    /// From a checkpoint of the run in the folder.
    Resume(Which<'a>),
}

impl Start<'_> {
    /// Where the run was stopped.
    pub const RESUME: Self = Self::Resume(Which::Last);

    /// Where the run in a folder was stopped, or new if there is none. What is left of a run that has lost its files is resumed, so that
    /// the error says what is missing.
    #[must_use]
    pub fn auto(folder: &Path) -> Self {
        match RunDir::open(folder) {
            Err(RunError::NotARun(_)) => Self::New,
            _ => Self::RESUME,
        }
    }
}

impl<T: Task> Session<T> {
    fn checkpointer(&self) -> Checkpointer {
        let keep_last = self.plan.checkpoint.keep_last;
        Checkpointer::new(&self.run, self.splits.state(), keep_last)
    }

    fn warn(&mut self, warning: String) {
        let step = self.progress.position.step;
        self.notes.push(Note::new(step, Topic::Warning, warning));
    }

    /// Reads the results of an update with this reader, one update late, or immediately without one. By default a GPU run has a
    /// reader and a CPU run has none; the results of the run are the same.
    #[must_use]
    pub fn with_reader(self, reader: Option<Reader>) -> Self {
        Self { reader, ..self }
    }

    /// Counts the hours of `train.max_hours` from this time: one of several runs shares them with the others.
    #[must_use]
    pub fn counting_from(self, began: Instant) -> Self {
        Self {
            began: Some(began),
            ..self
        }
    }

    /// The plan as it will be carried out.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The processes that train together.
    pub fn world(&self) -> &dyn World {
        &*self.world
    }

    /// The model's configuration.
    pub fn model_config(&self) -> &ModelConfig {
        &self.model
    }

    /// Trains until the plan is done or `stop` is set. `listener` receives every event after it was recorded.
    ///
    /// # Errors
    /// If data, device, disk or arithmetic fail. State saved earlier stays.
    pub fn train(
        mut self,
        listener: &mut dyn Listener,
        stop: &AtomicBool,
    ) -> Result<End, TrainError> {
        let checkpoints = self.checkpointer();
        // Values that TOML cannot hold were refused when the plan was written to the run's folder.
        let parameters = toml::Table::try_from(&self.plan).unwrap_or_default();
        let parameters = config::leaves(parameters);
        let (mut recorder, warnings) = if self.world.is_first() {
            Recorder::open(
                &self.run,
                self.resumed,
                self.plan.log.tensorboard.then_some(&parameters),
                T::METRICS,
                listener,
            )?
        } else {
            (Recorder::without_files(listener), Vec::new())
        };
        warnings.into_iter().for_each(|warning| self.warn(warning));
        for note in self.notes {
            recorder.event(&Event::Note(note))?;
        }
        let deadline = self.plan.train.max_hours.and_then(|hours| {
            let time = Duration::try_from_secs_f64(3600.0 * hours).ok()?;
            self.began.unwrap_or_else(Instant::now).checked_add(time)
        });
        let mut trainer = Trainer {
            plan: &self.plan,
            splits: &self.splits,
            device: self.device.device.clone().autodiff(),
            state: self.state,
            schedule: Schedule::of(&self.plan, self.splits.updates_per_epoch(&self.plan)),
            progress: self.progress,
            checkpoints,
            // A run that starts over has not resumed anything.
            saved: self.resumed.is_some_and(|(offset, _)| offset > 0),
            processes: Processes::new(self.world, self.plan.train.sync_batch_norm, self.way),
            late: Late::by(self.reader),
            skipped: Vec::new(),
            recorder: &mut recorder,
            stop,
            deadline,
        };
        let end = trainer.run();
        // In any case: events are on disk before the result is returned.
        let synced = recorder.sync();
        let end = end?;
        synced?;
        Ok(end)
    }
}
