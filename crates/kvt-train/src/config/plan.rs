//! The validated configuration that the trainer reads.
//!
//! Every default is filled in and every number is in its range. An `Option` here is a real choice ("no weights to
//! start from"), never a value that somebody else has to complete. The meaning of each setting is that of the key of
//! the same name, documented in [`reference`](super::reference()).

use std::path::PathBuf;

use super::choices::{
    AugmentPreset, ClassOrderSetting, ImplementationSetting, InterpolationSetting, OptimName,
    ScheduleKind, SchedulePer, SelectionSetting,
};

/// A complete, consistent description of a run.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "sections of the configuration")]
pub struct Plan {
    pub seed: u64,
    pub model: ModelPlan,
    pub init: InitPlan,
    pub data: DataPlan,
    pub augment: AugmentPlan,
    pub optim: OptimPlan,
    pub schedule: SchedulePlan,
    pub loss: LossPlan,
    pub ema: EmaPlan,
    pub train: TrainPlan,
    pub eval: EvalPlan,
    pub log: LogPlan,
    pub checkpoint: CheckpointPlan,
    pub run: RunPlan,
}

/// `[model]`: a known model; `None` and an empty list are the model's own value, and for `num_classes` the number of classes of the data.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct ModelPlan {
    pub name: String,
    pub img_size: Option<usize>,
    pub patch_size: Option<usize>,
    pub patch_stride: Option<usize>,
    pub window_size: Option<usize>,
    pub kv_stride: Option<usize>,
    pub embed_dim: Vec<usize>,
    pub depth: Vec<usize>,
    pub num_heads: Vec<usize>,
    pub mlp_ratio: Option<f64>,
    pub in_chans: Option<usize>,
    pub num_classes: Option<usize>,
    pub qkv_bias: Option<bool>,
    pub drop_path: f64,
    pub attn_drop: f64,
    pub attention: AttentionPlan,
}

/// `[model.attention]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct AttentionPlan {
    pub kind: AttentionKind,
    pub temperature: f64,
}

/// `model.attention.kind`, with the keys that matter for it.
#[derive(Clone, Debug, PartialEq)]
pub enum AttentionKind {
    /// Every query sees every key.
    Dense,
    /// Each query keeps only its k best keys.
    Knn {
        /// One entry for all stages, or one per stage; never empty.
        neighbors: Vec<NeighborsSetting>,
        /// How keys are ranked.
        selection: SelectionSetting,
        /// How it is computed.
        implementation: ImplementationSetting,
    },
}

/// How many keys a query keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NeighborsSetting {
    /// This many, at least 1.
    Count(usize),
    /// This share of the keys, in (0, 1].
    Fraction(f64),
}

/// `[init]`.
#[derive(Clone, Debug, PartialEq)]
pub struct InitPlan {
    /// A `.safetensors` or `.pth` file to start from instead of random weights.
    pub weights: Option<PathBuf>,
    /// Whether a classification head that does not fit stays as initialised.
    pub reset_head: bool,
}

/// `[data]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct DataPlan {
    pub kind: DataKind,
    pub path: PathBuf,
    pub train: String,
    pub val: String,
    pub class_order: ClassOrderSetting,
    pub shuffle: bool,
    pub drop_last: bool,
    pub workers: Workers,
    pub prefetch: usize,
    pub on_error: OnErrorSetting,
    pub max_pixels: u64,
    pub check_sizes: bool,
}

/// `data.kind`, with the keys that matter for it.
#[derive(Clone, Debug, PartialEq)]
pub enum DataKind {
    /// An image folder.
    Folder,
    /// Coloured shapes, generated on first use.
    Shapes(ShapesPlan),
}

/// `[data.shapes]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct ShapesPlan {
    pub image_size: usize,
    pub classes: usize,
    pub train_per_class: usize,
    pub val_per_class: usize,
    pub clutter: f64,
    pub occlusion: f64,
    pub seed: u64,
}

/// `data.on_error`, with the key that matters for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnErrorSetting {
    /// Stop.
    Fail,
    /// Leave unreadable images out.
    Skip {
        /// `data.max_skipped`: how many an epoch may skip.
        max: usize,
    },
}

/// `data.workers`: threads that decode and augment.
///
/// `Auto` stays as it is in the plan, so that a resolved configuration does not depend on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// The number of cores, at most 8.
    Auto,
    /// This many; 0 works on the training thread.
    Count(usize),
}

impl Workers {
    /// The number of threads on this machine.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Self::Auto => {
                std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8))
            }
            Self::Count(count) => count,
        }
    }
}

/// `[augment]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct AugmentPlan {
    pub preset: AugmentPreset,
    pub scale: [f64; 2],
    pub ratio: [f64; 2],
    pub hflip: f64,
    pub padding: u32,
    pub interpolation: InterpolationSetting,
    pub mean: [f64; 3],
    pub std: [f64; 3],
    pub crop_pct: f64,
}

/// `[optim]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct OptimPlan {
    pub name: OptimName,
    pub lr: f64,
    pub lr_batch: usize,
    pub betas: [f64; 2],
    pub eps: f64,
    pub weight_decay: f64,
    pub clip_norm: f64,
}

/// `[schedule]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct SchedulePlan {
    pub kind: ScheduleKind,
    pub warmup_epochs: f64,
    pub warmup_lr: f64,
    pub min_lr: f64,
    pub per: SchedulePer,
}

/// `[loss]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct LossPlan {
    pub label_smoothing: f64,
}

/// `[ema]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct EmaPlan {
    pub decay: f64,
}

/// `[train]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct TrainPlan {
    pub epochs: u32,
    pub batch_size: usize,
    pub accumulate: usize,
    pub max_steps: Option<u64>,
    pub device: String,
    pub eval_every: u32,
}

/// `[eval]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct EvalPlan {
    pub batch_size: usize,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct LogPlan {
    pub every_steps: u64,
    pub tensorboard: bool,
}

/// `[checkpoint]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct CheckpointPlan {
    pub every_epochs: u32,
    pub every_steps: u64,
    pub keep_last: usize,
}

/// `[run]`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the keys of the section")]
pub struct RunPlan {
    pub dir: PathBuf,
}
