//! The networks of segmentation and detection for a plan, as the engine needs them.

use burn::tensor::Device;
use kvt_models::ModelConfig;
use kvt_models::dense::Pyramid;
use kvt_models::dense::mask_rcnn::MaskRcnn;
use kvt_models::dense::upernet::UperNet;
use kvt_ops::Key;

use super::DenseNetwork;
use crate::config::Plan;
use crate::error::TrainError;
use crate::task::size::heads;

impl DenseNetwork for UperNet {
    const WHAT: &'static str = "a segmentation network's";
    const ROW_PER_CLASS: &'static str = "decode_head.conv_seg.weight";

    fn build(
        plan: &Plan,
        model: &ModelConfig,
        classes: usize,
        device: &Device,
    ) -> Result<Self, TrainError> {
        let key = Key::new(plan.seed).named("init");
        let pyramid = Pyramid::new(model, plan.segment.window_padding, device, key)?
            .with_precision(plan.train.precision);
        let config = heads(plan, classes);
        let key = key.named("segment");
        Ok(UperNet::new(pyramid, &config, device, key)?)
    }
}

impl DenseNetwork for MaskRcnn {
    const WHAT: &'static str = "a detection network's";
    const ROW_PER_CLASS: &'static str = "roi_head.mask_head.conv_logits.weight";

    fn build(
        plan: &Plan,
        model: &ModelConfig,
        classes: usize,
        device: &Device,
    ) -> Result<Self, TrainError> {
        let key = Key::new(plan.seed).named("init");
        let pyramid = Pyramid::new(model, plan.detect.window_padding, device, key)?
            .with_precision(plan.train.precision);
        let config = plan.detect.with_classes(classes);
        let key = key.named("detect");
        Ok(MaskRcnn::new(pyramid, config, device, key)?)
    }
}
