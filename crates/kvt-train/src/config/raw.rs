//! The configuration as a file writes it: names, types, defaults and meaning of every key.
//!
//! Each key is documented once, here; the JSON schema and the reference page are generated from these comments.
//! A default that depends on other keys is stated by `x-default`. Nothing outside the configuration reads these
//! types: the trainer works on the [`Plan`](super::Plan) made from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choices::{
    AugmentPreset, ClassOrderSetting, ImplementationSetting, InterpolationSetting, OptimName,
    RawAttentionKind, RawDataKind, RawOnError, ScheduleKind, SchedulePer, SelectionSetting,
};

/// Configuration of a `kvt` run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawConfig {
    /// Another file to start from, relative to this one: tables are merged key by key, everything else is replaced.
    /// Only in files, not with `--set`.
    #[schemars(extend("x-default" = "none"))]
    pub(super) base: Option<String>,
    /// Seed of everything random: initial weights, order of the images, augmentation, dropout.
    pub(super) seed: u64,
    pub(super) model: RawModel,
    pub(super) init: RawInit,
    pub(super) data: RawData,
    pub(super) augment: RawAugment,
    pub(super) optim: RawOptim,
    pub(super) schedule: RawSchedule,
    pub(super) loss: RawLoss,
    pub(super) ema: RawEma,
    pub(super) train: RawTrain,
    pub(super) eval: RawEval,
    pub(super) log: RawLog,
    pub(super) checkpoint: RawCheckpoint,
    pub(super) run: RawRun,
}

/// The backbone: a named model and what differs from it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawModel {
    /// Name of the model, as timm has it; `kvt models list` has them.
    #[schemars(extend("x-default" = "required"))]
    pub(super) name: Option<String>,
    /// Height and width of the input in pixels.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) img_size: Option<usize>,
    /// Height and width of a patch in pixels.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) patch_size: Option<usize>,
    /// Pixels from one patch to the next, where patches may overlap: PiT and CvT.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) patch_stride: Option<usize>,
    /// Height and width of an attention window in tokens: Swin.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) window_size: Option<usize>,
    /// Stride of the convolution that makes keys and values: CvT.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) kv_stride: Option<usize>,
    /// Width of a token: one number, or a list with one per stage of the model. With Swin the number of the first
    /// stage, which doubles from stage to stage.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) embed_dim: Option<RawSizes>,
    /// Number of transformer blocks: one number, or a list with one per stage of the model.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) depth: Option<RawSizes>,
    /// Number of attention heads: one number, or a list with one per stage of the model.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) num_heads: Option<RawSizes>,
    /// Hidden width of the MLP as a multiple of `embed_dim`; greater than 0.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) mlp_ratio: Option<f64>,
    /// Number of input channels.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) in_chans: Option<usize>,
    /// Number of outputs of the classifier.
    #[schemars(extend("x-default" = "the number of classes of the data"))]
    pub(super) num_classes: Option<usize>,
    /// Whether the projection to query, key and value has a bias.
    #[schemars(extend("x-default" = "the model's own"))]
    pub(super) qkv_bias: Option<bool>,
    /// Rate of stochastic depth in the last block, rising linearly from 0 in the first; in [0, 1). With CvT in the
    /// last stage alone.
    pub(super) drop_path: f64,
    /// Dropout of attention weights, in [0, 1).
    pub(super) attn_drop: f64,
    pub(super) attention: RawAttention,
}

/// A size for all stages, or one per stage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum RawSizes {
    One(usize),
    PerStage(Vec<usize>),
}

/// What every attention layer does with its scores.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAttention {
    /// Dense attention, or k-NN attention, in which each query keeps only its k best keys.
    pub(super) kind: RawAttentionKind,
    /// How many keys a query keeps: an integer is a count, a float in (0, 1] a share of the keys; or a list with one
    /// entry per stage of the model. Dense attention has no use for it.
    pub(super) neighbors: RawNeighbors,
    /// How keys are ranked. Dense attention has no use for it.
    pub(super) selection: SelectionSetting,
    /// How k-NN attention is computed. Dense attention has no use for it.
    pub(super) implementation: ImplementationSetting,
    /// Divisor of the scaled scores before the softmax, in [1e-6, 1e6].
    pub(super) temperature: f64,
}

