//! Self-supervised training: a student learns to predict the outputs of its own average, the teacher, for other views of the same image.
//!
//! - Paper: Caron et al., *Emerging Properties in Self-Supervised Vision Transformers*, ICCV 2021,
//!   <https://arxiv.org/abs/2104.14294>
//! - Code: <https://github.com/facebookresearch/dino>
//!
//! The teacher gets the two global views, the student all of them. The teacher's outputs are centred and sharpened, so that they
//! become neither the same for every image nor uniform. There are two differences from the original code: the centre moves once
//! per update, after all of its micro-batches, so that gradient accumulation does not change the result; and the teacher runs in
//! evaluation mode, which matters for backbones with batch norms.

mod check;
mod config;
mod head;
mod loss;
mod network;
mod signals;
mod views;

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::weights::StateDict;
use kvt_models::{Ask, Backbone, Model, ModelConfig, Network};
use kvt_ops::{Key, Phase};

use self::signals::{Numbers, Seen, feature_std};
use super::model::{check_channels, start_from};
use super::{EvalData, InitConfig, Measured, ResetHead, Setup, Task, Unread, Weights, build_model};
use crate::augment::Transform;
use crate::config::Plan;
use crate::data::{DataError, DeviceBatch, Prepare, Split};
use crate::error::TrainError;
use crate::knn_vote::{KnnVote, Rows, collect, read};
use crate::recipe::{Ema, Gradients, Position};
use crate::run::{Metric, Metrics, Note, Topic};
use crate::splits::Splits;

pub(crate) use check::check;
pub use config::DinoConfig;
pub use head::DinoHead;
pub use loss::{GLOBAL_VIEWS, dino_loss, teacher_probabilities};
pub use network::{DinoNetwork, DinoOutput, load_backbone, part_of_backbone};

/// The files of a checkpoint that contain the teacher and the centre of its outputs.
pub(crate) const TEACHER: &str = "teacher";
const CENTRE: &str = "centre";

/// Student and teacher learn from views of images, without labels; evaluated with the k-NN classifier on the teacher's features.
pub struct Dino {
    config: DinoConfig,
    teacher: Ema<DinoNetwork>,
    /// The average of the teacher's outputs, `[out_dim]`, without autodiff.
    centre: Tensor<1>,
    /// The sum of the teacher's outputs in the current update, and their number of rows.
    running: Option<(Tensor<1>, usize)>,
    /// The last micro-batch.
    seen: Option<Seen>,
    /// Number of updates of the run.
    updates: u64,
}

impl Dino {
    /// A task whose teacher starts as a copy of the student, for a run of `updates` updates.
    pub fn new(config: DinoConfig, student: &DinoNetwork, device: &Device, updates: u64) -> Self {
        Self {
            teacher: Ema::new(student, student.frozen()),
            centre: Tensor::zeros([config.out_dim], &device.clone().inner()),
            running: None,
            seen: None,
            updates,
            config,
        }
    }

    /// The teacher.
    pub fn teacher(&self) -> &DinoNetwork {
        self.teacher.network()
    }

    /// The centre of the teacher's outputs, `[out_dim]`.
    pub fn centre(&self) -> &Tensor<1> {
        &self.centre
    }
}

impl Task for Dino {
    type Network = DinoNetwork;
    type Target = ();

    const METRICS: &'static [Metric] = &[Metric::KNN, Metric::FEATURE_STD];
    const BEST: Metric = Metric::KNN;

    fn views(plan: &Plan, size: (usize, usize)) -> Result<Vec<Arc<Transform>>, DataError> {
        let views = plan.dino.views(&plan.augment, size)?;
        Ok(views.into_iter().map(Arc::new).collect())
    }

    /// The classification head is not used, and has one output.
    fn model(plan: &Plan, _: &Splits) -> Result<ModelConfig, TrainError> {
        let config = plan.model.backbone()?;
        check_channels(&config, plan.augment.channels())?;
        Ok(config)
    }

    fn start(setup: &mut Setup<'_>) -> Result<(Self, DinoNetwork), TrainError> {
        let (plan, splits, device) = (setup.plan, setup.splits, setup.device);
        let mut model = build_model(plan, setup.model, device)?;
        if plan.dino.local_views > 0 {
            model.check_size([plan.dino.local_size; 2])?;
        }
        if setup.weights == Weights::OfPlan {
            // The classification head is not used.
            let init = InitConfig {
                reset_head: ResetHead::Always,
                ..plan.init.clone()
            };
            model = start_from(&init, model, setup.notes)?;
            if splits.classes().len() < 2 {
                let message = "the data has one class, so that the k-NN classifier is always right: its accuracy is meaningless";
                setup.notes.push(Note::new(0, Topic::Warning, message));
            }
        }
        let key = Key::new(plan.seed).named("init").named("dino");
        let student = DinoNetwork::new(model, &plan.dino, device, key);
        let per_epoch = splits.updates_per_epoch(plan);
        let all = per_epoch * u64::from(plan.epochs_of(per_epoch));
        let updates = plan.updates().unwrap_or(all);
        let task = Self::new(plan.dino.clone(), &student, device, updates);
        Ok((task, student))
    }

    fn prepare(plan: &Plan, splits: &Splits) -> Result<Arc<dyn Prepare<()>>, DataError> {
        Ok(splits.train_views(plan, |_| ()))
    }

