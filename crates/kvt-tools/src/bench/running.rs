//! A network in training, with images that are reused in every step.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_data::LabelMap;
use kvt_data::augment::Objects;
use kvt_models::dense::mask_rcnn::{Frame, MaskRcnn};
use kvt_models::dense::upernet::UperNet;
use kvt_models::{Model, Network as _};
use kvt_ops::{Key, Object, ObjectMask, Phase};

use super::{BenchError, ModelCase};
use kvt_data::DeviceBatch;
use kvt_train::config::Plan;
use kvt_train::engine::{Processes, Reader, Started, TrainState, Update, UpdateSettings};
use kvt_train::recipe::{Clip, LossScale, OptimConfig, Optimizer, Position, Rates};
use kvt_train::task::{Classify, DenseNetwork, Detect, Segment, Task, TaskKind};

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

/// Objects of an image, as many as one of COCO has on average, and their classes.
const OBJECTS: usize = 7;

/// A forward pass as in evaluation, which can be repeated.
pub(super) type Ahead = Box<dyn Fn() -> Result<(), BenchError>>;

/// A network of any task.
pub(super) trait Running {
    /// A step with one micro-batch of each process.
    fn update(&mut self, processes: &Processes) -> Result<Update, BenchError>;

    /// A forward pass without autodiff on the same images.
    fn ahead(&self) -> Ahead;

    /// Whether it has a loss scale, with which some steps are skipped at first.
    fn is_scaled(&self) -> bool;

    /// The number of parameters that a step changes.
    fn trained(&self) -> usize;

    /// Steps until one is made.
    fn make_one(&mut self) -> Result<(), BenchError> {
        while !self.update(&Processes::alone())?.made {}
        Ok(())
    }
}

/// A network of a task.
struct Steps<T: Task> {
    state: TrainState<T>,
    images: Tensor<4>,
    batch: DeviceBatch<T::Target>,
    reader: Option<Reader>,
    ahead: fn(&T::Network, Tensor<4>) -> Result<(), BenchError>,
}

/// A network whose next step is made, not skipped.
pub(super) fn ready(case: &ModelCase, device: &Device) -> Result<Box<dyn Running>, BenchError> {
    let mut running = fresh(case, device)?;
    // A skipped update takes less time than one that is made.
    if running.is_scaled() {
        running.make_one()?;
    }
    Ok(running)
}

/// A network before its first step.
pub(super) fn fresh(case: &ModelCase, device: &Device) -> Result<Box<dyn Running>, BenchError> {
    let device = device.clone().autodiff();
    let images = case.images(&device);
    let [_, _, height, width] = images.dims();
    let numbers = 0..case.batch;
    Ok(match case.dense.as_ref().map(|plan| (plan, plan.task)) {
        // The same number of objects in each image.
        Some((plan, TaskKind::Detect)) => {
            let all = numbers.map(|image| drawn_objects(image, (height, width)));
            let classes = ModelCase::OBJECT_CLASSES;
            let network = MaskRcnn::build(plan, &case.config, classes, &device)?;
            let ahead = |network: &MaskRcnn, images: Tensor<4>| {
                let [count, _, height, width] = images.dims();
                let frame = Frame {
                    size: [height, width],
                    original: [height, width],
                };
                let found = network.detect(images, &vec![frame; count]);
                found.map(drop).map_err(BenchError::from)
            };
            let (task, all) = (Detect::new(plan)?, all.collect());
            Box::new(Steps::new(case, (task, network), images, all, ahead))
        }
        // A class for each pixel.
        Some((plan, _)) => {
            let classes = ModelCase::PIXEL_CLASSES;
            let map = |image: usize| LabelMap {
                labels: (0..height * width)
                    .map(|pixel| ((image + pixel) % classes) as u8)
                    .collect(),
                size: (height, width),
            };
            let network = UperNet::build(plan, &case.config, classes, &device)?;
            let ahead = |network: &UperNet, images| {
                drop(network.forward(images, Phase::Eval).main);
                Ok(())
            };
            let (task, maps) = (Segment::new(plan)?, numbers.map(map).collect());
            Box::new(Steps::new(case, (task, network), images, maps, ahead))
        }
        None => {
            let model = case.config.init(&device, Key::new(0))?;
            let model = model.with_precision(case.precision);
            let model = case.lora.attach(model, &device, 0)?;
            let classes = case.config.num_classes();
            let labels = numbers.map(|image| (image % classes) as u32).collect();
            let task = Classify::new(&Plan::default(), None);
            let ahead = |model: &Model, images| {
                drop(model.forward(images, Phase::Eval));
                Ok(())
            };
            Box::new(Steps::new(case, (task, model), images, labels, ahead))
        }
    })
}

