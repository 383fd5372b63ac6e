//! Errors in the configuration of a model or in its input.

use kvt_attention::AttentionError;

use crate::family::img_size::ImgSize;

/// An invalid configuration, or images that do not fit a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// There is no model of this name.
    #[error("no model is called `{name}`: {hint}")]
    UnknownModel {
        /// The requested name.
        name: String,
        /// Similar names, or all of them.
        hint: String,
    },
    /// A number is outside its range.
    #[error("`{field}` is {value}: expected {expected}")]
    OutOfRange {
        /// The field of the configuration.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The allowed range, in words.
        expected: &'static str,
    },
    /// A size that another does not divide.
    #[error("`{field}` {value} is not a multiple of {divisor}: {reason}")]
    NotMultiple {
        /// The field of the configuration.
        field: &'static str,
        /// Its value.
        value: usize,
        /// What must divide it, in words: another field and its value, or a number.
        divisor: String,
        /// The reason, or the values that are multiples.
        reason: String,
    },
    /// Channels that change between stages without a layer that changes them.
    #[error(
        "`embed_dim` is {embed_dim}, and {last} in the last stage: only the stage of outlookers may have a different number of channels than later stages"
    )]
    ChannelsChange {
        /// Channels of a token in a stage after the outlookers.
        embed_dim: usize,
        /// Channels of a token in the last stage.
        last: usize,
    },
    /// A classifier that reads what the model does not have: what it needs.
    #[error("`pool` needs {0}: use another")]
    Pool(&'static str),
    /// An invalid attention.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// A list of attentions that fits neither "one for all" nor "one per stage".
    #[error(
        "`neighbors` has {given} entries, but the model has {stages}: give one entry for all stages, or one per stage"
    )]
    AttentionCount {
        /// Entries given.
        given: usize,
        /// The stages with their key counts.
        stages: String,
    },
    /// A list of so many attentions for a T2T-ViT with Performers, which choose no keys.
    #[error(
        "`neighbors` has {0} entries, but only `blocks` takes one: the Performers of `tokens_to_token` make no scores to choose keys by; give one entry, or use token transformers, as in `t2t_vit_t_14`"
    )]
    NoScores(usize),
    /// A change to something that this family of models does not have.
    #[error("`{field}` does not apply to {family}: remove it")]
    NotApplicable {
        /// The field of the configuration.
        field: &'static str,
        /// The family of models.
        family: &'static str,
    },
    /// Sizes of a stage that do not fit together, or an attention where it cannot be used.
    #[error("in {place}: {problem}")]
    Within {
        /// The stage in quotes, by the name of its modules; of an attention that cannot be used also the family.
        place: String,
        /// What does not fit; part of the message, and therefore not a source.
        problem: Box<ModelError>,
    },
    /// A list that is required because the number of stages differs from the model's own.
    #[error(
        "`{field}` is needed, since `depth` asks for {stages} stages and the model has {own}: give one entry for all stages, or one per stage"
    )]
    StageListMissing {
        /// The field of the configuration.
        field: &'static str,
        /// Requested stages.
        stages: usize,
        /// Stages that the model of that name has.
        own: usize,
    },
    /// A list of the wrong length.
    #[error("`{field}` has {given} entries: expected {expected}")]
    ListLength {
        /// The field of the configuration.
        field: &'static str,
        /// Entries given.
        given: usize,
        /// The expected number of entries and their meaning, in words.
        expected: String,
    },
    /// An image too small for the model.
    #[error("`img_size` {img_size} is too small for {family}: the least is {least}")]
    ImageTooSmall {
        /// Side of the image in pixels.
        img_size: usize,
        /// The family of models.
        family: &'static str,
        /// The minimum side, in pixels.
        least: usize,
    },
    /// A text that is no size of images.
    #[error("`{0}` is no size: expected one number of pixels, or height x width as in `224x320`")]
    NoSize(String),
    /// Images that are not square, of a family that takes no others.
    #[error(
        "`img_size` is [{height}, {width}], but {family} takes square images only: give one number, such as {side}, or take a model of the family ViT"
    )]
    NotSquare {
        /// Height of the images in pixels.
        height: usize,
        /// Width of the images in pixels.
        width: usize,
        /// A side that a square could have.
        side: usize,
        /// The family of models.
        family: &'static str,
    },
    /// Weights of a run with images that are not square, for a model with learned positions and images of another size.
    #[error(
        "the weights are of a run with images of {own:?}, and learned positions of images that are not square are not resized to {model:?}: keep `model.img_size = {own:?}`"
    )]
    OtherRectangle {
        /// Height and width of the run's images in pixels.
        own: [usize; 2],
        /// Those of the model.
        model: [usize; 2],
    },
    /// Images of a size that the backbone does not support.
    #[error("images of {height} x {width} pixels do not fit {family}: expected {expected}")]
    ImageSize {
        /// Height of the images in pixels.
        height: usize,
        /// Width of the images in pixels.
        width: usize,
        /// The family of models.
        family: &'static str,
        /// The sizes that it supports, in words.
        expected: String,
    },
    /// LoRA of a layer that the model does not have.
    #[error("`lora.layers` has `{entry}`, which is in the name of no linear layer: {layers}")]
    LoraLayer {
        /// The entry.
        entry: String,
        /// Those that there are, in words.
        layers: String,
    },
    /// LoRA of a rank that is none of a weight.
    #[error(
        "`lora.rank` is {rank}, but the weight of `{layer}` is {} x {}: expected 1 to {}", shape[0], shape[1], shape[0].min(shape[1])
    )]
    LoraRank {
        /// The rank.
        rank: usize,
        /// The first layer that it does not fit.
        layer: String,
        /// Its inputs and outputs.
        shape: [usize; 2],
    },
    /// Training in which batch norms would see one value per channel.
    #[error(
        "a batch norm of {images} image has one value per channel where a map is pooled to one cell: train with at least 2 images in a micro-batch"
    )]
    OneValue {
        /// Images that a batch norm sees.
        images: usize,
    },
    /// A model without the maps that a dense network needs.
    #[error(
        "`{model}` has {maps}, but a dense network needs four, from a quarter of the image to a thirty-second: take a Swin or a Twins of four stages"
    )]
    NoPyramid {
        /// The model.
        model: String,
        /// The maps that it has, in words.
        maps: String,
    },
    /// Images of another shape than the model's.
    #[error(
        "images have shape {found:?}, but the model takes [batch, {in_chans}, {}, {}]: resize the images, or set `img_size` and `in_chans`", img_size.height, img_size.width
    )]
    InputShape {
        /// Shape of the images, `[batch, channels, height, width]`.
        found: [usize; 4],
        /// Channels the model takes.
        in_chans: usize,
        /// Size of the images the model takes.
        img_size: ImgSize,
    },
}

impl ModelError {
    /// Adds the family in which an attention cannot be used.
    pub(crate) fn in_family(self, family: &str) -> Self {
        match self {
            Self::Within { place, problem } if problem.is_misplaced() => Self::Within {
                place: format!("{place} of {family}"),
                problem,
            },
            problem if problem.is_misplaced() => problem.within(family.to_owned()),
            other => other,
        }
    }

    fn is_misplaced(&self) -> bool {
        matches!(self, Self::Attention(AttentionError::Misplaced { .. }))
    }

    /// Adds the stage.
    pub(crate) fn in_stage(self, stage: impl Into<String>) -> Self {
        let stage: String = stage.into();
        self.within(format!("`{stage}`"))
    }

    fn within(self, place: String) -> Self {
        Self::Within {
            place,
            problem: Box::new(self),
        }
    }
}
