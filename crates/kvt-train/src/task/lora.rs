//! `[lora]`: fine-tuning of small factors beside frozen weights.

use burn::tensor::Device;
use kvt_models::{Lora, Model, ModelConfig, ModelError};
use kvt_ops::Key;

use crate::config::Plan;
use crate::error::TrainError;
use crate::plot::grouped;
use crate::run::{Note, Topic};
use kvt_data::schema::section;
use kvt_data::text::counted;

section! {
    /// Low-rank adaptation (LoRA, Hu et al. 2021, <https://arxiv.org/abs/2106.09685>): the weights of some linear layers stay, and the
    /// product of two small matrices is added to them. These and the classification head are all that is trained.
    pub struct LoraConfig {
        /// Rank of the product; 0 trains the weights themselves.
        pub rank: usize = 0, "x-range" = "[0, 65536]";
        /// The product is multiplied by `alpha / rank`. Twice the rank is what Biderman et al. 2024 recommend
        /// (<https://arxiv.org/abs/2405.09673>); peft's default is 8 with a rank of 8.
        pub alpha: f64 = 16.0, "x-range" = "(0, 1e6]", "x-default" = "twice `lora.rank`";
        /// The linear layers, by parts of their names that are whole between dots: `"attn"` is all of the attention but its own
        /// weights where its kind has some, `"mlp.fc1"` the first layer of each MLP, `"blocks.11"` those of one block.
        pub layers: Vec<String> = vec!["attn".to_owned()], "minItems" = 1;
    }
}

impl LoraConfig {
    /// Refuses factors that a model of this configuration cannot have.
    ///
    /// # Errors
    /// Those of [`attach`](Self::attach), and of a model that cannot be created.
    pub fn check(&self, config: &ModelConfig) -> Result<(), ModelError> {
        if self.rank == 0 {
            return Ok(());
        }
        // Which layers there are, and their sizes, only a model tells.
        let device = Device::flex();
        let model = config.init(&device, Key::new(0))?;
        self.attach(model, &device, 0).map(drop)
    }

    /// A model with these factors, drawn for the seed of a plan; the same model without a rank.
    ///
    /// # Errors
    /// If a layer is none of the model, or smaller than the rank.
    pub fn attach(&self, model: Model, device: &Device, seed: u64) -> Result<Model, ModelError> {
        if self.rank == 0 {
            return Ok(model);
        }
        let lora = Lora {
            rank: self.rank,
            alpha: self.alpha,
            layers: self.layers.clone(),
        };
        model.with_lora(&lora, device, Key::new(seed).named("lora"))
    }
}

/// A model with the factors of a plan, and a note of their number; the same model if it has none.
///
/// # Errors
/// If a layer is none of the model, or smaller than the rank.
pub(super) fn adapt(
    plan: &Plan,
    model: Model,
    device: &Device,
    notes: &mut Vec<Note>,
) -> Result<Model, TrainError> {
    let model = plan.lora.attach(model, device, plan.seed)?;
    let rank = plan.lora.rank;
    if rank == 0 {
        return Ok(model);
    }
    let factors = model.factors()?;
    let numbers = factors.iter().map(|(_, factor)| factor.num_elements());
    let message = format!(
        "LoRA of rank {rank} in {}: {} numbers and the head are trained",
        counted(factors.len() / 2, "layer"),
        grouped(numbers.sum())
    );
    notes.push(Note::new(0, Topic::Start, message));
    Ok(model)
}
