//! The models of an item's runs, looked into after their last epoch.

use kvt_models::Model;

use super::super::{ReproduceError, Runs};
use crate::analysis::{Estimate, Layer, Measure, analyze};
use crate::data::{Split, Splits};
use crate::device;
use crate::error::TrainError;
use crate::report::Statistic;
use crate::run::RunDir;
use crate::sweep::Cell;
use crate::task::{
    CheckpointWeights, DinoRole, TaskKind, build_model, load_checkpoint_backbone,
    load_checkpoint_model, model_config,
};

/// A trained model, its classes and its images.
pub(super) struct Inside {
    /// On its device, without autodiff. A model of DINO is the teacher, with a head that means nothing.
    pub(super) model: Model,
    pub(super) splits: Splits,
    pub(super) device: burn::tensor::Device,
}

impl Inside {
    /// Of a finished run, after its last epoch.
    pub(super) fn of(cell: &Cell) -> Result<Self, ReproduceError> {
        let plan = &cell.plan;
        let run = RunDir::open(cell.dir()).map_err(TrainError::from)?;
        let classes = run.read_classes().map_err(TrainError::from)?;
        let device = device::resolve(&plan.train.device).map_err(TrainError::from)?;
        let device = device.device.inner();
        let model = match plan.task {
            TaskKind::Classify => {
                let config = model_config(&plan.model, Some(classes.len()))?;
                let model = build_model(plan, &config, &device)?;
                let weights = CheckpointWeights::reported(plan);
                load_checkpoint_model(&run, "last", weights, model)?.0
            }
            TaskKind::Dino => {
                let mut section = plan.model.clone();
                section.overrides.num_classes = Some(1);
                let config = model_config(&section, None)?;
                let model = build_model(plan, &config, &device)?;
                load_checkpoint_backbone(&run, "last", DinoRole::Teacher, model)?.0
            }
        };
        let side = model.config().img_size();
        let splits = Splits::open(plan, (side, side), Some(classes.as_slice()), &mut |_, _| {});
        Ok(Self {
            model,
            splits: splits.map_err(TrainError::from)?,
            device,
        })
    }
}

/// Of which seeds the models are that a figure shows, by their titles: a sentence, with a space after it.
pub(super) fn seeds(shown: &[(&str, u64)]) -> String {
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
    /// Of the validation images; with 0 all of them.
    pub(super) fn of(runs: &Runs, row: &str, images: usize) -> Result<Self, ReproduceError> {
        let mut seeds = Vec::new();
        for (cell, _) in runs.finished(row) {
            let inside = Inside::of(cell)?;
            let batches = inside.splits.some_images(&cell.plan, Split::Val, images);
            let batches = batches.map_err(TrainError::from)?;
            let layers = analyze(&inside.model, batches, &inside.device, |_| {})?;
            seeds.push((cell.plan.seed, layers));
        }
        Ok(Self {
            row: row.to_owned(),
            seeds,
        })
    }

    /// The number, mean and error of each layer: the mean over the seeds and its spread, or of one seed the standard error over the
    /// images.
    pub(super) fn points(&self, measure: Measure) -> Vec<(f64, f64, Option<f64>)> {
        let layers = self.seeds.iter().map(|(_, layers)| layers.len()).max();
        (0..layers.unwrap_or(0))
            .filter_map(|place| {
                let of_seed = |(_, layers): &(u64, Vec<Layer>)| layers.get(place)?.get(measure);
                let found: Vec<Estimate> = self.seeds.iter().filter_map(of_seed).collect();
                let means: Vec<f64> = found.iter().map(|found| found.mean).collect();
                let all = Statistic::of(&means)?;
                let of_images = found.first().and_then(|found| found.error);
                Some(((place + 1) as f64, all.mean, all.spread.or(of_images)))
            })
            .collect()
    }
}
