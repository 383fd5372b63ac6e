//! A network in training, with images that are reused in every step.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_data::LabelMap;
use kvt_models::Model;
use kvt_models::dense::upernet::UperNet;
use kvt_ops::{Key, Phase};

use super::{BenchError, ModelCase};
use crate::config::Plan;
use crate::data::DeviceBatch;
use crate::engine::{Processes, Reader, Started, TrainState, Update, UpdateSettings};
use crate::error::TrainError;
use crate::recipe::{Clip, LossScale, OptimConfig, Optimizer, Position, Rates};
use crate::task::{Classify, Segment, Task, segment_network};

/// Settings of a step; their values do not matter.
const SETTINGS: UpdateSettings = UpdateSettings {
    seed: 1,
    rates: Rates {
        lr: 1e-4,
        weight_decay: 0.05,
    },
    clip: Clip::Norm(1.0),
    ema_decay: 0.0,
};

/// A network of either task.
pub(super) enum Running {
    /// A classifier.
    Classify(Steps<Classify>),
    /// A network for segmentation.
    Segment(Steps<Segment>),
}

/// A network of a task.
pub(super) struct Steps<T: Task> {
    state: TrainState<T>,
    images: Tensor<4>,
    batch: DeviceBatch<T::Target>,
    reader: Option<Reader>,
}

/// The same network without autodiff.
pub(super) enum Ahead {
    Classify(Model),
    Segment(UperNet),
}

impl Ahead {
    /// A forward pass as in evaluation.
    pub(super) fn forward(&self, images: Tensor<4>) {
        match self {
            Self::Classify(model) => drop(model.forward(images, Phase::Eval)),
            Self::Segment(network) => drop(network.forward(images, Phase::Eval).main),
        }
    }
}

impl Running {
    /// A network whose next step is made, not skipped.
    pub(super) fn new(case: &ModelCase, device: &Device) -> Result<Self, BenchError> {
        let mut running = Self::fresh(case, device)?;
        // A skipped update takes less time than one that is made.
        if running.is_scaled() {
            running.make_one()?;
        }
        Ok(running)
    }

    /// A network before its first step. With a loss scale, some steps are skipped at first.
    pub(super) fn fresh(case: &ModelCase, device: &Device) -> Result<Self, BenchError> {
        let device = device.clone().autodiff();
        let images = case.images(&device);
        let Some(plan) = &case.dense else {
            let model = case.config.init(&device, Key::new(0))?;
            let model = model.with_precision(case.precision);
            let classes = case.config.num_classes();
            let labels = (0..case.batch).map(|image| (image % classes) as u32);
            let task = Classify::new(&Plan::default(), None);
            let steps = Steps::new(case, task, model, images, labels.collect());
            return Ok(Self::Classify(steps));
        };
        let failed = |error: TrainError| BenchError::Train(Box::new(error));
        let network = segment_network(plan, &case.config, ModelCase::PIXEL_CLASSES, &device);
        let task = Segment::new(plan).map_err(|error| failed(error.into()))?;
        let [_, _, height, width] = images.dims();
        let map = |image: usize| LabelMap {
            labels: (0..height * width)
                .map(|pixel| ((image + pixel) % ModelCase::PIXEL_CLASSES) as u8)
                .collect(),
            size: (height, width),
        };
        let maps = (0..case.batch).map(map).collect();
        let network = network.map_err(failed)?;
        Ok(Self::Segment(Steps::new(case, task, network, images, maps)))
    }

    /// Steps until one is made.
    pub(super) fn make_one(&mut self) -> Result<(), BenchError> {
        let made = |running: &mut Self| match running {
            Self::Classify(steps) => steps.update(&Processes::alone()),
            Self::Segment(steps) => steps.update(&Processes::alone()),
        };
        while !made(self)?.made {}
        Ok(())
    }

    /// A step with one micro-batch of each process.
    pub(super) fn step_with(&mut self, processes: &Processes) -> Result<(), BenchError> {
        match self {
            Self::Classify(steps) => steps.update(processes)?,
            Self::Segment(steps) => steps.update(processes)?,
        };
        Ok(())
    }

    /// The network without autodiff, and its images.
    pub(super) fn ahead(&self) -> (Ahead, Tensor<4>) {
        let (network, images) = match self {
            Self::Classify(steps) => (Ahead::Classify(steps.state.network.valid()), &steps.images),
            Self::Segment(steps) => (Ahead::Segment(steps.state.network.valid()), &steps.images),
        };
        (network, images.clone().inner())
    }

    fn is_scaled(&self) -> bool {
        match self {
            Self::Classify(steps) => steps.state.loss_scale.is_some(),
            Self::Segment(steps) => steps.state.loss_scale.is_some(),
        }
    }
}

impl<T: Task<Target: Clone>> Steps<T> {
    fn new(
        case: &ModelCase,
        task: T,
        network: T::Network,
        images: Tensor<4>,
        targets: Vec<T::Target>,
    ) -> Self {
        Self {
            batch: DeviceBatch {
                views: vec![images.clone()],
                targets,
                indices: (0..u32::MAX).take(case.batch).collect(),
            },
            reader: Reader::of(&images.device()),
            images,
            state: TrainState {
                optimizer: Optimizer::new(&OptimConfig::default(), &network),
                network,
                task,
                ema: None,
                loss_scale: LossScale::of(case.precision),
            },
        }
    }

    fn update(&mut self, processes: &Processes) -> Result<Update, BenchError> {
        let (batch, start) = (self.batch.clone(), Position::default());
        let reader = self.reader.as_ref();
        let started = self
            .state
            .start(processes, [Ok(batch)], start, SETTINGS, reader)?;
        // As in training, except that it waits: each step is measured separately.
        Ok(match started {
            Started::Done(update) => update,
            Started::OnItsWay(pending) => self.state.finish(pending)?,
        })
    }
}
