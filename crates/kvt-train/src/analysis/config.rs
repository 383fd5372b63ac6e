//! `[analysis]`: the metrics of the layers during training.

use crate::data::Split;
use kvt_data::schema::section;

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
        pub split: Split = Split::Train;
    }
}
