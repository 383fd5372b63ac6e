//! The network of detection for a plan, as the engine needs it.

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

    fn pyramid(&mut self) -> &mut Pyramid {
        &mut self.pyramid
    }
}

impl Network for MaskRcnn {
    fn parameters(&self) -> Vec<Parameter> {
        MaskRcnn::parameters(self)
    }

    fn decays(&self, parameter: &Parameter) -> bool {
        self.pyramid.decays(parameter)
    }

    fn decays_by_name(&self, parameter: &Parameter) -> bool {
        self.pyramid.decays_by_name(parameter)
    }

    fn layer(&self, parameter: &Parameter) -> usize {
        self.pyramid.layer(parameter)
    }

    fn layers(&self) -> usize {
        self.pyramid.backbone.layers()
    }

    fn frozen(&self) -> Vec<ParamId> {
        self.pyramid.frozen()
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        MaskRcnn::state_dict(self)
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        MaskRcnn::load_state_dict(self, state)
    }
}
