//! A trained network with heads on the maps of a backbone: for segmentation or detection.

use std::path::Path;

use kvt_models::dense::{DenseKind, read_dense};
use kvt_models::weights::{self, StateDict, WeightsError};

use super::{
    Origin, TrainedError, Warn, classes_of_data, configured_weights, device_of, inner, names_of,
    weights_of,
};
use kvt_train::config::Plan;
use kvt_train::device::ResolvedDevice;
use kvt_train::task::{DenseNetwork, load_checkpoint_model, weight_file};

/// A dense network that is ready to predict, with its plan and classes.
#[derive(Debug)]
pub struct TrainedDense<N> {
    /// Its plan.
    pub plan: Plan,
    /// The network, without autodiff.
    pub network: N,
    /// Where it is.
    pub device: ResolvedDevice,
    /// The class names in label order.
    pub classes: Vec<String>,
}

impl<N: DenseNetwork> TrainedDense<N> {
    /// A network whose weights are finite.
    ///
    /// # Errors
    /// If it is of another task, something that it consists of cannot be read, or they do not match.
    pub fn load(origin: &Origin, warn: Warn<'_>) -> Result<Self, TrainedError> {
        let (plan, run) = origin.open(true, warn)?;
        let trained = match run {
            Some((run, checkpoint, choice)) => {
                let trained = Self::random(plan, run.read_classes()?, warn)?;
                let weights = weights_of(&trained.plan, choice);
                let (network, warning) =
                    load_checkpoint_model(&run, checkpoint, weights, trained.network)?;
                if let Some(warning) = warning {
                    warn(&warning);
                }
                Self { network, ..trained }
            }
            None => Self::configured(plan, warn)?,
        };
        if let Some((name, count)) = trained.network.state_dict()?.not_finite().next() {
            let name = name.to_owned();
            return Err(WeightsError::NotFinite { name, count }.into());
        }
        Ok(trained)
    }

    /// A network with random weights.
    fn random(plan: Plan, classes: Vec<String>, warn: Warn<'_>) -> Result<Self, TrainedError> {
        let device = device_of(&plan, warn)?;
        let config = plan.model.backbone()?;
        Ok(Self {
            network: N::build(&plan, &config, classes.len(), &inner(&device))?,
            plan,
            device,
            classes,
        })
    }

    /// The network of a plan with the weights of `init.weights`, which must have its heads.
    fn configured(plan: Plan, warn: Warn<'_>) -> Result<Self, TrainedError> {
        let path = configured_weights(&plan)?;
        let config = plan.model.backbone()?;
        let read = read_dense(weights::read(&weight_file(&path)?)?, &config)?;
        if read.kind == DenseKind::Classifier {
            // Random heads would be evaluated as if they had been trained.
            return Err(TrainedError::NoHeads(path));
        }
        let classes = classes_of_data(&plan).unwrap_or_else(|| numbered::<N>(&read.state));
        let trained = Self::random(plan, classes, warn)?;
        let (network, unused) = trained.network.load_state_dict(&read.state)?;
        drop(read);
        for name in unused {
            warn(&format!("`{name}` of the weights is not used"));
        }
        Ok(Self { network, ..trained })
    }

    /// The same with the class names of a file, if one is given.
    ///
    /// # Errors
    /// If it cannot be read, or names another number of classes.
    pub fn named(self, file: Option<&Path>) -> Result<Self, TrainedError> {
        let names = file.map(|path| names_of(path, self.classes.len()));
        let classes = names.transpose()?.unwrap_or(self.classes);
        Ok(Self { classes, ..self })
    }
}

/// The classes of the weights of a network, by their numbers: without the data nothing else is known of them.
fn numbered<N: DenseNetwork>(state: &StateDict) -> Vec<String> {
    let weight = state.get(N::ROW_PER_CLASS);
    // Without that layer, loading says what is missing.
    let classes = weight.and_then(|data| data.shape().first().copied());
    (0..classes.unwrap_or(1))
        .map(|class| class.to_string())
        .collect()
}