impl Default for RawAttention {
    fn default() -> Self {
        Self {
            kind: RawAttentionKind::Dense,
            neighbors: RawNeighbors::One(RawNeighbor::Fraction(0.5)),
            selection: SelectionSetting::DotProduct,
            implementation: ImplementationSetting::Auto,
            temperature: 1.0,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum RawNeighbors {
    One(RawNeighbor),
    PerStage(Vec<RawNeighbor>),
}

/// The order matters: serde takes an integer as a count before it tries a float.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum RawNeighbor {
    Count(i64),
    Fraction(f64),
}

/// What the weights are before training.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawInit {
    /// Weights to start from, a `.safetensors` or `.pth` file; relative to the working directory.
    #[schemars(extend("x-default" = "none: random weights"))]
    pub(super) weights: Option<String>,
    /// Leave the classification head as initialised where its size differs from that of the weights, to train on other
    /// classes; else that is an error.
    pub(super) reset_head: bool,
}

/// Images and how they are read.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawData {
    /// An image folder, or generated shapes.
    pub(super) kind: RawDataKind,
    /// Folder of the data, relative to the working directory; for shapes, where they are generated.
    #[schemars(extend("x-default" = "`data/shapes` for shapes, else required"))]
    pub(super) path: Option<String>,
    /// Sub-folder of the training images.
    pub(super) train: String,
    /// Sub-folder of the validation images.
    pub(super) val: String,
    /// Order of the class folders, which numbers the classes.
    pub(super) class_order: ClassOrderSetting,
    /// Whether each epoch goes through the training images in a new random order.
    pub(super) shuffle: bool,
    /// Whether training leaves out the last batch of an epoch when it is not full.
    pub(super) drop_last: bool,
    /// Threads that decode and augment; `"auto"` is the number of cores, at most 8, and 0 works on the training thread.
    /// The result does not depend on it.
    pub(super) workers: RawWorkers,
    /// Batches that wait in the queue, 1 to 1024.
    pub(super) prefetch: usize,
    /// What to do with an image that cannot be read.
    pub(super) on_error: RawOnError,
    /// How many unreadable images an epoch may skip; only with `on_error = "skip"`.
    pub(super) max_skipped: usize,
    /// Most pixels of an image (width times height). A larger one cannot be read, nor can a file of more than 4 bytes per
    /// pixel of it and 64 MiB, so that no file takes the machine's memory. The default is Pillow's.
    pub(super) max_pixels: u64,
    /// Whether the sizes of the image files are noted in checkpoints and compared on resume, so that other contents under
    /// the same names are noticed.
    pub(super) check_sizes: bool,
    pub(super) shapes: RawShapes,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum RawWorkers {
    Word(RawAuto),
    Count(usize),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) enum RawAuto {
    #[serde(rename = "auto")]
    Auto,
}

impl Default for RawData {
    fn default() -> Self {
        Self {
            kind: RawDataKind::Folder,
            path: None,
            train: "train".to_owned(),
            val: "val".to_owned(),
            class_order: ClassOrderSetting::Byte,
            shuffle: true,
            drop_last: true,
            workers: RawWorkers::Word(RawAuto::Auto),
            prefetch: 4,
            on_error: RawOnError::Fail,
            max_skipped: 100,
            max_pixels: 178_956_970,
            check_sizes: true,
            shapes: RawShapes::default(),
        }
    }
}

/// The generated data set. Ignored unless `data.kind = "shapes"`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawShapes {
    /// Height and width of an image in pixels, 8 to 1024.
    pub(super) image_size: usize,
    /// Number of classes, 2 to 10.
    pub(super) classes: usize,
    /// Training images of each class, 1 to 100000.
    pub(super) train_per_class: usize,
    /// Validation images of each class, 1 to 100000.
    pub(super) val_per_class: usize,
    /// Amount of clutter around the shape, in [0, 1].
    pub(super) clutter: f64,
    /// How much of the shape is covered, in [0, 1]; at 1 up to 60 % of it.
    pub(super) occlusion: f64,
    /// Seed of the images, independent of the run's seed.
    pub(super) seed: u64,
}

impl Default for RawShapes {
    fn default() -> Self {
        Self {
            image_size: 32,
            classes: 10,
            train_per_class: 500,
            val_per_class: 100,
            clutter: 0.5,
            occlusion: 0.3,
            seed: 0,
        }
    }
}

/// From a decoded image to the input of the model.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawAugment {
    /// Random resized crop and flip, random crop with padding and flip, or nothing.
    pub(super) preset: AugmentPreset,
    /// Smallest and largest area of the random resized crop as a share of the image, in (0, 1]; only imagenet.
    pub(super) scale: [f64; 2],
    /// Smallest and largest width / height of the random resized crop; only imagenet.
    pub(super) ratio: [f64; 2],
    /// Probability of a horizontal flip, in [0, 1].
    #[schemars(extend("x-default" = "`0.5`, with none `0.0`"))]
    pub(super) hflip: Option<f64>,
    /// Pixels of black border that the random crop may reach into, at most 65535; only cifar.
    pub(super) padding: u32,
    /// Filter for resizing.
    pub(super) interpolation: InterpolationSetting,
    /// Mean of each channel, subtracted from values in [0, 1]; between -1e6 and 1e6.
    pub(super) mean: [f64; 3],
    /// Standard deviation of each channel, divided by after the mean; in [1e-6, 1e6].
    pub(super) std: [f64; 3],
    /// Evaluation resizes the shorter side to `img_size / crop_pct` and cuts out the centre; in [0.1, 1].
    #[schemars(extend("x-default" = "`0.875` with imagenet, else `1.0`"))]
    pub(super) crop_pct: Option<f64>,
}

impl Default for RawAugment {
    fn default() -> Self {
        Self {
            preset: AugmentPreset::Imagenet,
            scale: [0.08, 1.0],
            ratio: [3.0 / 4.0, 4.0 / 3.0],
            hflip: None,
            padding: 4,
            interpolation: InterpolationSetting::Bicubic,
            mean: [0.485, 0.456, 0.406],
            std: [0.229, 0.224, 0.225],
            crop_pct: None,
        }
    }
}

