//! Size and cost of a plan's network for segmentation or detection, computed without building it.

use kvt_models::dense::upernet::UperNetConfig;
use kvt_models::{ModelConfig, Summary};

use crate::config::Plan;
use crate::error::TrainError;
use crate::task::TaskKind;

/// Pixels to a token of the first map, and of the last one: sides are multiples of the latter.
const FINEST: usize = 4;
const COARSEST: usize = 32;

/// Size and cost of a network for segmentation or detection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseSize {
    /// Trainable parameters, with all heads.
    pub params: usize,
    /// Multiply-accumulate operations of an image of [`side`](Self::side), as in evaluation.
    pub macs: u64,
    /// The side of a square image about as large as `dense.crop`; with detection as the image that is counted.
    pub side: usize,
    /// The backbone as a classifier of one class, for such an image.
    pub backbone: Summary,
}

impl DenseSize {
    /// The network of a plan with so many classes.
    ///
    /// # Errors
    /// If the plan's model does not exist or has no pyramid.
    pub fn of(plan: &Plan, classes: usize) -> Result<Self, TrainError> {
        Self::at(plan, classes, sides_of(plan))
    }

    /// The network of a plan with so many classes, for images of this height and width.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn at(
        plan: &Plan,
        classes: usize,
        (height, width): (usize, usize),
    ) -> Result<Self, TrainError> {
        let is_detection = plan.task == TaskKind::Detect;
        let side = ((height * width).isqrt() / COARSEST).max(1) * COARSEST;
        let mut section = plan.model.clone();
        section.overrides.num_classes = Some(1);
        section.overrides.img_size = Some(side.into());
        // As in the built network, windows are not smaller than they are said to be, however small a map is.
        let config = section.config(None)?;
        let padding = if is_detection {
            plan.detect.window_padding
        } else {
            plan.segment.window_padding
        };
        let config = config.dense(padding)?;
        let backbone = config.summary();
        let channels = config.pyramid_channels()?;
        let map = |stage: usize| {
            let tokens = (side / FINEST) >> stage;
            [channels.get(stage).copied().unwrap_or(0), tokens, tokens]
        };
        let maps = [0, 1, 2, 3].map(map);
        let (heads, macs) = if is_detection {
            plan.detect.with_classes(classes).cost(maps)
        } else {
            heads(plan, classes).cost(maps)
        };
        // The classifier's last norm and its head of one class are not there; each map has a norm.
        let last = channels.last().copied().unwrap_or(0);
        let classifier = 2 * last + last + 1;
        let norms: usize = channels.iter().map(|channels| 2 * channels).sum();
        Ok(Self {
            params: backbone.params - classifier + norms + heads,
            macs: backbone.macs.total() - last as u64 + macs,
            side,
            backbone,
        })
    }
}

/// Height and width of a training image: of a crop, or with detection of an image of 4 to 3 that is resized for an evaluation.
pub fn sides_of(plan: &Plan) -> (usize, usize) {
    if plan.task != TaskKind::Detect {
        return plan.dense.crop.map(|side| side as usize).into();
    }
    let (short, most) = limits(plan);
    padded(short, (short * 4 / 3).min(most))
}

/// Height and width of the largest training image: with detection of one whose sides both reach their limits.
pub fn largest_sides_of(plan: &Plan) -> (usize, usize) {
    if plan.task != TaskKind::Detect {
        return sides_of(plan);
    }
    let (short, most) = limits(plan);
    padded(short, most)
}

/// What the shorter and the longer side of an image are resized to at most.
fn limits(plan: &Plan) -> (usize, usize) {
    let sides = &plan.multiscale;
    (sides.largest() as usize, sides.max as usize)
}

fn padded(height: usize, width: usize) -> (usize, usize) {
    let padded = |side: usize| side.div_ceil(COARSEST) * COARSEST;
    (padded(height), padded(width))
}

/// What a plan's model is at the size of its images: of segmentation, the backbone for a crop.
pub fn summary_of(plan: &Plan, model: &ModelConfig) -> Summary {
    if plan.task == TaskKind::Segment
        && let Ok(size) = DenseSize::of(plan, 1)
    {
        return size.backbone;
    }
    model.summary()
}

