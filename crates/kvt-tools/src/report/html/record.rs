//! What a run's folder contains, without its images.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::read::{label_of, points};
use super::super::{Curve, ReportError, RunFacts, RunNames, canonical, names_of};
use kvt_data::regular;
use kvt_data::text::counted;
use kvt_train::config::{Plan, load_run_plan};
use kvt_train::run::{
    Environment, EpochRow, EpochRows, Event, Metric, Metrics, Note, RunDir, Topic, read_log,
};
use kvt_train::task::{DenseSize, TaskKind};

/// A run as read from its folder.
#[derive(Debug)]
pub struct Record {
    /// Its name: the last part of its path.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// Its plan.
    pub plan: Plan,
    /// Facts that decide whether it can be compared.
    pub facts: RunFacts,
    /// Its numbers by epoch.
    pub curve: Curve,
    /// Doubts about the folder, in sentences.
    pub warnings: Vec<String>,
    /// The text of `config.toml`.
    pub(super) config: String,
    /// `environment.json`, where it can be read.
    pub(super) environment: Option<Environment>,
    pub(super) rows: Vec<EpochRow>,
    pub(super) notes: Vec<Note>,
    pub(super) model: Option<ModelFacts>,
    /// How it ended, if it is not finished.
    unfinished: Option<&'static str>,
}

/// Name, size and cost of a run's model.
#[derive(Clone, Debug)]
pub(super) struct ModelFacts {
    pub(super) name: String,
    pub(super) parameters: usize,
    /// Multiply-accumulate operations for one image.
    pub(super) macs: u64,
    /// How many keys each query attends to, stage by stage: `32 of 65`.
    pub(super) keys: String,
}

impl Record {
    /// Reads a run, whether it is finished, stopped or still in training. Unreadable parts that are not required become warnings.
    ///
    /// # Errors
    /// If the folder holds no run, its configuration is not valid, or its log is missing.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let run = RunDir::open(path)?;
        let (plan, _) = load_run_plan(&run, &[]).map_err(|source| ReportError::Config {
            run: path.to_owned(),
            source,
        })?;
        let mut warnings = Vec::new();
        let log = read_log(&run.log())?;
        warnings.extend(log.warning);
        let (mut rows, mut notes) = (EpochRows::default(), Vec::new());
        for event in &log.events {
            rows.push(event);
            if let Event::Note(note) = event {
                notes.push(note.clone());
            }
        }
        let unfinished = unfinished(&plan, &log.events);
        let environment =
            Environment::read(&run.environment()).map_err(|error| warnings.push(error.to_string()));
        let classes = run
            .read_classes()
            .map_err(|error| warnings.push(error.to_string()))
            .unwrap_or_default();
        let folder = canonical(path);
        let name = folder.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let curve = Curve {
            label: label_of(&name, plan.seed).to_owned(),
            seed: plan.seed,
            epochs: points(&rows, plan.ema.report, unfinished.is_none()),
        };
        Ok(Self {
            model: model_facts(&plan, classes.len()),
            facts: RunFacts::new(name.as_str(), &plan, classes),
            config: regular::read_to_string(&run.config())?,
            environment: environment.ok(),
            path: path.to_owned(),
            name,
            plan,
            curve,
            warnings,
            rows: rows.rows,
            notes,
            unfinished,
        })
    }

    /// Whether the events are those of a completed run: its last epoch is finished, or the evaluation after the last update of
    /// `train.max_steps` is, which may be within an epoch, or `train.patience` is over.
    pub(crate) fn is_finished(plan: &Plan, events: &[Event]) -> bool {
        let is_last = |step: u64| plan.last_update().is_some_and(|most| step >= most);
        events.iter().any(|event| match event {
            Event::Epoch(epoch) => {
                plan.epochs().is_some_and(|all| epoch.epoch + 1 >= all) || is_last(epoch.step)
            }
            Event::Eval(eval) => is_last(eval.step),
            // If the run goes on with another `train.patience`, the note is cut off the log.
            Event::Note(note) => note.topic == Topic::Patience,
            Event::Step(_) | Event::Layer(_) => false,
        })
    }

    /// Its canonical folder.
    pub(super) fn folder(&self) -> PathBuf {
        canonical(&self.path)
    }

    /// Names a run by its path, if another run has the same name.
    pub(super) fn call_by_path(&mut self) {
        self.name = self.path.display().to_string();
        self.facts.name.clone_from(&self.name);
    }

    /// The names that its line may have.
    pub(super) fn names(&self) -> RunNames {
        names_of(&self.name, &self.path, self.plan.seed)
    }

    /// The number of finished epochs.
    pub(super) fn epochs(&self) -> usize {
        self.rows.len()
    }

    /// The tables of its epochs that were kept, one whenever a resume found the log lost: those that have any, oldest first.
    pub(super) fn kept_epochs(&self) -> impl Iterator<Item = PathBuf> {
        let tables = (1..).map(move |number| self.path.join(format!("epochs.csv.{number}")));
        let has_rows = |table: &PathBuf| {
            let text = regular::read_to_string(table).unwrap_or_default();
            text.lines().count() > 1
        };
        tables.take_while(|table| table.exists()).filter(has_rows)
    }

    /// The number of finished epochs, of how many.
    pub(super) fn epochs_of_all(&self) -> String {
        let done = self.epochs();
        match self.plan.epochs() {
            Some(all) => format!("{done} of {}", counted(all, "epoch")),
            None => format!("{} in {}", counted(done, "epoch"), self.plan.length()),
        }
    }

    /// A note if the run is unfinished or was never evaluated.
    pub(super) fn state(&self) -> Option<String> {
        let (name, epochs) = (&self.name, self.epochs_of_all());
        let done = self
            .unfinished
            .map(|how| format!("`{name}` {how} after {epochs}: its numbers are those of now"));
        let mut epochs = self.curve.epochs.iter();
        let evaluated = epochs.any(|point| point.val.iter().next().is_some());
        let unjudged = (!evaluated && self.epochs() > 0)
            .then(|| format!("`{name}` has not been evaluated yet"));
        let all: Vec<String> = done.into_iter().chain(unjudged).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The first epoch (from 1) with the best value, and that value.
    pub(super) fn best(&self, metric: Metric) -> Option<(u32, f64)> {
        let values = self.curve.values(|point| point.val.get(metric.name));
        values.reduce(|best, new| {
            if metric.improves(new.1, best.1) {
                new
            } else {
                best
            }
        })
    }

    /// The last evaluated epoch (from 1), and its value.
    pub(super) fn last(&self, metric: Metric) -> Option<(u32, f64)> {
        self.curve.values(|point| point.val.get(metric.name)).last()
    }

    /// Seconds of training, without evaluations.
    pub(super) fn seconds(&self) -> f64 {
        let seconds = self.rows.iter().map(|row| row.train.seconds);
        seconds.filter(|seconds| seconds.is_finite()).sum()
    }

    /// Training images per second over all epochs.
    pub(super) fn images_per_second(&self) -> Option<f64> {
        let trained = || self.rows.iter().map(|row| &row.train);
        let images = trained().map(|train| train.images_per_second * train.seconds);
        let speed = images.sum::<f64>() / trained().map(|train| train.seconds).sum::<f64>();
        speed.is_finite().then_some(speed)
    }

    /// The names of the evaluated metrics, for the weights and for their average.
    pub(super) fn measured(&self) -> [Vec<String>; 2] {
        fn names<'a>(metrics: impl Iterator<Item = &'a Metrics>) -> Vec<String> {
            let names = metrics.flat_map(Metrics::iter);
            let names: BTreeSet<String> = names.map(|(name, _)| name.to_owned()).collect();
            names.into_iter().collect()
        }
        let rows = || self.rows.iter();
        [
            names(rows().filter_map(|row| Some(&row.val.as_ref()?.metrics))),
            names(rows().filter_map(|row| Some(&row.val_ema.as_ref()?.metrics))),
        ]
    }
}

