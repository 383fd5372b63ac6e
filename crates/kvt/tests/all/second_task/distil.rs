//! A student learns what its own average says: DINO in small.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use burn::module::{Module, Param};
use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::weights::{LoadOptions, Outcome, StateDict, WeightsError};
use kvt_models::{Model, ModelConfig, Network, Parameter};
use kvt_ops::Phase;
use kvt_train::augment::{AugmentConfig, Preset, Transform};
use kvt_train::config::Plan;
use kvt_train::data::{DataError, DeviceBatch, Prepare, Split};
use kvt_train::engine::TrainError;
use kvt_train::recipe::{Ema, Gradients, Position, cross_entropy};
use kvt_train::run::{Metric, Metrics};
use kvt_train::splits::Splits;
use kvt_train::task::{EvalData, Measured, Setup, Task, build_model};

/// Outputs of the backbone, which is a classifier of three classes, and of the last layer.
pub(super) const FEATURES: usize = 3;
pub(super) const OUTPUTS: usize = 4;

/// A backbone and a layer after it.
#[derive(Module, Debug)]
pub(super) struct Student {
    pub(super) backbone: Model,
    pub(super) last_layer: Param<Tensor<2>>,
}

impl Student {
    fn forward(&self, images: Tensor<4>, phase: Phase) -> Tensor<2> {
        let features = self.backbone.forward(images, phase);
        features.matmul(self.last_layer.val())
    }
}

pub(super) const LAST_LAYER: &str = "last_layer.weight";

impl Network for Student {
    fn parameters(&self) -> Vec<Parameter> {
        let backbone = self.backbone.parameters().into_iter();
        let backbone = backbone.map(|parameter| Parameter {
            name: format!("backbone.{}", parameter.name),
            ..parameter
        });
        let last_layer = Parameter {
            name: LAST_LAYER.to_owned(),
            id: self.last_layer.id,
            shape: vec![FEATURES, OUTPUTS],
        };
        backbone.chain([last_layer]).collect()
    }

    /// As in DINO: whatever has more than one dimension.
    fn decays(&self, parameter: &Parameter) -> bool {
        parameter.shape.len() > 1
    }

    fn state_dict(&self) -> Result<StateDict, WeightsError> {
        let backbone = StateDict::from_model(&self.backbone)?.into_iter();
        let backbone = backbone.map(|(name, data)| (format!("backbone.{name}"), data));
        let last_layer = self.last_layer.val().to_data();
        Ok(backbone
            .chain([(LAST_LAYER.to_owned(), last_layer)])
            .collect())
    }

    fn load_state_dict(self, state: &StateDict) -> Result<(Self, Vec<String>), WeightsError> {
        let backbone = state.iter().filter_map(|(name, data)| {
            let name = name.strip_prefix("backbone.")?;
            Some((name.to_owned(), data.clone()))
        });
        let (backbone, report) = self
            .backbone
            .load(&backbone.collect(), LoadOptions::default())?;
        let last_layer = self.last_layer.map(|old| {
            let trained = old.is_require_grad();
            let data = state.get(LAST_LAYER).unwrap().clone();
            Tensor::from_data(data, &old.device()).set_require_grad(trained)
        });
        let student = Self {
            backbone,
            last_layer,
        };
        let unused = report.names(Outcome::Unused).map(str::to_owned).collect();
        Ok((student, unused))
    }
}

/// The student learns what the teacher, an average of it, says of the other view.
pub(super) struct Distil {
    teacher: Option<Ema<Student>>,
    /// The mean of the teacher's outputs, `[OUTPUTS]`, without autodiff.
    centre: Tensor<1>,
    /// The file of a checkpoint that holds it.
    pub(super) centre_file: &'static str,
    /// The update whose loss is not a number, and what it was computed on.
    fails: Option<(u64, Seen)>,
}

/// Tensors that a loss was computed on.
pub(super) type Seen = Arc<Mutex<Vec<TensorData>>>;

thread_local! {
    /// The update that fails in the runs that this thread starts.
    pub(super) static FAILS: RefCell<Option<(u64, Seen)>> = const { RefCell::new(None) };
}

/// The lowest entropy is the best.
const ENTROPY: Metric = Metric {
    name: "entropy",
    title: "entropy",
    percent: false,
    higher: false,
};

impl Distil {
    pub(super) fn new(student: &Student, device: &Device) -> Self {
        Self {
            teacher: Some(Ema::new(student, [])),
            centre: Tensor::zeros([OUTPUTS], &device.clone().inner()),
            centre_file: "centre",
            fails: FAILS.with_borrow(Clone::clone),
        }
    }

    fn teacher(&self) -> &Student {
        self.teacher.as_ref().unwrap().network()
    }
}

impl Task for Distil {
    type Network = Student;
    type Target = ();

    const METRICS: &'static [Metric] = &[ENTROPY];
    const BEST: Metric = ENTROPY;

