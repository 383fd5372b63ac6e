//! A run's state on disk: weights under timm's names, moments, progress.
//!
//! `model.safetensors` is an ordinary weight file that any tool reads, and so is `ema.safetensors`, which exists if the run keeps
//! an average. `optimizer.safetensors` holds the optimizer's state under PyTorch's names, such as `exp_avg.<parameter>` and
//! `exp_avg_sq.<parameter>`, and `step.<parameter>` where a parameter was left out of updates. With low-rank adaptation, both files
//! of weights are merged; `lora.safetensors`, `ema.lora.safetensors` and `adapted.safetensors` have what they were merged of. A task
//! may add its own state as `task.<name>.safetensors`. Together with `state.json` they restore a run bit for bit. `run/checkpoint` writes
//! the folder of these files whole or not at all.

use std::collections::BTreeMap;
use std::path::Path;

use kvt_models::Network;
use kvt_models::weights::{self, StateDict};
use serde::{Deserialize, Serialize};

use super::progress::{Best, Progress};
use super::{Recorder, TrainError, TrainState};
use crate::data::DataState;
use crate::recipe::{Ema, EmaReport, LossScale};
use crate::run::{Checkpoint, Checkpoints, RunDir, Stage, Which};
use crate::task::{EMA, MODEL, OTHER_TASK, Task, load_network, read_listed, task_file};

const OPTIMIZER: &str = "optimizer.safetensors";

/// `state.json`: what a checkpoint has besides tensors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// How far the run was.
    pub progress: Progress,
    /// Updates that the optimizer has made, for its bias correction: for every parameter without its own count.
    updates: u32,
    /// The loss scale, in f16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss_scale: Option<LossScale>,
    /// Bytes of the log that belong to this state.
    pub log_offset: u64,
    /// The images of its training and evaluation.
    data: DataState,
}

/// Saves a run's state.
#[derive(Clone, Debug)]
pub struct Checkpointer {
    checkpoints: Checkpoints,
    run: RunDir,
    data: DataState,
}

impl Checkpointer {
    /// For the checkpoints of a run on these images. The latest `keep_last` of them are kept.
    pub fn new(run: &RunDir, data: DataState, keep_last: usize) -> Self {
        Self {
            checkpoints: Checkpoints::new(run).keeping(keep_last),
            run: run.clone(),
            data,
        }
    }

    /// The run.
    pub(super) fn run(&self) -> &RunDir {
        &self.run
    }

    /// Leaves the sizes of image files out of future checkpoints.
    pub fn forget_sizes(&mut self) {
        self.data.sizes = None;
    }

    /// Writes a checkpoint and makes it the last, with `best` also the best. It is one before its evaluation if that is still to come.
    ///
    /// # Errors
    /// If anything cannot be read from the device or written; older checkpoints then stay untouched.
    pub fn save<T: Task>(
        &self,
        state: &TrainState<T>,
        progress: &Progress,
        recorder: &Recorder<'_>,
        best: bool,
    ) -> Result<Vec<String>, TrainError> {
        let (moments, updates) = state.optimizer.state();
        let mut tensors = vec![
            (MODEL.to_owned(), state.network.state_dict()?),
            (OPTIMIZER.to_owned(), moments.into_iter().collect()),
        ];
        let average = state.ema.as_ref().map(Ema::network);
        if let Some(average) = average {
            tensors.push((EMA.to_owned(), average.state_dict()?));
        }
        let both = [
            (EmaReport::Raw, Some(&state.network)),
            (EmaReport::Ema, average),
        ];
        for (which, network) in both {
            let Some(model) = network.and_then(Network::lora) else {
                continue;
            };
            let [factors, adapted] = which.apart();
            tensors.push((factors.to_owned(), model.factors()?));
            // An average adapts the same weights.
            if which == EmaReport::Raw {
                tensors.push((adapted.to_owned(), model.adapted()?));
            }
        }
        let own = state.task.state()?.into_iter();
        tensors.extend(own.map(|(name, state)| (task_file(name), state)));
        let saved = Saved {
            progress: *progress,
            updates,
            loss_scale: state.loss_scale,
            log_offset: recorder.log_offset(),
            data: self.data,
        };
        let files = |folder: &Path| -> Result<_, TrainError> {
            for (name, tensors) in &tensors {
                weights::write(&folder.join(name), tensors, &BTreeMap::new())?;
            }
            Ok(tensors.into_iter().map(|(name, _)| name).collect())
        };
        let stage = if progress.concluding {
            Stage::BeforeEval
        } else {
            Stage::Done
        };
        let step = progress.position.step;
        self.checkpoints.save(step, (stage, best), &saved, files)
    }

    /// Restores a checkpoint into a freshly made state. If it fits, `before` is called with its step, and then the folder is updated:
    /// the checkpoint becomes the last one, and conflicting ones are set aside. Returns warnings about state that could not be used,
    /// and files that were set aside.
    ///
    /// # Errors
    /// If there is no checkpoint, it is broken, it belongs to another model, task or other images, it lacks an average that is
    /// required, or `before` fails.
    pub fn restore<T: Task>(
        &self,
        which: Which<'_>,
        fresh: TrainState<T>,
        before: impl FnOnce(u64) -> Result<(), TrainError>,
    ) -> Result<(TrainState<T>, Saved, Vec<String>), TrainError> {
        let (mut checkpoint, warning) = self.checkpoints.recover(which)?;
        let mut saved: Saved = checkpoint.state()?;
        if !saved.data.agrees(&self.data) {
            return Err(TrainError::DataChanged {
                run: self.run.path().to_owned(),
                old: saved.data,
                new: self.data,
            });
        }
        let state = load_state(&checkpoint, &saved, fresh)?;
        before(saved.progress.position.step)?;
        let mut warnings: Vec<String> = warning.into_iter().collect();
        let best = saved.progress.best;
        let step = best.map(|best| best.step);
        let best_is_lost = self
            .checkpoints
            .settle(&mut checkpoint, step, &mut warnings)?;
        if let (true, Some(Best { epoch, value, .. })) = (best_is_lost, best) {
            let metric = T::BEST.name;
            warnings.push(format!(
                "the best checkpoint ({metric} {value:.2} of epoch {}) is missing or broken: the next evaluation counts as the best so far",
                epoch + 1
            ));
            saved.progress.best = None;
        }
        Ok((state, saved, warnings))
    }
}

/// A fresh state filled from a checkpoint.
fn load_state<T: Task>(
    checkpoint: &Checkpoint,
    saved: &Saved,
    fresh: TrainState<T>,
) -> Result<TrainState<T>, TrainError> {
    let updates = saved.updates;
    let network = load_network(checkpoint, EmaReport::Raw, fresh.network)?;
    let load_ema = |network| load_network(checkpoint, EmaReport::Ema, network);
    let ema = fresh.ema.map(|ema| ema.restore(load_ema)).transpose()?;
    let moments = match updates {
        0 => StateDict::default(),
        _ => weights::read(&checkpoint.file(OPTIMIZER))?,
    };
    let mut optimizer = fresh.optimizer;
    optimizer.load_state(moments.into_iter().collect(), updates, &network)?;
    let mut task = fresh.task;
    task.load_state(&|name| read_listed(checkpoint, &task_file(name), OTHER_TASK))?;
    Ok(TrainState {
        network,
        task,
        optimizer,
        ema,
        // A run resumed in another precision starts with a fresh scale.
        loss_scale: fresh
            .loss_scale
            .map(|fresh| saved.loss_scale.unwrap_or(fresh)),
    })
}
