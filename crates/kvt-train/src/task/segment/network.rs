//! The network of segmentation for a plan, as the engine needs it.

use burn::tensor::Device;
use kvt_models::ModelConfig;
use kvt_models::dense::upernet::{CLASSIFIERS, UperNet};
use kvt_models::dense::{DenseKind, Pyramid};
use kvt_models::weights::{LoadReport, StateDict, WeightsError};
use kvt_ops::Key;

use crate::config::Plan;
use crate::error::TrainError;
use crate::task::dense::{DenseNetwork, network_on_pyramid};
use crate::task::size::heads;

impl DenseNetwork for UperNet {
    const WHAT: &'static str = "a segmentation network's";
    const CLASSIFIERS: &'static [&'static str] = &CLASSIFIERS;
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

    fn with_classifier(mut self, weights: &StateDict) -> Result<(Self, LoadReport), WeightsError> {
        let (pyramid, report) = self.pyramid.load(weights, DenseKind::Classifier)?;
        self.pyramid = pyramid;
        Ok((self, report))
    }
}

network_on_pyramid!(UperNet);
