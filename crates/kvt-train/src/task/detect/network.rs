//! The network of detection for a plan, as the engine needs it.

use burn::tensor::Device;
use kvt_models::ModelConfig;
use kvt_models::dense::mask_rcnn::{CLASSIFIERS, MaskRcnn};
use kvt_models::dense::{DenseKind, Pyramid};
use kvt_models::weights::{LoadReport, StateDict, WeightsError};
use kvt_ops::Key;

use crate::config::Plan;
use crate::error::TrainError;
use crate::task::dense::{DenseNetwork, network_on_pyramid};

impl DenseNetwork for MaskRcnn {
    const WHAT: &'static str = "a detection network's";
    const CLASSIFIERS: &'static [&'static str] = &CLASSIFIERS;
    const ROW_PER_CLASS: &'static str = "roi_head.mask_head.conv_logits.weight";

    fn build(
        plan: &Plan,
        model: &ModelConfig,
        classes: usize,
        device: &Device,
    ) -> Result<Self, TrainError> {
        let key = Key::new(plan.seed).named("init");
        let pyramid = Pyramid::new(model, plan.detect.window_padding, device, key)?;
        let config = plan.detect.network(classes);
        let network = MaskRcnn::new(pyramid, config, device, key.named("detect"))?;
        Ok(network.with_precision(plan.train.precision))
    }

    fn with_classifier(mut self, weights: &StateDict) -> Result<(Self, LoadReport), WeightsError> {
        let (pyramid, report) = self.pyramid.load(weights, DenseKind::Classifier)?;
        self.pyramid = pyramid;
        Ok((self, report))
    }
}

network_on_pyramid!(MaskRcnn);
