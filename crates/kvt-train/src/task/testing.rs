//! Shared by the tests of tasks: runs in this process, and what they leave.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Task;
use crate::config::{Plan, load_plan};
use crate::engine::{End, Session, Start};
use crate::error::TrainError;
use crate::run::{Checkpoints, EvalRecord, Event, Listener, RunDir, RunError, Which};
use crate::world::{World, alone};

/// Records events, and asks for a stop after a number of updates.
struct Heard<'a> {
    events: Vec<Event>,
    stop: &'a AtomicBool,
    last: u64,
}

impl Listener for Heard<'_> {
    fn event(&mut self, event: &Event) -> Result<(), RunError> {
        if event.step() >= self.last && matches!(event, Event::Step(_)) {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.events.push(event.clone());
        Ok(())
    }
}

/// Trains a plan until its end, or until `last` updates were made.
pub(super) fn train<T: Task>(
    plan: Plan,
    start: Start<'_>,
    last: u64,
) -> Result<(End, Vec<Event>), TrainError> {
    train_in::<T>(alone(), plan, start, last)
}

/// The same in a process of a job.
pub(super) fn train_in<T: Task>(
    world: Arc<dyn World>,
    plan: Plan,
    start: Start<'_>,
    last: u64,
) -> Result<(End, Vec<Event>), TrainError> {
    let session = Session::<T>::prepare(world, plan, start, &mut |_, _| {})?;
    let stop = AtomicBool::new(false);
    let mut heard = Heard {
        events: Vec::new(),
        stop: &stop,
        last,
    };
    let end = session.train(&mut heard, &stop)?;
    Ok((end, heard.events))
}

pub(super) fn evals(events: &[Event]) -> Vec<&EvalRecord> {
    let evals = events.iter().filter_map(|event| match event {
        Event::Eval(eval) => Some(eval),
        _ => None,
    });
    evals.collect()
}

/// What a run says of the weights that it starts from.
pub(super) fn note_of_weights(events: &[Event]) -> String {
    let mut notes = events.iter().filter_map(|event| match event {
        Event::Note(note) => Some(note.message.clone()),
        _ => None,
    });
    notes.find(|note| note.starts_with("weights of")).unwrap()
}

/// The plan of a text, or its error.
pub(super) fn plan_of(text: &str, set: &[&str]) -> Result<Plan, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    fs_err::write(&path, text).unwrap();
    let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
    load_plan(&path, &set).map_err(|error| error.to_string())
}

/// A temporary folder with a configuration `tiny.toml`, its data and its runs.
pub(super) struct Workspace<T>(tempfile::TempDir, PhantomData<T>);

impl<T: Task> Workspace<T> {
    pub(super) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("tiny.toml"), config).unwrap();
        Self(folder, PhantomData)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The plan of a run.
    pub(super) fn plan(&self, run: &str, set: &[&str]) -> Plan {
        self.plan_in("tiny.toml", run, set)
    }

    /// The same of another configuration.
    pub(super) fn plan_in(&self, config: &str, run: &str, set: &[&str]) -> Plan {
        let mut all = vec![
            format!("data.path={:?}", self.path("data")),
            format!("run.dir={:?}", self.path(run)),
        ];
        all.extend(set.iter().map(|&text| text.to_owned()));
        load_plan(&self.path(config), &all).unwrap()
    }

    pub(super) fn train(
        &self,
        run: &str,
        set: &[&str],
        start: Start<'_>,
        last: u64,
    ) -> (End, Vec<Event>) {
        train::<T>(self.plan(run, set), start, last).unwrap()
    }

    /// Why a new run fails.
    pub(super) fn error(&self, run: &str, set: &[&str]) -> TrainError {
        train::<T>(self.plan(run, set), Start::New, u64::MAX).unwrap_err()
    }

    /// The files of the last checkpoint, except its description, which has times.
    pub(super) fn weights(&self, run: &str) -> BTreeMap<String, Vec<u8>> {
        weights(&self.path(run))
    }

    /// The weights of the last checkpoint.
    pub(super) fn last(&self, run: &str) -> PathBuf {
        let run = RunDir::open(&self.path(run)).unwrap();
        let (last, _) = Checkpoints::new(&run).load(Which::Last).unwrap();
        last.file("model.safetensors")
    }
}

/// The same of a run's folder.
pub(super) fn weights(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let run = RunDir::open(run).unwrap();
    let (last, _) = Checkpoints::new(&run).load(Which::Last).unwrap();
    let files = fs_err::read_dir(last.path())
        .unwrap()
        .map(|file| file.unwrap().path());
    let weights = files.filter(|file| file.extension().is_some_and(|end| end == "safetensors"));
    weights
        .map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs_err::read(file).unwrap())
        })
        .collect()
}