    /// Two views of each image: one as it is, and one with a random crop.
    fn views(_: &Plan, size: (usize, usize)) -> Result<Vec<Arc<Transform>>, DataError> {
        let transform = |preset| {
            let config = AugmentConfig {
                preset,
                mean: vec![0.5; 3],
                std: vec![0.25; 3],
                scale: [0.4, 1.0],
                hflip: 0.5,
                padding: 0,
                ..AugmentConfig::default()
            };
            Transform::train(&config, size).map(Arc::new)
        };
        Ok(vec![transform(Preset::None)?, transform(Preset::Imagenet)?])
    }

    fn model(plan: &Plan, _: &Splits) -> Result<ModelConfig, TrainError> {
        plan.model.config(Some(FEATURES))
    }

    fn start(setup: &mut Setup<'_>) -> Result<(Self, Student), TrainError> {
        let device = setup.device;
        let values: Vec<f32> = (0..FEATURES * OUTPUTS).map(|i| (i as f32).sin()).collect();
        let last_layer = TensorData::new(values, [FEATURES, OUTPUTS]);
        let student = Student {
            backbone: build_model(setup.plan, setup.model, device)?,
            last_layer: Param::from_tensor(Tensor::from_data(last_layer, device)),
        };
        Ok((Self::new(&student, device), student))
    }

    fn prepare(plan: &Plan, splits: &Splits) -> Result<Arc<dyn Prepare<()>>, DataError> {
        Ok(splits.train_views(plan, |_| ()))
    }

    fn loss(
        &mut self,
        student: &Student,
        batch: DeviceBatch<()>,
        at: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        assert_eq!(batch.views.len(), 2);
        assert_eq!(batch.targets.len(), batch.indices.len());
        let outputs = |view: &Tensor<4>| self.teacher().forward(view.clone().inner(), Phase::Eval);
        let teacher = [outputs(&batch.views[0]), outputs(&batch.views[1])];
        let centre = self.centre.clone().unsqueeze::<2>();
        let mut loss = Tensor::zeros([1], &batch.views[0].device());
        for (number, output) in teacher.iter().enumerate() {
            let targets = softmax((output.clone() - centre.clone()) / 0.5, 1).autodiff();
            let other = batch.views[1 - number].clone();
            let logits = student.forward(other, phase.child(number as u64));
            loss = loss + cross_entropy(logits, targets);
        }
        let [first, second] = teacher;
        let mean = Tensor::cat(vec![first, second], 0)
            .mean_dim(0)
            .squeeze_dim(0);
        self.centre = self.centre.clone() * 0.9 + mean * 0.1;
        let fails = self.fails.as_ref().filter(|(step, _)| *step == at.step);
        if let Some((_, seen)) = fails {
            let views = batch.views.iter().map(|view| view.to_data());
            seen.lock().unwrap().extend(views);
            loss = loss * f64::NAN;
        }
        Ok(loss)
    }

    fn before_clip(&self, gradients: &mut Gradients, student: &Student, at: Position) {
        if at.epoch == 0 {
            gradients.retain(|id| id != student.last_layer.id);
        }
    }

    fn after_update(&mut self, student: &Student, at: Position) {
        let momentum = 0.5 + 0.5 * (at.step as f64 / 9.0);
        let teacher = self.teacher.take();
        self.teacher = teacher.map(|teacher| teacher.update(student, momentum));
    }

    fn state(&self) -> Result<Vec<(&'static str, StateDict)>, TrainError> {
        let centre = [("centre".to_owned(), self.centre.to_data())];
        Ok(vec![
            ("teacher", self.teacher().state_dict()?),
            (self.centre_file, centre.into_iter().collect()),
        ])
    }

    fn load_state(
        &mut self,
        read: &dyn Fn(&str) -> Result<StateDict, TrainError>,
    ) -> Result<(), TrainError> {
        let state = read("teacher")?;
        let teacher = self.teacher.take().unwrap();
        let loaded = teacher.restore(|teacher| teacher.load_state_dict(&state).map(|(t, _)| t))?;
        self.teacher = Some(loaded);
        let centre = read(self.centre_file)?.get("centre").unwrap().clone();
        self.centre = Tensor::from_data(centre, &self.centre.device());
        Ok(())
    }

    /// The mean entropy of what the teacher says of both splits.
    fn evaluate(
        &self,
        student: &Student,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError> {
        let mut entropy = 0.0;
        let mut images = 0;
        let train: Vec<_> = data.some(Split::Train, 0)?.collect::<Result<_, _>>()?;
        let val: Vec<_> = data.some(Split::Val, 0)?.collect::<Result<_, _>>()?;
        for batch in train.into_iter().chain(val) {
            images += batch.len();
            let batch = batch.upload(&device.clone().inner());
            for view in batch.views {
                assert_eq!(student.last_layer.val().dims(), [FEATURES, OUTPUTS]);
                let logits = self.teacher().forward(view, Phase::Eval);
                let p = softmax(logits.clone(), 1) * log_softmax(logits, 1);
                entropy -= f64::from(p.sum().into_scalar::<f32>());
            }
        }
        Ok(Measured {
            metrics: Metrics::from([(ENTROPY.name, entropy / images as f64)]),
            images,
        })
    }
}