/// What has become of a run that is not finished, from its plan and its log.
fn unfinished(plan: &Plan, events: &[Event]) -> Option<&'static str> {
    let is_stopped = matches!(events.last(), Some(Event::Note(note)) if note.topic == Topic::Stop);
    match (Record::is_finished(plan, events), is_stopped) {
        (true, _) => None,
        (false, true) => Some("was stopped"),
        // The folder does not show which.
        (false, false) => Some("is still in training, or was killed,"),
    }
}

/// Size and cost of a classifier, or of a network for segmentation or detection with images of its size; not available for DINO's network
/// with its heads.
fn model_facts(plan: &Plan, classes: usize) -> Option<ModelFacts> {
    if classes == 0 {
        return None;
    }
    let (summary, parameters, macs) = match plan.task {
        TaskKind::Classify | TaskKind::MultiLabel => {
            let summary = plan.model.config(Some(classes)).ok()?.summary();
            let (parameters, macs) = (summary.params, summary.macs.total());
            (summary, parameters, macs)
        }
        TaskKind::Segment | TaskKind::Detect => {
            let size = DenseSize::of(plan, classes).ok()?;
            (size.backbone, size.params, size.macs)
        }
        TaskKind::Dino => return None,
    };
    Some(ModelFacts {
        parameters,
        macs,
        keys: summary.kept(),
        name: summary.name,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::events::{epoch, eval};

    #[test]
    fn a_run_ends_with_its_last_epoch_or_the_evaluation_after_its_last_update() {
        let plan = |text: &str| toml::from_str::<Plan>(text).unwrap();
        let whole = plan("[train]\nepochs = 3\n");
        let short = plan("[train]\nepochs = 3\nmax_steps = 20\n");
        // Stopped between its last update and the evaluation.
        let stop = Event::Note(Note::new(20, Topic::Stop, "stopped"));
        let mut events = vec![eval(0, "val", 50.0), epoch(0, 1.0), stop];
        assert!(!Record::is_finished(&short, &events));
        assert_eq!(unfinished(&short, &events), Some("was stopped"));
        events.push(eval(1, "val", 60.0));
        assert!(Record::is_finished(&short, &events));
        assert!(!Record::is_finished(&whole, &events));
        events.extend([epoch(1, 1.0), epoch(2, 1.0)]);
        assert!(Record::is_finished(&whole, &events));
        assert_eq!(unfinished(&whole, &events), None);
        // Or when evaluations no longer improve.
        let mut early = vec![epoch(0, 1.0)];
        assert!(!Record::is_finished(&whole, &early));
        early.push(Event::Note(Note::new(
            20,
            Topic::Patience,
            "finished early",
        )));
        assert_eq!(unfinished(&whole, &early), None);
    }
}
