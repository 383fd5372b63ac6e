//! `[segment]`: the settings of semantic segmentation.

use kvt_data::schema::section;
use kvt_models::dense::WindowPadding;
use kvt_ops::PixelAverage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

section! {
    /// The class of every pixel by UPerNet (Xiao et al., 2018, <https://arxiv.org/abs/1807.10221>) on a backbone with four stages,
    /// with `task = "segment"`. The defaults are those of Swin on ADE20K.
    pub struct SegmentConfig {
        /// Channels of the head.
        pub channels: usize = 512, "x-range" = "[1, 65536]";
        /// Cells per side of the averages that the head takes of the last map.
        pub pool_scales: Vec<usize> = vec![1, 2, 3, 6], "x-range" = "[1, 64]";
        /// Probability that a channel is dropped before the last layer of each head.
        pub dropout: f64 = 0.1, "x-range" = "[0, 1)";
        /// Stage of the backbone, from 1, whose map an auxiliary head classifies in training; 0 is none.
        pub aux_stage: usize = 3, "x-range" = "[0, 4]";
        /// Channels of the auxiliary head.
        pub aux_channels: usize = 256, "x-range" = "[1, 65536]";
        /// Weight of the auxiliary head's loss.
        pub aux_weight: f64 = 0.4, "x-range" = "[0, 1e30]";
        /// The pixels whose number divides the sum of the losses.
        pub average: Average = Average::All;
        /// Whether queries see the padding of windows that reach over the border of a map.
        pub window_padding: WindowPadding = WindowPadding::Seen, "x-default" = "`\"seen\"`, with Twins `\"hidden\"`";
        /// What an evaluation gives to the network.
        pub eval: SegmentEval = SegmentEval::Whole;
        /// Height and width of the windows of `slide`.
        pub eval_crop: [usize; 2] = [512, 512], "x-range" = "[1, 65536]", "x-default" = "`dense.crop`";
        /// Rows and columns from one window of `slide` to the next.
        pub eval_stride: [usize; 2] = [341, 341], "x-range" = "[1, 65536]", "x-default" = "two thirds of `segment.eval_crop`";
    }
}

/// The pixels whose number divides the sum of the losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// All, ignored ones included: MMSegmentation's.
    All,
    /// Those that are not ignored.
    Valid,
}

impl From<Average> for PixelAverage {
    fn from(average: Average) -> Self {
        match average {
            Average::All => Self::All,
            Average::Valid => Self::Valid,
        }
    }
}

/// What an evaluation gives to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SegmentEval {
    /// The image.
    Whole,
    /// Windows of `segment.eval_crop`, `segment.eval_stride` apart: the logits of a pixel are the mean over its windows.
    Slide,
}
