//! The network of segmentation for a plan, as the engine needs it.

use burn::module::ParamId;
use burn::tensor::Device;
use kvt_models::dense::Pyramid;
use kvt_models::dense::upernet::{CLASSIFIERS, UperNet};
use kvt_models::weights::{StateDict, WeightsError};
use kvt_models::{ModelConfig, Parameter};
use kvt_ops::Key;

use crate::config::Plan;
use crate::error::TrainError;
use crate::recipe::Network;
use crate::task::dense::DenseNetwork;
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

    fn pyramid(&mut self) -> &mut Pyramid {
        &mut self.pyramid
    }
}

impl Network for UperNet {
    fn parameters(&self) -> Vec<Parameter> {
        UperNet::parameters(self)
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
        UperNet::state_dict(self)
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        UperNet::load_state_dict(self, state)
    }
}
