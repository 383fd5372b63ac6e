//! The network of detection for a plan.

use burn::module::ParamId;
use burn::tensor::Device;
use kvt_models::dense::Pyramid;
use kvt_models::dense::mask_rcnn::{CLASSIFIERS, MaskRcnn};
use kvt_models::weights::{StateDict, WeightsError};
use kvt_models::{ModelConfig, Parameter};
use kvt_ops::Key;

use crate::config::Plan;
use crate::error::TrainError;
use crate::recipe::Network;
use crate::task::dense::DenseNetwork;

/// Builds the network of a plan for objects of `classes` classes, with the plan's seed and precision.
///
/// # Errors
/// If the model has no pyramid, or settings do not describe a network.
pub fn detect_network(
    plan: &Plan,
    model: &ModelConfig,
    classes: usize,
    device: &Device,
) -> Result<MaskRcnn, TrainError> {
    let key = Key::new(plan.seed).named("init");
    let pyramid = Pyramid::new(model, plan.detect.window_padding, device, key)?;
    let config = plan.detect.network(classes);
    let network = MaskRcnn::new(pyramid, config, device, key.named("detect"))?;
    Ok(network.with_precision(plan.train.precision))
}

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
        detect_network(plan, model, classes, device)
    }

    fn pyramid(&mut self) -> &mut Pyramid {
        &mut self.pyramid
    }
}

impl Network for MaskRcnn {
    fn parameters(&self) -> Vec<Parameter> {
        MaskRcnn::parameters(self)
    }

    fn decays(&self, parameter: &Parameter) -> bool {
        MaskRcnn::decays_by_family(self, parameter)
    }

    fn decays_by_name(&self, parameter: &Parameter) -> bool {
        MaskRcnn::decays(self, parameter)
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        MaskRcnn::layer(self, parameter)
    }

    fn layers(&self) -> usize {
        MaskRcnn::layers(self)
    }

    fn frozen(&self) -> Vec<ParamId> {
        MaskRcnn::frozen(self)
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        MaskRcnn::state_dict(self)
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        MaskRcnn::load_state_dict(self, state)
    }
}
