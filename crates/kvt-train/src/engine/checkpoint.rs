//! A run's state on disk: weights under timm's names, moments, progress.
//!
//! `model.safetensors` is an ordinary weight file that any tool reads, and so is `ema.safetensors`,
//! which is there if the run keeps an average; `optimizer.safetensors` holds `exp_avg.<parameter>` and
//! `exp_avg_sq.<parameter>`. Together with `state.json` they restore a run to the bit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::TensorData;
use kvt_models::Model;
use kvt_models::checkpoint::LoadOptions;
use kvt_models::weights::{self, Outcome, StateDict};
use serde::{Deserialize, Serialize};

use super::progress::{Best, Progress};
use super::{Recorder, TrainError};
use crate::data::Batch;
use crate::fs::write_atomic;
use crate::recipe::{AdamW, Ema};
use crate::run::{Checkpoint, Checkpoints, FileWriter, RunDir, RunError, Stage, Warning, Which};

const MODEL: &str = "model.safetensors";
const EMA: &str = "ema.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";

/// `state.json`
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct State {
    progress: Progress,
    /// Updates the optimizer has made, for its bias correction.
    updates: u32,
    /// Bytes of the log that belong to this state.
    log_offset: u64,
    /// The images it was trained and evaluated on.
    data: DataState,
}

/// What identifies the images of a run: an order of the epoch means something only for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataState {
    /// Training images.
    pub train: usize,
    /// Validation images.
    pub val: usize,
    /// BLAKE3 of their relative paths and labels in order, cut to 64 bits.
    pub listing: u64,
    /// The same of the sizes of their files; `None` in checkpoints of older versions and with `data.check_sizes = false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<u64>,
}

impl DataState {
    /// Whether both are of the same images, by all that both know.
    pub fn agrees(&self, other: &Self) -> bool {
        let known = |state: &Self| (state.train, state.val, state.listing);
        let sizes = self.sizes.zip(other.sizes);
        known(self) == known(other) && sizes.is_none_or(|(a, b)| a == b)
    }
}

/// Saves a run's state.
#[derive(Clone, Debug)]
pub struct Checkpointer {
    checkpoints: Checkpoints,
    run: PathBuf,
    data: DataState,
}

/// A restored run.
pub struct Restored {
    /// The trained model.
    pub model: Model,
    /// Its optimizer.
    pub optimizer: AdamW,
    /// The average of its weights.
    pub ema: Option<Ema>,
    /// How far the run was.
    pub progress: Progress,
    /// Bytes of the log at that point.
    pub log_offset: u64,
    /// What could not be used, and what was set aside.
    pub warnings: Vec<Warning>,
}

impl Checkpointer {
    /// For the checkpoints of a run on these images, of which the `keep_last` latest are kept.
    pub fn new(run: &RunDir, data: DataState, keep_last: usize) -> Self {
        Self {
            checkpoints: Checkpoints::new(run.checkpoints()).keep_last(keep_last),
            run: run.path().to_owned(),
            data,
        }
    }

    /// The checkpoints to come do not remember the sizes of the image files.
    pub fn forget_sizes(&mut self) {
        self.data.sizes = None;
    }

    /// Writes a checkpoint and makes it the last; `kind` is its stage, and whether it is also the best.
    ///
    /// # Errors
    /// If anything cannot be read from the device or written; older checkpoints are untouched then.
    pub fn save(
        &self,
        model: &Model,
        optimizer: &AdamW,
        ema: Option<&Ema>,
        progress: &Progress,
        recorder: &Recorder<'_>,
        (stage, best): (Stage, bool),
    ) -> Result<Vec<Warning>, TrainError> {
        let (moments, updates) = optimizer.state();
        let mut tensors = vec![
            (MODEL, StateDict::from_model(model)?),
            (OPTIMIZER, moments.into_iter().collect()),
        ];
        if let Some(ema) = ema {
            tensors.push((EMA, StateDict::from_model(ema.model())?));
        }
        let state = State {
            progress: *progress,
            updates,
            log_offset: recorder.log_offset(),
            data: self.data,
        };
        let metadata = BTreeMap::new();
        let mut writers: Vec<_> = tensors
            .iter()
            .map(|(name, tensors)| {
                let write = |path: &Path| Ok(weights::write(path, tensors, &metadata)?);
                (*name, write)
            })
            .collect();
        let mut files: Vec<FileWriter<'_, TrainError>> = writers
            .iter_mut()
            .map(|(name, write)| (*name, write as _))
            .collect();
        let step = progress.position.step;
        let saved = self
            .checkpoints
            .save(step, stage, &mut files, &state, best)?;
        Ok(saved.warnings)
    }