/// From gradients to an update.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawOptim {
    /// The optimizer.
    pub(super) name: OptimName,
    /// Base learning rate, greater than 0 and at most 1e30.
    pub(super) lr: f64,
    /// The learning rate is `lr * images per update / lr_batch`; 0 leaves `lr` as it is.
    pub(super) lr_batch: usize,
    /// Decay of the first and second moment, each in [0, 1).
    pub(super) betas: [f64; 2],
    /// Added to the denominator of the update, in [1e-30, 1e30].
    pub(super) eps: f64,
    /// Decoupled weight decay; biases and other one-dimensional parameters have none.
    pub(super) weight_decay: f64,
    /// Largest global norm of the gradients; 0 does not clip.
    pub(super) clip_norm: f64,
}

impl Default for RawOptim {
    fn default() -> Self {
        Self {
            name: OptimName::Adamw,
            lr: 5e-4,
            lr_batch: 512,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.05,
            clip_norm: 0.0,
        }
    }
}

/// The learning rate over the run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSchedule {
    /// Shape of the learning rate after the warm-up.
    pub(super) kind: ScheduleKind,
    /// Epochs of linear warm-up; parts of an epoch are allowed.
    pub(super) warmup_epochs: f64,
    /// Learning rate at the start of the warm-up, not scaled by the batch.
    pub(super) warmup_lr: f64,
    /// Learning rate at the end, not scaled by the batch.
    pub(super) min_lr: f64,
    /// How often the learning rate changes.
    pub(super) per: SchedulePer,
}

impl Default for RawSchedule {
    fn default() -> Self {
        Self {
            kind: ScheduleKind::Cosine,
            warmup_epochs: 5.0,
            warmup_lr: 1e-6,
            min_lr: 1e-5,
            per: SchedulePer::Epoch,
        }
    }
}

/// What training minimises: cross-entropy.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLoss {
    /// Share of the target that is spread over all classes, in [0, 1).
    pub(super) label_smoothing: f64,
}

impl Default for RawLoss {
    fn default() -> Self {
        Self {
            label_smoothing: 0.1,
        }
    }
}

/// An exponential moving average (EMA) of the weights, kept beside them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEma {
    /// How much of the average stays at each update, `ema = decay * ema + (1 - decay) * weights`; in [0, 1), DeiT's is
    /// 0.99996. 0 keeps no average.
    pub(super) decay: f64,
}

/// Length, batch and device of training.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawTrain {
    /// Times that training goes through the data, at least 1.
    pub(super) epochs: u32,
    /// Images of one forward pass, 1 to 65536; an update sees `batch_size * accumulate` images.
    pub(super) batch_size: usize,
    /// Forward passes whose gradients are averaged into one update, 1 to 65536.
    pub(super) accumulate: usize,
    /// Ends the run after this many updates, wherever that is.
    #[schemars(extend("x-default" = "none: all epochs"))]
    pub(super) max_steps: Option<u64>,
    /// Device to train on, such as `auto`, `cpu`, `wgpu`, `vulkan:0` or `cuda`; `kvt devices` lists them.
    pub(super) device: String,
    /// Epochs from one evaluation to the next; 0 evaluates only at the end.
    pub(super) eval_every: u32,
}

impl Default for RawTrain {
    fn default() -> Self {
        Self {
            epochs: 300,
            batch_size: 64,
            accumulate: 1,
            max_steps: None,
            device: "auto".to_owned(),
            eval_every: 1,
        }
    }
}

/// Evaluation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEval {
    /// Images of one forward pass, 1 to 131072.
    #[schemars(extend("x-default" = "2 x `train.batch_size`"))]
    pub(super) batch_size: Option<usize>,
}

/// What a run writes down about itself.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawLog {
    /// Updates from one line of `log.jsonl` to the next, at least 1; a line holds their means.
    pub(super) every_steps: u64,
    /// Whether TensorBoard event files are written.
    pub(super) tensorboard: bool,
}

impl Default for RawLog {
    fn default() -> Self {
        Self {
            every_steps: 1,
            tensorboard: true,
        }
    }
}

/// When the state of a run is saved.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawCheckpoint {
    /// Epochs from one checkpoint to the next; 0 saves only at the end and after the best evaluations.
    pub(super) every_epochs: u32,
    /// Updates from one checkpoint to the next, besides those of the epochs; 0 is off.
    pub(super) every_steps: u64,
    /// How many of the latest checkpoints are kept, besides the best; at least 1.
    pub(super) keep_last: usize,
}

impl Default for RawCheckpoint {
    fn default() -> Self {
        Self {
            every_epochs: 1,
            every_steps: 0,
            keep_last: 2,
        }
    }
}

/// The folder of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawRun {
    /// Folder that the run writes into, relative to the working directory.
    #[schemars(extend("x-default" = "`runs/` and the name of the configuration file"))]
    pub(super) dir: Option<String>,
}
