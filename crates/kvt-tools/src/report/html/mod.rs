//! One run or several as a single HTML file that needs no network, no other file and no script to be read (a script adds values
//! under the pointer and switches for lines).
//!
//! A [`Record`] is read from a run's folder; [`Judged`] and [`Sample`] hold the model's results on images, if asked for. Names of
//! classes, runs and files are untrusted text, so `Markup` escapes every text, and the page's policy forbids everything except
//! its own style and script, which it lists by hash. The same runs give the same file.

mod chart;
mod classes;
mod images;
mod judged;
mod labelled;
mod markup;
mod page;
mod painted;
mod plots;
mod record;
mod samples;
mod settings;
mod tables;

use std::path::Path;

pub use self::images::Asked;
pub use self::judged::Judged;
pub use self::painted::Painted;
pub use self::record::Record;
pub use self::samples::Sample;

use self::markup::Markup;
use self::page::Part;
use super::{Curve, ReportError, RunFacts, best_metric, check_metric, heading, labels, unlike};
use crate::groups::unique;
use kvt_data::fs::write_text;
use kvt_train::judge::Judgement;
use kvt_train::run::Metric;
use kvt_train::task::{Evaluation, LabelEvaluation, Scores, SegmentEvaluation};

/// A report on one run or several.
#[derive(Debug)]
pub struct Report {
    /// Its heading.
    pub title: String,
    /// The metric by which runs are judged.
    pub metric: Metric,
    /// The runs.
    pub records: Vec<Record>,
    /// Results on all images of a split, for the runs that were evaluated.
    pub judged: Vec<Judged<(Evaluation, Judgement)>>,
    /// The same for the runs that give any number of labels to an image.
    pub labelled: Vec<Judged<LabelEvaluation>>,
    /// The same for the runs that label pixels.
    pub segmented: Vec<Judged<SegmentEvaluation>>,
    /// The same for the runs that find objects.
    pub detected: Vec<Judged<Scores>>,
    /// Single images under their classes or with their objects, of the runs that label pixels or find objects.
    pub painted: Vec<Painted>,
    /// Single images, the same for all runs.
    pub samples: Vec<Sample>,
    /// The images that a run got wrong with the highest confidence.
    pub mistakes: Vec<Sample>,
    /// What could not be shown, in sentences.
    pub remarks: Vec<String>,
    /// Why some runs are called by their paths.
    named: Vec<String>,
}

impl Report {
    /// A report on runs, without images. Runs are judged by `metric`, by default by that of their task.
    ///
    /// # Errors
    /// [`ReportError::NoRuns`] without any run, [`ReportError::Twice`] if a run is given twice, [`ReportError::NothingTrained`]
    /// if none has finished an epoch, [`ReportError::NoSuchMetric`] if none has `metric`.
    pub fn new(
        mut records: Vec<Record>,
        metric: Option<Metric>,
        title: Option<String>,
    ) -> Result<Self, ReportError> {
        if records.is_empty() {
            return Err(ReportError::NoRuns);
        }
        for (number, record) in records.iter().enumerate() {
            let mut before = records.iter().take(number);
            if before.any(|other| other.folder() == record.folder()) {
                return Err(ReportError::Twice(record.path.clone()));
            }
        }
        if records.iter().all(|record| record.curve.epochs.is_empty()) {
            let kept = records.iter().flat_map(Record::kept_epochs);
            return Err(ReportError::NothingTrained {
                kept: kept.collect(),
                runs: records.into_iter().map(|record| record.path).collect(),
            });
        }
        let names: Vec<String> = records.iter().map(|record| record.name.clone()).collect();
        for record in &mut records {
            if names.iter().filter(|name| **name == record.name).count() > 1 {
                record.call_by_path();
            }
        }
        let runs = records.iter().map(|record| (record.names(), &record.plan));
        let (labels, named) = labels(&runs.collect::<Vec<_>>())?;
        for (record, label) in records.iter_mut().zip(labels) {
            record.curve.label = label;
        }
        let curves: Vec<Curve> = records.iter().map(|record| record.curve.clone()).collect();
        if let Some(metric) = metric {
            check_metric(metric, &curves)?;
        }
        let title = title.unwrap_or_else(|| heading(&curves));
        Ok(Self {
            title,
            metric: metric.unwrap_or_else(|| best_metric(&curves)),
            records,
            judged: Vec::new(),
            labelled: Vec::new(),
            segmented: Vec::new(),
            detected: Vec::new(),
            painted: Vec::new(),
            samples: Vec::new(),
            mistakes: Vec::new(),
            remarks: Vec::new(),
            named,
        })
    }