    /// Restores a checkpoint into a freshly made model, its optimizer and its average. If it fits, `before` is called, and
    /// then the folder is made to agree: it becomes the last one, and those that are in its way are set aside.
    ///
    /// # Errors
    /// If there is none, it is broken, it belongs to another model or other images, or it has no average
    /// where one is asked for.
    pub fn restore(
        &self,
        which: Which<'_>,
        model: Model,
        mut optimizer: AdamW,
        ema: Option<Ema>,
        before: impl FnOnce() -> Result<(), RunError>,
    ) -> Result<Restored, TrainError> {
        let mut recovered = self.checkpoints.recover(which)?;
        let checkpoint = &recovered.checkpoint;
        let mut state: State = checkpoint.state()?;
        if !state.data.agrees(&self.data) {
            return Err(TrainError::DataChanged {
                run: self.run.clone(),
                old: state.data,
                new: self.data,
            });
        }
        let model = load_model(checkpoint, Weights::Trained, model)?;
        let load_ema = |model| load_model(checkpoint, Weights::Ema, model);
        let ema = ema.map(|ema| ema.restore(load_ema)).transpose()?;
        let moments = match state.updates {
            0 => BTreeMap::new(),
            _ => weights::read(&checkpoint.file(OPTIMIZER))?
                .into_iter()
                .collect::<BTreeMap<String, TensorData>>(),
        };
        optimizer.load_state(moments, state.updates, &model)?;
        before()?;
        let mut warnings: Vec<Warning> = recovered.warning.take().into_iter().collect();
        let best = state.progress.best;
        let settled = self
            .checkpoints
            .settle(&mut recovered, best.map(|best| best.step))?;
        warnings.extend(settled.warnings);
        if let (true, Some(Best { epoch, top1, .. })) = (settled.best_is_lost, best) {
            warnings.push(Warning::BestLost { epoch, top1 });
            state.progress.best = None;
        }
        Ok(Restored {
            model,
            optimizer,
            ema,
            progress: state.progress,
            log_offset: state.log_offset,
            warnings,
        })
    }

    /// Writes what led to a non-finite number: the weights before the step, and the batches with
    /// their files. Returns the folder.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn dump(
        &self,
        step: u64,
        window: &[Batch],
        paths: impl Fn(&Batch) -> Vec<PathBuf>,
        model: &Model,
    ) -> Result<PathBuf, TrainError> {
        let folder = self.run.join(format!("nonfinite-step-{step}"));
        fs_err::create_dir_all(&folder)?;
        let metadata = BTreeMap::new();
        weights::write(
            &folder.join(MODEL),
            &StateDict::from_model(model)?,
            &metadata,
        )?;
        let mut images = StateDict::default();
        let mut files = Vec::new();
        for (number, batch) in window.iter().enumerate() {
            let (height, width) = batch.size;
            let shape = [batch.labels.len(), 3, height, width];
            let data = TensorData::new(batch.images.clone(), shape);
            images.insert(format!("images.{number}"), data);
            // JSON is text: of a name that is not, what can be shown is.
            let names = paths(batch)
                .into_iter()
                .map(|path| path.display().to_string());
            files.extend(names.zip(batch.labels.iter().copied()));
        }
        weights::write(&folder.join("batch.safetensors"), &images, &metadata)?;
        write_atomic(&folder.join("batch.json"), |file| {
            Ok(serde_json::to_writer_pretty(file, &files)?)
        })?;
        Ok(folder)
    }
}

/// Which of a checkpoint's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Those that are trained.
    Trained,
    /// Their average.
    Ema,
}

/// The weights of a run's checkpoint (`last`, `best` or a checkpoint's folder) in a model.
///
/// # Errors
/// If there is no such checkpoint, it is broken, belongs to another model, or has no average where that
/// is asked for.
pub fn load_checkpoint_model(
    run: &RunDir,
    which: &str,
    weights: Weights,
    model: Model,
) -> Result<(Model, Option<Warning>), TrainError> {
    // A bare name is one of the run's own checkpoints.
    let named = run.checkpoints().join(which);
    let which = match Which::from(Path::new(which)) {
        Which::Path(_) if named.is_dir() => Which::Path(&named),
        which => which,
    };
    let (checkpoint, warning) = Checkpoints::new(run.checkpoints()).load(which)?;
    Ok((load_model(&checkpoint, weights, model)?, warning))
}

fn load_model(
    checkpoint: &Checkpoint,
    weights: Weights,
    model: Model,
) -> Result<Model, TrainError> {
    let file = match weights {
        Weights::Trained => MODEL,
        Weights::Ema => EMA,
    };
    // Files that are not the checkpoint's own were not verified.
    if weights == Weights::Ema && !checkpoint.has(EMA) {
        return Err(TrainError::NoEma {
            path: checkpoint.path().to_owned(),
        });
    }
    let weights = weights::read(&checkpoint.file(file))?;
    let (model, report) = model.load(&weights, LoadOptions::default())?;
    let unused: Vec<&str> = report.names(Outcome::Unused).collect();
    if unused.is_empty() {
        return Ok(model);
    }
    Err(TrainError::Surplus {
        path: checkpoint.path().to_owned(),
        names: unused.join("`, `"),
    })
}