/// The heads of a plan for segmentation.
pub(super) fn heads(plan: &Plan, classes: usize) -> UperNetConfig {
    let segment = &plan.segment;
    UperNetConfig {
        num_classes: classes,
        channels: segment.channels,
        pool_scales: segment.pool_scales.clone(),
        dropout: segment.dropout,
        aux_stage: segment.aux_stage,
        aux_channels: segment.aux_channels,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;
    use kvt_models::Network as _;
    use kvt_models::dense::mask_rcnn::MaskRcnn;
    use kvt_models::dense::upernet::UperNet;

    use super::*;
    use crate::task::DenseNetwork;

    fn plan(text: &str) -> Plan {
        toml::from_str(text).unwrap()
    }

    /// The published UPerNet with Swin-Tiny: 59,941,862 parameters, 236 G operations at 512 x 512.
    #[test]
    fn swin_tiny_has_the_published_size() {
        let plan = plan("task = \"segment\"\n[model]\nname = \"swin_tiny_patch4_window7_224\"\n");
        let size = DenseSize::of(&plan, 150).unwrap();
        assert_eq!(size.params, 59_941_862);
        let macs = size.macs as f64;
        assert!((232e9..240e9).contains(&macs), "{macs}");
        assert_eq!(size.side, 512);
    }

    /// The published Mask R-CNN with Swin-Tiny: 47,794,602 parameters, 267 G operations at 800 x 1280, a
    /// fifth of them for boxes and masks whatever the size; here 84 % as many pixels.
    #[test]
    fn a_detector_has_the_published_size() {
        let plan = plan("task = \"detect\"\n[model]\nname = \"swin_tiny_patch4_window7_224\"\n");
        let size = DenseSize::of(&plan, 80).unwrap();
        assert_eq!(size.params, 47_794_602);
        let macs = size.macs as f64;
        assert!((215e9..260e9).contains(&macs), "{macs}");
    }

    #[test]
    fn the_size_is_that_of_the_built_network() {
        for model in [
            "name = \"swin_tiny_patch4_window7_224\"\nwindow_size = 4\nembed_dim = 8",
            "name = \"twins_svt_small\"\nwindow_size = 4\nsr_ratio = [4, 2, 1, 1]\nembed_dim = [8, 16, 32, 64]",
        ] {
            let plan = plan(&format!(
                "task = \"segment\"\n[model]\n{model}\nimg_size = 64\ndepth = [2, 2, 2, 2]\n\
                 num_heads = [1, 2, 4, 8]\n[segment]\nchannels = 12\naux_channels = 6\n[dense]\nscale = [64, 64]\ncrop = [64, 64]\n"
            ));
            let config = plan.model.backbone().unwrap();
            let network = UperNet::build(&plan, &config, 5, &Device::flex()).unwrap();
            let parameters = network.parameters().into_iter();
            let built: usize = parameters
                .map(|parameter| parameter.shape.iter().product::<usize>())
                .sum();
            assert_eq!(DenseSize::of(&plan, 5).unwrap().params, built, "{model}");
        }
    }

    #[test]
    fn the_size_is_that_of_the_built_detector() {
        let plan = plan(
            "task = \"detect\"\n[model]\nname = \"swin_tiny_patch4_window7_224\"\nwindow_size = 4\nembed_dim = 8\nimg_size = 64\n\
             depth = [1, 1, 2, 1]\nnum_heads = [1, 2, 2, 4]\n[detect]\nchannels = 8\nhidden = 16\n[multiscale]\nsizes = [64]\nmax = 64\n",
        );
        let config = plan.model.backbone().unwrap();
        let network = MaskRcnn::build(&plan, &config, 5, &Device::flex()).unwrap();
        let parameters = network.parameters().into_iter();
        let built: usize = parameters
            .map(|parameter| parameter.shape.iter().product::<usize>())
            .sum();
        assert_eq!(DenseSize::of(&plan, 5).unwrap().params, built);
    }

    /// An image of 640 x 480 becomes one of 1066 x 800, and none is larger than 1333 x 800.
    #[test]
    fn an_image_of_coco_is_padded() {
        let plan = plan("task = \"detect\"\n");
        assert_eq!(sides_of(&plan), (800, 1088));
        assert_eq!(largest_sides_of(&plan), (800, 1344));
    }
}
