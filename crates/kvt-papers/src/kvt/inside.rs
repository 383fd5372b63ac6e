//! The trained models of an item's runs, for analysis.

use kvt_attention::{AttentionConfig, KnnConfig, Neighbors, PerStage};
use kvt_models::Model;

use crate::{ReproduceError, Runs, Watch};
use kvt_tools::report::Statistic;
use kvt_tools::sweep::Cell;
use kvt_tools::trained::Trained;
use kvt_train::analysis::{Analyzer, Layer, Measure, analyze};
use kvt_train::config::Plan;
use kvt_train::data::Split;
use kvt_train::error::TrainError;
use kvt_train::splits::Splits;

/// A trained model, its classes and its images.
pub(super) struct Inside {
    /// On its device, without autodiff. For DINO it is the teacher, whose head is untrained.
    pub(super) model: Model,
    pub(super) splits: Splits,
    pub(super) device: burn::tensor::Device,
}

impl Inside {
    /// Opens the finished run of a plan after its last epoch.
    fn of(plan: &Plan) -> Result<Self, ReproduceError> {
        // As it was when the run was judged, which has warned already.
        let trained = Trained::last_of(plan, &mut |_| {})?;
        let classes = trained.classes.as_deref();
        let splits = Splits::open(plan, trained.size, classes, &mut |_, _| {});
        Ok(Self {
            model: trained.model,
            splits: splits.map_err(TrainError::from)?,
            device: trained.device.device.inner(),
        })
    }

    /// Side of its images in pixels, which must be square.
    pub(super) fn side(&self) -> Result<usize, ReproduceError> {
        let size = self.model.config().img_size();
        let side = size.is_square().then_some(size.side());
        side.ok_or(ReproduceError::NotSquare(size))
    }

    /// The same model keeping, at any image size, as many keys as at its training size. `None` if it does so already, or if its
    /// attention is not k-NN attention.
    pub(super) fn with_counts(&self, cell: &Cell) -> Result<Option<Self>, ReproduceError> {
        let Some(AttentionConfig::Knn(knn)) = &cell.plan.model.overrides.attention else {
            return Ok(None);
        };
        let summary = self.model.config().summary();
        let stages = summary.attending().count();
        let (mut given, mut counts) = (Vec::new(), Vec::new());
        for (number, stage) in summary.attending().enumerate() {
            let own = knn.neighbors.at("neighbors", number, stages)?;
            given.push(own);
            counts.push(Neighbors::count(own.resolve(stage.keys)).unwrap_or(own));
        }
        if counts == given {
            return Ok(None);
        }
        let mut plan = cell.plan.clone();
        plan.model.overrides.attention = Some(AttentionConfig::Knn(KnnConfig {
            neighbors: PerStage::from(counts),
            ..knn.clone()
        }));
        Self::of(&plan).map(Some)
    }
}

/// Dense and k-NN attention: the name of the row, and its title.
pub(super) type Row = (&'static str, &'static str);
pub(super) const ROWS: [Row; 2] = [("dense", "dense"), ("knn", "k-NN")];

/// Shows one model of each row to `each`, all of the same seed if possible. Returns a sentence about their seeds ([`seeds`]).
pub(super) fn each_row(
    runs: &Runs,
    watch: &dyn Watch,
    mut each: impl FnMut(Row, &Cell, &Inside) -> Result<(), ReproduceError>,
) -> Result<String, ReproduceError> {
    let mut shown = Vec::new();
    let chosen = runs.of_one_seed(&ROWS.map(|(row, _)| row));
    for (done, (row, cell)) in ROWS.into_iter().zip(chosen).enumerate() {
        if let Some(cell) = cell {
            shown.push((row.1, cell.plan.seed));
            each(row, cell, &Inside::of(&cell.plan)?)?;
        }
        watch.progress(done + 1, ROWS.len());
    }
    Ok(seeds(&shown))
}

/// A sentence about the seeds of the models that a figure shows, by their titles, with a space after it.
fn seeds(shown: &[(&str, u64)]) -> String {
    match shown {
        [] => String::new(),
        [(_, first), others @ ..] if others.iter().all(|(_, seed)| seed == first) => {
            format!("They are of seed {first}. ")
        }
        all => {
            let all = all.iter().map(|(title, seed)| format!("{title} {seed}"));
            format!(
                "Their seeds differ: {}. ",
                all.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

/// The layers of all finished runs of a row, seed by seed.
pub(super) struct LayersOfRow {
    pub(super) row: String,
    pub(super) seeds: Vec<(u64, Vec<Layer>)>,
}

impl LayersOfRow {
    /// Measures the layers on all validation images.
    pub(super) fn of(runs: &Runs, row: &str) -> Result<Self, ReproduceError> {
        let mut seeds = Vec::new();
        for (cell, _) in runs.finished(row) {
            let inside = Inside::of(&cell.plan)?;
            let batches = inside
                .splits
                .some_images(&cell.plan, Split::Val, 0)
                .map_err(TrainError::from)?;
            let layers = analyze(
                Analyzer::default(),
                &inside.model,
                batches,
                &inside.device,
                |_| {},
            )?;
            seeds.push((cell.plan.seed, layers));
        }
        Ok(Self {
            row: row.to_owned(),
            seeds,
        })
    }

    /// The number, mean and error of each layer. The error is the spread over the seeds, or the standard error over the images if
    /// there is only one seed.
    pub(super) fn points(&self, measure: Measure) -> Vec<(f64, f64, Option<f64>)> {
        let layers = self.seeds.iter().map(|(_, layers)| layers.len()).max();
        (0..layers.unwrap_or(0))
            .filter_map(|place| {
                let of_seed = |(_, layers): &(u64, Vec<Layer>)| layers.get(place)?.get(measure);
                let found = self.seeds.iter().filter_map(of_seed);
                let found = found.map(|found| (found.mean, found.error));
                let (mean, error) = over_seeds(&found.collect::<Vec<_>>())?;
                Some(((place + 1) as f64, mean, error))
            })
            .collect()
    }
}

/// The mean over the seeds of means with their errors, and its own error: the spread over the seeds, or of one seed that of its mean.
pub(super) fn over_seeds(found: &[(f64, Option<f64>)]) -> Option<(f64, Option<f64>)> {
    let means: Vec<f64> = found.iter().map(|(mean, _)| *mean).collect();
    let all = Statistic::of(&means)?;
    Some((all.mean, all.spread.or(found.first()?.1)))
}
