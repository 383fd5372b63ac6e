//! A session in several processes: the first one prepares it, and the others follow.

use std::sync::Arc;

use super::{Session, Start};
use crate::config::{Plan, resolved_toml};
use crate::engine::TrainError;
use crate::engine::share::share_state;
use crate::run::Note;
use crate::splits::Splits;
use crate::task::{Task, Weights};
use crate::world::{World, WorldError, agree, on_device};

impl<T: Task> Session<T> {
    /// Prepares a run in all processes of a world: a new one, or the one in `run.dir`. `generating` receives the progress of a data
    /// set that is generated on first use. The first process opens the run's folder, generates data if needed, and reads the
    /// checkpoint; then the others open their images and receive its state, so that they need the data, but neither the folder nor
    /// the initial weights.
    ///
    /// # Errors
    /// In all processes, if the folder, the data, the device or the model is not available, or a resumed run was started with another
    /// configuration; also if the processes cannot share an update evenly, or differ from the first one in data or settings.
    pub fn prepare(
        world: Arc<dyn World>,
        plan: Plan,
        start: Start<'_>,
        generating: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, TrainError> {
        let mut prepare = |world, plan| match start {
            Start::New => Self::new(world, plan, generating),
            Start::Resume(which) => Self::resume(world, plan, which, generating),
        };
        if world.is_alone() {
            return prepare(world, plan);
        }
        let (accumulate, size) = (plan.train.accumulate, world.size());
        if !accumulate.is_multiple_of(size) {
            return Err(WorldError::Accumulate { accumulate, size }.into());
        }
        let first = world
            .is_first()
            .then(|| prepare(Arc::clone(&world), plan.clone()));
        let first = agree(&*world, first.transpose())?;
        let own = first.map_or_else(|| Self::follow(Arc::clone(&world), plan), Ok);
        let mut session = agree(&*world, own)?;
        session.compare()?;
        session.state = share_state(&*world, session.state, &mut session.progress)?;
        session.way = on_device::connect(&world, &session.device)?;
        session.tell_way();
        session.warm()?;
        Ok(session)
    }

    /// Logs how gradients are summed, where there was a choice.
    fn tell_way(&mut self) {
        if let (true, Some((topic, message))) = (self.world.is_first(), self.way.message()) {
            let step = self.progress.position.step;
            self.notes.push(Note::new(step, topic, message));
        }
    }

    /// The session of a process other than the first, before it receives the first one's state. It has no reader: several processes
    /// wait for each update.
    fn follow(world: Arc<dyn World>, plan: Plan) -> Result<Self, TrainError> {
        Self::initial(world, plan, Weights::OfCheckpoint, |plan, size| {
            Ok(Splits::open(plan, size, None, &mut |_, _| {})?)
        })
    }

    /// Refuses processes that would train something different from the first one.
    fn compare(&self) -> Result<(), TrainError> {
        let settings = resolved_toml(&self.plan).map_err(Box::new)?;
        // Not every process checks the file sizes: on a slow disk that would multiply the reads.
        let state = self.splits.state();
        let images = (state.train, state.val, state.listing, self.splits.classes());
        let images = serde_json::to_vec(&images).unwrap_or_default();
        let known = [
            ("the version of kvt", env!("CARGO_PKG_VERSION").as_bytes()),
            ("the configuration", settings.as_bytes()),
            ("the images", images.as_slice()),
        ];
        let mut differs = Ok(());
        for (what, own) in known {
            let own = blake3::hash(own).as_bytes().to_vec();
            let of_first = self.world.share(0, own.clone())?;
            if of_first != own && differs.is_ok() {
                let rank = self.world.rank();
                differs = Err(WorldError::Differs { what, rank }.into());
            }
        }
        agree(&*self.world, differs)
    }
}
