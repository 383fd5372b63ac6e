//! The report that a run makes of itself.

use std::path::{Path, PathBuf};

use super::html::{Asked, Record, Report};
use super::judged::save_confusion;
use super::{ReportError, save_plots};
use crate::trained::{Choice, Warn};
use kvt_train::run::{REPORT, forget_report};
use kvt_train::task::TaskKind;

/// How many images a run of segmentation or detection shows.
const PAINTED: usize = 6;

/// Writes `report.html` into a run's folder, and pictures of its curves into `report/` there. Of a classifier that has finished, both
/// also have the confusion matrix of its best checkpoint, of segmentation and detection the page has its classes and some painted images, and of several labels its classes; `progress` gets the number of evaluated images and of all. Returns the page,
/// or nothing if the run has not finished an epoch.
///
/// # Errors
/// If the run or its images cannot be read, or a file cannot be written. Without the images there are curves all the same.
pub fn report_itself(
    run: &Path,
    is_finished: bool,
    progress: &mut dyn FnMut(usize, usize),
    warn: Warn<'_>,
) -> Result<Option<PathBuf>, ReportError> {
    let record = Record::read(run)?;
    let curves = [record.curve.clone()];
    if curves[0].epochs.is_empty() {
        return Ok(None);
    }
    let samples = match record.plan.task {
        TaskKind::Segment | TaskKind::Detect => PAINTED,
        TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Dino => 0,
    };
    let is_judged = is_finished && record.plan.task != TaskKind::Dino;
    let mut report = Report::new(vec![record], None, None)?;
    forget_report(run)?;
    let folder = run.join(REPORT);
    fs_err::create_dir_all(&folder)?;
    save_plots(&curves, report.metric, &report.title, &folder)?;
    let judged = if is_judged {
        judge(&mut report, samples, &folder, progress, warn)
    } else {
        Ok(())
    };
    let page = run.join("report.html");
    report.save(&page)?;
    judged?;
    Ok(Some(page))
}

/// Adds the judgement of the best checkpoint, or of the last one where none was evaluated.
fn judge(
    report: &mut Report,
    samples: usize,
    folder: &Path,
    progress: &mut dyn FnMut(usize, usize),
    warn: Warn<'_>,
) -> Result<(), ReportError> {
    let mut epochs = report.records.iter().flat_map(|run| &run.curve.epochs);
    let is_evaluated = epochs.any(|epoch| epoch.val.get(report.metric.name).is_some());
    let asked = Asked {
        is_judged: true,
        samples,
        data: None,
        checkpoint: if is_evaluated { "best" } else { "last" }.to_owned(),
        weights: Choice::Reported,
        overrides: Vec::new(),
    };
    report.ask(0, &asked, progress, warn)?;
    for judged in &report.judged {
        let (evaluation, judgement) = &judged.found;
        let (right, images) = (evaluation.top1_percent(), evaluation.images);
        let title = format!("{}: {right:.2} % of {images} images right", report.title);
        save_confusion(judgement, &judged.classes, &title, folder)?;
    }
    Ok(())
}
