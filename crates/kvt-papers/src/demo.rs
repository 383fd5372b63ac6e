//! The quick start from this program alone: `kvt demo`.

use std::path::{Path, PathBuf};

use super::configs::Configs;
use super::{ReproduceError, Watch};
use kvt_tools::probe::{Drawn, NOTE, labelled, parts};
use kvt_tools::report::html::{Asked, Record, Report};
use kvt_tools::sweep::{Cell, End, Found, Outcome, Sweep, SweepError, carry_out};
use kvt_tools::trained::Choice;
use kvt_train::plot::save_png;

/// The configurations that are trained, in the folder of the embedded ones.
const CONFIGS: [&str; 2] = ["quickstart/dense.toml", "quickstart/knn.toml"];
const TITLE: &str = "Dense and k-NN attention on generated shapes";
/// Images in the report; the first one is also in the picture.
const SAMPLES: usize = 8;

/// What a demo computed.
#[derive(Debug)]
pub struct Demo {
    /// The table, and what there is to say about it.
    pub outcome: Outcome,
    /// The folders of the runs.
    pub runs: Vec<PathBuf>,
    /// The report and the picture of attention; none if a run is not finished.
    pub files: Vec<PathBuf>,
}

/// Trains a small model with dense and with k-NN attention on generated images, and writes the table, the curves, a report and a picture
/// of attention. Images, runs and results are in `folder`; runs that are finished there are not trained again. `overrides` apply to both
/// configurations.
///
/// # Errors
/// [`SweepError::Stopped`] if a stop was requested or `train.max_hours` is over; other errors if an override is wrong, or a file cannot be written. A run that
/// fails does not cause an error: it is among the failures of the outcome.
pub fn demo(
    folder: &Path,
    overrides: &[String],
    watch: &dyn Watch,
) -> Result<Demo, ReproduceError> {
    let sweep = sweep(folder, overrides)?;
    let ends = carry_out(&sweep, &[], watch)?;
    if ends.contains(&End::Stopped) {
        return Err(SweepError::Stopped.into());
    }
    let outcome = sweep.finish(&ends)?;
    let runs: Vec<PathBuf> = sweep.cells.iter().map(|cell| cell.dir().into()).collect();
    let files = if sweep.found()?.iter().all(Found::is_finished) {
        report(folder, &runs, overrides, watch)?
    } else {
        Vec::new()
    };
    Ok(Demo {
        outcome,
        runs,
        files,
    })
}

/// The runs, with all that they read and write in `folder`.
fn sweep(folder: &Path, overrides: &[String]) -> Result<Sweep, ReproduceError> {
    let configs = Configs::embedded()?;
    let inputs = CONFIGS.map(|name| configs.path.join(name));
    let mut sweep = Sweep::of(&inputs, overrides, None, Some(folder))?;
    sweep.title = Some(TITLE.to_owned());
    for Cell {
        name, config, plan, ..
    } in &mut sweep.cells
    {
        *config = configs.shown(config);
        plan.run.dir = folder.join(name);
        plan.data.path = folder.join("shapes");
    }
    Ok(sweep)
}

/// Writes the report and the picture, and returns their paths.
fn report(
    folder: &Path,
    runs: &[PathBuf],
    overrides: &[String],
    watch: &dyn Watch,
) -> Result<Vec<PathBuf>, ReproduceError> {
    let records = runs.iter().map(|run| Record::read(run));
    let mut report = records
        .collect::<Result<Vec<_>, _>>()
        .and_then(|all| Report::new(all, None, Some(TITLE.to_owned())))
        .map_err(SweepError::from)?;
    let asked = Asked {
        is_judged: true,
        samples: SAMPLES,
        data: None,
        checkpoint: "best".to_owned(),
        weights: Choice::Reported,
        overrides: overrides.to_vec(),
    };
    for run in 0..runs.len() {
        let progress = &mut |done, of| watch.progress(done, of);
        report.ask(run, &asked, progress, &mut |text| watch.warn(text))?;
    }
    let page = folder.join("report.html");
    report.save(&page).map_err(SweepError::from)?;
    let attention = folder.join("attention.png");
    // The first sample of each run, which is the same image: below the name of the run that image, and the image under the map of each head.
    let records = report.records.iter().enumerate();
    let rows = records.filter_map(|(run, record)| {
        let sample = report.samples.iter().find(|sample| sample.run == run)?;
        let name = vec![record.name.clone()];
        Some(parts(&sample.picture, name, &sample.maps, Drawn::OnImage))
    });
    let rows: Vec<_> = rows.collect();
    let drawn = labelled(&rows, NOTE).map_err(ReproduceError::Draw)?;
    save_png(&attention, &drawn)?;
    Ok(vec![page, attention])
}