    /// What a reader must know before the numbers: runs that are unfinished or cannot be compared, and damaged files.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let records = || self.records.iter();
        let mut found: Vec<String> = records().filter_map(Record::state).collect();
        let facts: Vec<RunFacts> = records().map(|record| record.facts.clone()).collect();
        found.extend(unlike(&facts));
        found.extend(self.named.iter().cloned());
        found.extend(records().flat_map(|record| record.warnings.iter().cloned()));
        found
    }

    /// Writes the page atomically.
    ///
    /// # Errors
    /// As [`Report::to_html`], and failures of the file system.
    pub fn save(&self, path: &Path) -> Result<(), ReportError> {
        Ok(write_text(path, &self.to_html()?)?)
    }

    /// The page.
    ///
    /// # Errors
    /// If configurations cannot be compared, or a picture cannot be encoded.
    pub fn to_html(&self) -> Result<String, ReportError> {
        let differing = settings::differing(&self.records)?;
        let several = self.records.len() > 1;
        let curves: Vec<Curve> = self.records.iter().map(|run| run.curve.clone()).collect();
        let mut parts: Vec<Part> = Vec::new();
        let mut part = |id, title, markup| parts.push(Part { id, title, markup });

        let title = if several { "Runs" } else { "Result" };
        part("runs", title, made(|page| tables::runs(page, self)));
        if several {
            let table = made(|page| tables::comparison(page, self, &curves));
            part("comparison", "Comparison", table);
        }
        part(
            "curves",
            "Curves",
            made(|page| plots::all(page, self, &curves)),
        );
        if several {
            let table = made(|page| settings::differences(page, &self.records, &differing));
            part("differences", "Differences of the configurations", table);
        }
        let is_judged = !(self.judged.is_empty() && self.labelled.is_empty());
        if is_judged || !(self.segmented.is_empty() && self.detected.is_empty()) {
            let results = made(|page| {
                judged::all(page, self, &self.judged, classes::write);
                judged::all(page, self, &self.labelled, labelled::write);
                judged::all(page, self, &self.segmented, painted::write_segments);
                judged::all(page, self, &self.detected, painted::write_objects);
            });
            part("judged", "Evaluation", results);
        }
        let has_images = !(self.samples.is_empty() && self.painted.is_empty());
        if has_images || !self.remarks.is_empty() {
            part("samples", "Sample images", samples::chosen(self)?);
        }
        if !self.mistakes.is_empty() {
            part("mistakes", "Surest mistakes", samples::mistakes(self)?);
        }
        let texts = made(|page| settings::configurations(page, &self.records));
        part("configuration", "Configuration", texts);
        let table = made(|page| settings::environments(page, &self.records));
        part("environment", "Environment", table);
        let epochs = made(|page| {
            for record in &self.records {
                tables::epochs(page, record);
            }
        });
        part("epochs", "Epochs", epochs);
        Ok(page::write(self, &parts))
    }

    /// The name of a run by its number.
    fn name(&self, run: usize) -> &str {
        self.records.get(run).map_or("?", |record| &record.name)
    }

    /// The index of a run's label among all labels: runs with the same label have the same colour.
    fn label_number(&self, run: usize) -> usize {
        let labels = self.records.iter().map(|record| &record.curve.label);
        let own = labels.clone().nth(run);
        let number = unique(labels).iter().position(|label| Some(*label) == own);
        number.unwrap_or_default()
    }
}

/// The markup that `write` produces.
fn made(write: impl FnOnce(&mut Markup)) -> Markup {
    let mut page = Markup::default();
    write(&mut page);
    page
}

#[cfg(test)]
mod tests;