    fn loss(
        &mut self,
        student: &DinoNetwork,
        batch: DeviceBatch<()>,
        at: Position,
        phase: Phase,
    ) -> Result<Tensor<1>, TrainError> {
        let first = batch.views.iter().take(GLOBAL_VIEWS);
        let globals: Vec<_> = first.map(|view| view.clone().inner()).collect();
        let said = self.teacher.network().forward(&globals, Phase::Eval);
        let temperature = self.config.teacher_temp_in(at.epoch);
        let centre = self.centre.clone();
        let probabilities = teacher_probabilities(said.outputs.clone(), centre, temperature);
        let rows = said.outputs.dims()[0];
        let sum = said.outputs.sum_dim(0).squeeze_dim::<1>(0);
        self.running = Some(match self.running.take() {
            Some((before, of_before)) => (before + sum, of_before + rows),
            None => (sum, rows),
        });
        let learned = student.forward(&batch.views, phase);
        self.seen = Some(Seen {
            probabilities: probabilities.clone(),
            features: said.features,
        });
        let (targets, temperature) = (probabilities.autodiff(), self.config.student_temp);
        Ok(dino_loss(&targets, learned.outputs, temperature))
    }

    fn begin(&mut self) {
        self.running = None;
    }

    fn undo(&mut self) {
        self.running = None;
    }

    fn before_clip(&self, gradients: &mut Gradients, student: &DinoNetwork, at: Position) {
        if at.epoch < self.config.freeze_last_layer {
            let last = student.head.last_layer();
            gradients.retain(|id| !last.contains(&id));
        }
    }

    fn sums(&self) -> Option<(Tensor<1>, usize)> {
        let none = || (self.centre.zeros_like(), 0);
        Some(self.running.clone().unwrap_or_else(none))
    }

    fn take_sums(&mut self, sum: Tensor<1>, rows: usize) {
        self.running = Some((sum, rows));
    }

    fn after_update(&mut self, student: &DinoNetwork, at: Position) {
        if let Some((sum, rows)) = self.running.take() {
            let stays = self.config.center_momentum;
            self.centre = self.centre.clone() * stays + sum * ((1.0 - stays) / rows as f64);
        }
        let momentum = self.config.momentum(at.step, self.updates);
        self.teacher.follow(student, momentum);
    }

    /// A collapse is checked only after the first epoch: at the beginning, the teacher's outputs are not meaningful yet.
    fn signals(&self, at: Position) -> Option<Unread> {
        let seen = self.seen.as_ref()?;
        let (images, config) = (seen.images(), self.config.clone());
        Some(Unread {
            numbers: seen.numbers(&self.centre),
            tell: Box::new(move |numbers| {
                let numbers = Numbers::new(images, numbers);
                let is_early = at.epoch < config.freeze_last_layer.max(1);
                let collapse = numbers.collapse(&config).filter(|_| !is_early);
                numbers.signals(collapse)
            }),
        })
    }

    fn state(&self) -> Result<Vec<(&'static str, StateDict)>, TrainError> {
        let centre = [(CENTRE.to_owned(), self.centre.to_data())];
        Ok(vec![
            (TEACHER, self.teacher().state_dict()?),
            (CENTRE, centre.into_iter().collect()),
        ])
    }

    fn load_state(
        &mut self,
        read: &dyn Fn(&str) -> Result<StateDict, TrainError>,
    ) -> Result<(), TrainError> {
        let state = read(TEACHER)?;
        self.teacher
            .reload(|teacher| teacher.load_state_dict(&state).map(|(teacher, _)| teacher))?;
        let centre = read(CENTRE)?.get(CENTRE).cloned();
        let expected = self.config.out_dim;
        let centre: Option<TensorData> = centre.filter(|data| *data.shape().to_vec() == [expected]);
        let centre = centre.ok_or(TrainError::Centre(expected))?;
        self.centre = Tensor::from_data(centre, &self.centre.device());
        Ok(())
    }

    /// The student's backbone.
    fn analyzed<'n>(&self, network: &'n DinoNetwork) -> Option<&'n Model> {
        Some(&network.backbone)
    }

    /// The k-NN classifier on the teacher's features, whichever network is given.
    fn evaluate(
        &self,
        _: &DinoNetwork,
        data: &mut EvalData<'_>,
        device: &Device,
    ) -> Result<Measured, TrainError> {
        let classes = data.val_source().classes.len();
        let model = &self.teacher().backbone;
        let config = &self.config;
        let ask = Ask {
            precision: model.precision(),
            ..Ask::default()
        };
        let features =
            |images: Tensor<4>| model.backbone.features(images, &ask, Phase::Eval).pooled();
        let bank = collect(data.some(Split::Train, config.eval_bank)?, device, features)?;
        let queries = collect(data.some(Split::Val, config.eval_images)?, device, features)?;
        let vote = KnnVote {
            neighbors: vec![config.eval_neighbors],
            temperature: KnnVote::TEMPERATURE,
            classes,
        };
        let found = vote.classify(&bank, &queries, device)?;
        let std = read(feature_std(queries.tensor(&device.clone().inner())))?;
        let std = std.first().copied().map_or(f64::NAN, f64::from);
        let top1 = found.first().map_or(f64::NAN, |found| found.top1_percent());
        Ok(Measured {
            metrics: Metrics::from([(Metric::KNN.name, top1), (Metric::FEATURE_STD.name, std)]),
            images: Rows::len(&queries),
        })
    }
}

#[cfg(test)]
mod tests;