/// Rectangles of several sizes, which fill their masks: the first covers half of each side, each other one is smaller.
fn drawn_objects(image: usize, (height, width): (usize, usize)) -> Objects {
    let all = (0..OBJECTS).map(|object| {
        let side = |side: usize| (side / (object + 2)).max(1);
        let (rows, columns) = (side(height), side(width));
        // Places that differ from image to image, within it.
        let place =
            |free: usize, step: usize| (image * step + object * free / OBJECTS) % (free + 1);
        let (top, left) = (place(height - rows, 7), place(width - columns, 11));
        Object {
            corners: [left, top, left + columns, top + rows].map(|side| side as f32),
            label: (image + object) % ModelCase::OBJECT_CLASSES,
            mask: ObjectMask {
                top,
                left,
                height: rows,
                width: columns,
                inside: vec![true; rows * columns],
            },
        }
    });
    Objects {
        image_id: image as u64,
        size: (height, width),
        original: (height, width),
        all: all.collect(),
    }
}

impl<T: Task<Target: Clone>> Steps<T> {
    fn new(
        case: &ModelCase,
        (task, network): (T, T::Network),
        images: Tensor<4>,
        targets: Vec<T::Target>,
        ahead: fn(&T::Network, Tensor<4>) -> Result<(), BenchError>,
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
            ahead,
        }
    }
}

impl<T: Task<Target: Clone> + 'static> Running for Steps<T> {
    fn update(&mut self, processes: &Processes) -> Result<Update, BenchError> {
        let (batch, start) = (self.batch.clone(), Position::default());
        let reader = self.reader.as_ref();
        let started = self
            .state
            .start(processes, [Ok(batch)], start, SETTINGS, reader);
        // As in training, except that it waits: each step is measured separately.
        let done = started.and_then(|started| match started {
            Started::Done(update) => Ok(update),
            Started::OnItsWay(pending) => self.state.finish(pending),
        });
        done.map_err(BenchError::Update)
    }

    fn ahead(&self) -> Ahead {
        let (network, images) = (self.state.network.valid(), self.images.clone().inner());
        let ahead = self.ahead;
        Box::new(move || ahead(&network, images.clone()))
    }

    fn is_scaled(&self) -> bool {
        self.state.loss_scale.is_some()
    }

    fn trained(&self) -> usize {
        let parameters = self.state.network.parameters().into_iter();
        parameters
            .map(|parameter| parameter.shape.iter().product::<usize>())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them are inside of the image, with masks that fill their boxes.
    #[test]
    fn objects_are_in_their_image() {
        for image in 0..20 {
            let (height, width) = (64, 96);
            let objects = drawn_objects(image, (height, width));
            assert_eq!(objects.all.len(), OBJECTS);
            for Object { corners, mask, .. } in &objects.all {
                let [x1, y1, x2, y2] = *corners;
                assert!(0.0 <= x1 && x1 < x2 && x2 <= width as f32, "{corners:?}");
                assert!(0.0 <= y1 && y1 < y2 && y2 <= height as f32, "{corners:?}");
                let area = mask.inside.iter().filter(|inside| **inside).count();
                assert_eq!(area as f32, (x2 - x1) * (y2 - y1));
            }
        }
    }
}
