//! A network in training, with images that are reused in every step.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_data::LabelMap;
use kvt_data::augment::{ObjectMask, Objects};
use kvt_models::Model;
use kvt_models::dense::mask_rcnn::{Frame, MaskRcnn};
use kvt_models::dense::upernet::UperNet;
use kvt_ops::{Key, Phase};

use super::{BenchError, ModelCase};
use crate::config::Plan;
use crate::data::DeviceBatch;
use crate::engine::{Processes, Reader, Started, TrainState, Update, UpdateSettings};
use crate::error::TrainError;
use crate::recipe::{Clip, LossScale, OptimConfig, Optimizer, Position, Rates};
use crate::task::{Classify, Detect, Segment, Task, TaskKind, detect_network, segment_network};

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

/// A network of a task that is measured.
pub(super) enum Running {
    /// A classifier.
    Classify(Box<Steps<Classify>>),
    /// A network for segmentation.
    Segment(Box<Steps<Segment>>),
    /// A network for detection.
    Detect(Box<Steps<Detect>>),
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
    Classify(Box<Model>),
    Segment(Box<UperNet>),
    Detect(Box<MaskRcnn>),
}

impl Ahead {
    /// A forward pass as in evaluation.
    pub(super) fn forward(&self, images: Tensor<4>) {
        match self {
            Self::Classify(model) => drop(model.forward(images, Phase::Eval)),
            Self::Segment(network) => drop(network.forward(images, Phase::Eval).main),
            Self::Detect(network) => {
                let [batch, _, height, width] = images.dims();
                let frame = Frame {
                    size: [height, width],
                    original: [height, width],
                };
                // A device that fails fails in the next step, too.
                drop(network.detect(images, &vec![frame; batch]));
            }
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
            return Ok(Self::Classify(Box::new(steps)));
        };
        let failed = |error: TrainError| BenchError::Train(Box::new(error));
        if plan.task == TaskKind::Detect {
            let network = detect_network(plan, &case.config, ModelCase::OBJECT_CLASSES, &device);
            let task = Detect::new(plan).map_err(|error| failed(error.into()))?;
            let [_, _, height, width] = images.dims();
            let objects = vec![an_object(height, width); case.batch];
            let steps = Steps::new(case, task, network.map_err(failed)?, images, objects);
            return Ok(Self::Detect(Box::new(steps)));
        }
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
        let steps = Steps::new(case, task, network, images, maps);
        Ok(Self::Segment(Box::new(steps)))
    }

    /// Steps until one is made.
    pub(super) fn make_one(&mut self) -> Result<(), BenchError> {
        let made = |running: &mut Self| match running {
            Self::Classify(steps) => steps.update(&Processes::alone()),
            Self::Segment(steps) => steps.update(&Processes::alone()),
            Self::Detect(steps) => steps.update(&Processes::alone()),
        };
        while !made(self)?.made {}
        Ok(())
    }

    /// A step with one micro-batch of each process.
    pub(super) fn step_with(&mut self, processes: &Processes) -> Result<(), BenchError> {
        match self {
            Self::Classify(steps) => steps.update(processes)?,
            Self::Segment(steps) => steps.update(processes)?,
            Self::Detect(steps) => steps.update(processes)?,
        };
        Ok(())
    }

    /// The network without autodiff, and its images.
    pub(super) fn ahead(&self) -> (Ahead, Tensor<4>) {
        let (network, images) = match self {
            Self::Classify(steps) => (
                Ahead::Classify(Box::new(steps.state.network.valid())),
                &steps.images,
            ),
            Self::Segment(steps) => (
                Ahead::Segment(Box::new(steps.state.network.valid())),
                &steps.images,
            ),
            Self::Detect(steps) => (
                Ahead::Detect(Box::new(steps.state.network.valid())),
                &steps.images,
            ),
        };
        (network, images.clone().inner())
    }

    fn is_scaled(&self) -> bool {
        match self {
            Self::Classify(steps) => steps.state.loss_scale.is_some(),
            Self::Segment(steps) => steps.state.loss_scale.is_some(),
            Self::Detect(steps) => steps.state.loss_scale.is_some(),
        }
    }
}

/// An image with one object, in its middle.
fn an_object(height: usize, width: usize) -> Objects {
    let (top, left) = (height / 4, width / 4);
    let corners = [left, top, left + width / 2, top + height / 2];
    Objects {
        image_id: 0,
        size: (height, width),
        original: (height, width),
        scale: [1.0, 1.0],
        boxes: vec![corners.map(|side| side as f32)],
        labels: vec![0],
        masks: vec![ObjectMask {
            top,
            left,
            height: height / 2,
            width: width / 2,
            inside: vec![true; (height / 2) * (width / 2)],
        }],
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
