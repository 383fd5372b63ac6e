//! `[analysis]`: the metrics of the layers during training.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::Split;
use kvt_data::schema::section;

/// Which images are looked at, without augmentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnalysisSplit {
    /// Those of the training split, as in the paper's Figure 3.
    #[default]
    Train,
    /// Those of the validation split.
    Val,
}

impl From<AnalysisSplit> for Split {
    fn from(split: AnalysisSplit) -> Self {
        match split {
            AnalysisSplit::Train => Self::Train,
            AnalysisSplit::Val => Self::Val,
        }
    }
}

section! {
    /// Metrics of each layer during training: cosine similarity of the tokens, spread of the attention weights, residual ratios,
    /// nonlocality (<https://arxiv.org/abs/2106.00515>, Figures 2 and 3), in the log and in `layers.csv`.
    #[schemars(extend("x-resume" = "free"))]
    pub struct AnalysisConfig {
        /// Epochs from one analysis to the next; 0 is off.
        pub every: u32 = 0;
        /// Images, at equal distances in the split, that are looked at; 0 is all of them.
        pub images: usize = 2000;
        /// The split of the images.
        pub split: AnalysisSplit = AnalysisSplit::Train;
    }
}
