//! The state of a cell, read from its folder.

use std::fmt;

use super::Cell;
use crate::report::html::Record;
use kvt_data::regular;
use kvt_data::text::counted;
use kvt_train::config::{diff, load_plan};
use kvt_train::run::{Checkpoints, Event, RunDir, RunError, Topic, read_log};

/// The file in a run's folder with the message of a crash: values that were not finite. The same configuration would crash again, so
/// the run is not retried while this file exists.
pub const CRASH: &str = "crash.txt";

/// The state of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum State {
    /// There is no run yet.
    #[default]
    Missing,
    /// It was started, and this many of its epochs are done.
    Begun(u32),
    /// Its training is finished.
    Finished,
    /// Its result is in the table of an earlier sweep.
    Known,
    /// Its training crashed, with this message.
    Crashed(String),
    /// Its folder holds the run of another configuration, or one that cannot be read. The text is the reason.
    Foreign(String),
}

impl State {
    /// Reads the state of a cell. A finished run in its folder counts before what is known of it.
    #[must_use]
    pub fn of(cell: &Cell) -> Self {
        let own = Self::in_folder(cell).unwrap_or_else(Self::Foreign);
        match &cell.known {
            Some(known) if own != Self::Finished => known.found.state.clone(),
            _ => own,
        }
    }

    /// Whether it has a result.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished | Self::Known)
    }

    /// The state of the run in a cell's folder, or why it is not the cell's.
    fn in_folder(cell: &Cell) -> Result<Self, String> {
        let run = match RunDir::open(cell.dir()) {
            Err(RunError::NotARun(_)) => return Ok(Self::Missing),
            opened => opened.map_err(|error| error.to_string())?,
        };
        let started = load_plan(&run.config(), &[]).map_err(|error| error.to_string())?;
        // Those that prevent a resume.
        let differences = diff(&started, &cell.plan).map_err(|error| error.to_string())?;
        let refused = differences.iter().filter(|one| !one.is_harmless);
        let refused: Vec<String> = refused.map(ToString::to_string).collect();
        if !refused.is_empty() {
            return Err(format!(
                "run `{}` was started with another configuration ({}): give it another name, \
                 `run.dir` or output (`init.weights` starts from its weights), or remove the run",
                cell.dir().display(),
                refused.join(", ")
            ));
        }
        let log = read_log(&run.log());
        let events = log.map(|log| log.events).unwrap_or_default();
        // A run that was killed between its last events and its last checkpoint repeats its last evaluation; else the best checkpoint
        // would be missing. A finished run without checkpoints is finished: it is not trained again unasked.
        let is_saved = !Checkpoints::new(&run)
            .end_before_evaluation()
            .map_err(|error| error.to_string())?;
        // A run that crashed may have been trained to its end since.
        if is_saved && Record::is_finished(&cell.plan, &events) {
            return Ok(Self::Finished);
        }
        if let Ok(message) = regular::read_to_string(&cell.dir().join(CRASH)) {
            return Ok(Self::Crashed(message.trim().to_owned()));
        }
        let mut epochs = events.iter().filter_map(|event| match event {
            Event::Epoch(epoch) => Some(epoch.epoch + 1),
            _ => None,
        });
        Ok(Self::Begun(epochs.next_back().unwrap_or(0)))
    }
}

