//! Closed sets of words that a configuration may use; the file and the plan share them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! choice {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        $vis enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// The word that stands for this choice in a file.
            #[must_use]
            $vis fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

choice! {
    /// How keys are ranked before the best are kept.
    pub enum SelectionSetting {
        /// By the scaled dot product, the paper's fast version.
        DotProduct = "dot-product",
        /// By the Euclidean distance, the paper's slow version.
        Euclidean = "euclidean",
    }
}

choice! {
    /// How k-NN attention is computed.
    pub enum ImplementationSetting {
        /// Fused for dot products, masked for distances.
        Auto = "auto",
        /// One fused operation.
        Fused = "fused",
        /// The same, and a GPU never writes a score to its memory: less memory, for time.
        Flash = "flash",
        /// Full score matrix, dropped keys masked out.
        Masked = "masked",
        /// Kept keys and values gathered into smaller matrices.
        Gathered = "gathered",
    }
}

choice! {
    /// Order of the class folders, which numbers the classes.
    pub enum ClassOrderSetting {
        /// By bytes, as PyTorch's image folder does.
        Byte = "byte",
        /// Digits by their value: `2` before `10`.
        Natural = "natural",
    }
}

choice! {
    /// A set of training augmentations.
    pub enum AugmentPreset {
        /// Random resized crop and flip.
        Imagenet = "imagenet",
        /// Random crop with padding and flip.
        Cifar = "cifar",
        /// Resize only where the size differs.
        None = "none",
    }
}

choice! {
    /// Filter for resizing images.
    pub enum InterpolationSetting {
        /// Bicubic.
        Bicubic = "bicubic",
        /// Bilinear.
        Bilinear = "bilinear",
    }
}

choice! {
    /// The optimizer.
    pub enum OptimName {
        /// Adam with decoupled weight decay.
        Adamw = "adamw",
    }
}

choice! {
    /// Shape of the learning rate after the warm-up.
    pub enum ScheduleKind {
        /// Half a cosine from `optim.lr` to `schedule.min_lr`.
        Cosine = "cosine",
        /// Stays at `optim.lr`.
        Constant = "constant",
    }
}

choice! {
    /// How often the learning rate changes.
    pub enum SchedulePer {
        /// At the start of each epoch.
        Epoch = "epoch",
        /// At each optimizer update.
        Step = "step",
    }
}

choice! {
    /// The kind of attention, as a file names it.
    pub(super) enum RawAttentionKind {
        /// Every query sees every key.
        Dense = "dense",
        /// Each query keeps only its k best keys.
        Knn = "knn",
    }
}

choice! {
    /// The kind of data, as a file names it.
    pub(super) enum RawDataKind {
        /// An image folder: `<path>/<train>/<class>/*`.
        Folder = "folder",
        /// Coloured shapes, generated on first use.
        Shapes = "shapes",
    }
}

choice! {
    /// What to do with an image that cannot be read, as a file names it.
    pub(super) enum RawOnError {
        /// Stop.
        Fail = "fail",
        /// Leave the image out, up to `data.max_skipped`.
        Skip = "skip",
    }
}
