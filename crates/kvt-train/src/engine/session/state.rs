//! What a plan trains: its task, its network before training, its optimizer and its average.

use burn::tensor::Device;
use kvt_models::weights::Outcome;
use kvt_models::{Model, ModelConfig};

use crate::config::Plan;
use crate::engine::model::{HeadReset, build_model, start_from};
use crate::engine::{TrainError, TrainState};
use crate::recipe::{AdamW, AdamWConfig, Ema};
use crate::run::{Note, Topic};
use crate::task::Classify;

/// The state of a run before its first update, from the weights that the plan names; a note says what became of them.
pub(super) fn fresh_state(
    plan: &Plan,
    config: &ModelConfig,
    device: &Device,
    notes: &mut Vec<Note>,
) -> Result<TrainState<Classify>, TrainError> {
    let model = build_model(plan, config, device)?;
    let (model, report) = start_from(&plan.init, HeadReset::AsPlanned, model)?;
    if let (Some(path), Some(report)) = (&plan.init.weights, report) {
        let topic = match report.names(Outcome::Unused).next() {
            Some(_) => Topic::Warning,
            None => Topic::Start,
        };
        let message = format!("weights of `{}`: {}", path.display(), report.summary());
        notes.push(Note::new(0, topic, message));
    }
    Ok(state_of(plan, model))
}

/// A model with the task, the optimizer and the average of a plan.
pub(super) fn state_of(plan: &Plan, model: Model) -> TrainState<Classify> {
    let config = AdamWConfig {
        betas: plan.optim.betas.into(),
        eps: plan.optim.eps,
        weight_decay: plan.optim.weight_decay,
    };
    TrainState {
        optimizer: AdamW::new(config, &model),
        ema: (plan.ema.decay > 0.0).then(|| Ema::new(&model).leaving(model.frozen())),
        task: Classify {
            label_smoothing: plan.loss.label_smoothing,
        },
        network: model,
    }
}