/// How an existing run was trained in another way than its cell would be now, if that does not prevent a resume: ends of sentences. Its data
/// set, by the path; whether that holds the same images is checked only when training resumes. And settings that change its numbers, each
/// with its old and its new value, without those that an earlier resume has noted in the log.
pub(super) fn unlike(cell: &Cell) -> Option<Vec<String>> {
    let run = RunDir::open(cell.dir()).ok()?;
    let started = load_plan(&run.config(), &[]).ok()?;
    let events = read_log(&run.log()).ok()?.events;
    let mut found = Vec::new();
    if started.data.path != cell.plan.data.path {
        let [data, own] = [&started, &cell.plan].map(|plan| plan.data.path.display());
        found.push(format!(
            "on `{data}`, not on `{own}`: if the images differ, choose another output folder"
        ));
    }
    let is_noted = |difference: &str| {
        events.iter().any(|event| {
            matches!(event, Event::Note(note) if note.topic == Topic::Resume && note.message.ends_with(difference))
        })
    };
    let changes_numbers = |key: &str| {
        let starts = ["distill.", "multi_label.", "dino.eval_"];
        matches!(
            key,
            "train.precision" | "train.max_steps" | "train.patience"
        ) || starts.iter().any(|start| key.starts_with(start))
    };
    let differences = diff(&started, &cell.plan).ok()?;
    let settings = differences.iter().filter(|one| changes_numbers(&one.key));
    let mut settings: Vec<String> = settings.map(ToString::to_string).collect();
    settings.retain(|difference| !is_noted(difference));
    if !settings.is_empty() {
        found.push(format!(
            "with other settings than these ({}): to train it with these, take another output",
            settings.join(", ")
        ));
    }
    Some(found)
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.pad("to be trained"),
            Self::Begun(epochs) => f.pad(&format!("stopped after {}", counted(epochs, "epoch"))),
            Self::Finished => f.pad("finished"),
            Self::Known => f.pad("known"),
            Self::Crashed(_) => f.pad("crashed"),
            Self::Foreign(_) => f.pad("another run"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::path::Path;

    use super::*;
    use crate::events::{epoch, eval};
    use kvt_train::run::{JsonlLog, Listener};

    const CONFIG: &str = r#"
[model]
name = "deit_tiny_patch16_224"

[data]
path = "nowhere"
labels = "labels.csv"

[train]
epochs = 2
"#;

    /// The cell of a run of two epochs with these events; `overrides` are not the run's.
    fn cell(folder: &Path, task: &str, events: &[Event], overrides: &[&str]) -> Cell {
        let run = RunDir::create(folder, false).unwrap();
        let (mut log, _) = JsonlLog::resume(&run.log(), 0, 0).unwrap();
        for event in events {
            log.event(event).unwrap();
        }
        fs_err::write(run.config(), format!("task = \"{task}\"\n{CONFIG}")).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let mut plan = load_plan(&run.config(), &overrides).unwrap();
        plan.run.dir = folder.to_owned();
        Cell {
            name: "a".to_owned(),
            config: "a.toml".into(),
            overrides,
            plan,
            linear: None,
            known: None,
        }
    }

    /// `best` is moved after the last evaluation was logged.
    #[test]
    fn a_run_is_finished_once_its_last_evaluation_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let events = [epoch(0, 2.0), eval(1, "val", 50.0), epoch(1, 1.0)];
        let cell = cell(folder.path(), "classify", &events, &[]);
        assert_eq!(State::of(&cell), State::Finished);
        let save = |name: &str| {
            fs_err::create_dir_all(folder.path().join("checkpoints").join(name)).unwrap();
        };
        save("step-00000010");
        save("step-00000020-before-eval");
        assert_eq!(State::of(&cell), State::Begun(2));
        save("step-00000020");
        assert_eq!(State::of(&cell), State::Finished);
    }

    #[test]
    fn settings_that_change_numbers_are_told() {
        for (task, set, is_expected) in [
            ("classify", "train.patience=3", true),
            ("classify", "train.max_steps=15", true),
            ("dino", "dino.eval_bank=5", true),
            ("dino", "dino.eval_images=5", true),
            ("dino", "dino.eval_neighbors=5", true),
            ("multi-label", "multi_label.threshold=0.3", true),
            ("classify", "eval.batch_size=5", false),
            ("classify", "train.max_hours=1", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let cell = cell(folder.path(), task, &[epoch(1, 1.0)], &[set]);
            let (key, _) = set.split_once('=').unwrap();
            let told = unlike(&cell).unwrap().concat();
            let is_told = told.contains(&format!("with other settings than these (`{key}`: "));
            assert_eq!(is_told, is_expected, "{set}: {told}");
        }
    }
}
