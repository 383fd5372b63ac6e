//! From a validated plan to a trained run: folder, data, device, model, optimizer, loop.

mod start;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use kvt_models::weights::Outcome;
use kvt_models::{Model, ModelConfig};

use self::start::{compare_with_started, environment, open_splits, record_start};
use super::checkpoint::{Checkpointer, Restored};
use super::model::{Head, build_model, for_data, model_config, start_from};
use super::progress::Progress;
use super::{End, Recorder, Splits, TrainError, Trainer};
use crate::config::{self, Document, Plan};
use crate::device::{self, Found};
use crate::recipe::{AdamW, AdamWConfig, Ema, Schedule};
use crate::run::{Event, Listener, Note, RunDir, RunError, Topic, Warning, Which, read_log};

/// A run that is ready to train.
pub struct Session {
    plan: Plan,
    run: RunDir,
    splits: Splits,
    device: Found,
    model: Model,
    optimizer: AdamW,
    ema: Option<Ema>,
    schedule: Schedule,
    progress: Progress,
    /// Log bytes and steps of the checkpoint it goes on from; both 0 if there was none.
    resumed: Option<(u64, u64)>,
    notes: Vec<Note>,
}

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// In a folder that holds none yet.
    New,
    /// From a checkpoint of the run that is in the folder.
    Resume(Which<'a>),
}

impl Start<'_> {
    /// Where the run was stopped.
    pub const RESUME: Self = Self::Resume(Which::Last);
}

/// How much work a run is, for progress bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Updates already made.
    pub done: u64,
    /// Updates in all.
    pub steps: u64,
    /// Updates of an epoch.
    pub steps_per_epoch: u64,
    /// Epochs in all.
    pub epochs: u32,
    /// Images of an update.
    pub images_per_step: usize,
}

impl Session {
    /// Prepares a run: a new one, or the one that is in `run.dir`. `generating` hears of the progress of
    /// a data set that is made on first use.
    ///
    /// # Errors
    /// If the folder, the data, the device or the model cannot be had, or a resumed run was started
    /// with another configuration.
    pub fn prepare(
        plan: Plan,
        start: Start<'_>,
        generating: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, TrainError> {
        // Check everything that can fail before creating the run folder.
        let device = device::resolve(&plan.train.device)?;
        let config = model_config(&plan.model, None)?;
        let size = (config.img_size(), config.img_size());
        let mut notes = Vec::new();
        let resume = start != Start::New;
        let mut classes = None;
        if resume {
            let started = RunDir::open(&plan.run.dir)?;
            notes.extend(compare_with_started(&started, &plan)?);
            classes = Some((started.classes(), started.read_classes()));
        }
        let (splits, class_list) = open_splits(&plan, size, classes, generating)?;
        let warnings = splits.warnings().into_iter();
        let config = for_data(&plan, &splits)?;
        let images = Some(splits.train.samples.len());
        let warnings = warnings.chain(config::warnings(&plan, &config, images));
        notes.extend(warnings.map(|text| Note::new(0, Topic::Warning, text)));
        let autodiff = device.device.clone().autodiff();
        let model = build_model(&plan, &config, &autodiff)?;
        let model = match resume {
            // A checkpoint follows.
            true => model,
            false => started_model(&plan, model, &mut notes)?,
        };

        // Before the folder is locked: `git` is asked, and the child that becomes it holds every lock for a moment,
        // also where this process is killed in it.
        let environment = environment(&device);
        let run = RunDir::create(&plan.run.dir, resume)?;
        if !resume {
            record_start(&run, &plan, &splits, &environment, &mut notes)?;
        }

        let optimizer = AdamW::new(adamw(&plan), &model);
        let steps_per_epoch = steps_per_epoch(&plan, &splits);
        let mut session = Self {
            schedule: Schedule::new(
                plan.schedule.clone(),
                scaled_lr(&plan),
                steps_per_epoch,
                plan.train.epochs,
            ),
            ema: ema(&plan, &model),
            plan,
            run,
            splits,
            device,
            model,
            optimizer,
            progress: Progress::default(),
            resumed: None,
            notes,
        };
        if let Start::Resume(which) = start {
            match session.restore(which) {
                // Other classes say more of the data than other numbers of images.
                Err(TrainError::DataChanged { .. })
                    if matches!(class_list, Some(TrainError::Data(_))) =>
                {
                    return class_list.map_or(Ok(session), Err);
                }
                restored => restored?,
            }
            if let Some(error) = class_list {
                session.warn(&Warning::ClassList {
                    path: session.run.classes(),
                    reason: error.to_string(),
                });
            }
            // Only now is it certain that the run goes on with these.
            let Self {
                run,
                plan,
                splits,
                notes,
                ..
            } = &mut session;
            record_start(run, plan, splits, &environment, notes)?;
        }
        Ok(session)
    }

    fn restore(&mut self, which: Which<'_>) -> Result<(), TrainError> {
        let optimizer = AdamW::new(adamw(&self.plan), &self.model);
        let checkpoints = self.checkpointer();
        // The steps after a chosen checkpoint are cut off the log.
        let keep_log = || match which {
            Which::Last => Ok(()),
            _ => self.run.copy_log(),
        };
        let (model, ema) = (self.model.clone(), self.ema.take());
        match checkpoints.restore(which, model, optimizer, ema, keep_log) {
            Ok(Restored {
                model,
                optimizer,
                ema,
                progress,
                log_offset,
                warnings,
            }) => {
                let step = progress.position.step;
                let message = match progress.position.epoch {
                    epoch if epoch < self.plan.train.epochs => {
                        format!("resumed in epoch {}, after step {step}", epoch + 1)
                    }
                    epoch => format!("all {epoch} epochs are done"),
                };
                self.notes.push(Note::new(step, Topic::Resume, message));
                self.model = model;
                self.optimizer = optimizer;
                self.ema = ema;
                self.progress = progress;
                self.resumed = Some((log_offset, step));
                warnings.iter().for_each(|warning| self.warn(warning));
                Ok(())
            }
            // Killed before its first checkpoint: there is nothing to lose by starting over.
            Err(TrainError::Run(RunError::NoCheckpoint { .. })) if which == Which::Last => {
                self.start_over()
            }
            Err(error) => Err(error),
        }
    }

    fn start_over(&mut self) -> Result<(), TrainError> {
        let logged = match self.run.log() {
            log if log.exists() => read_log(&log)?.events,
            _ => Vec::new(),
        };
        let finished = |last: u32| {
            logged.iter().any(|event| match event {
                Event::Epoch(epoch) => epoch.epoch >= last,
                _ => false,
            })
        };
        // The last epoch is logged after it was saved, so somebody has removed its checkpoint.
        if finished(self.plan.train.epochs - 1) {
            return Err(TrainError::Run(RunError::CheckpointsGone {
                path: self.run.path().to_owned(),
            }));
        }
        let mut message = "no checkpoint yet: starting from the beginning".to_owned();
        if finished(0)
            && let Some(kept) = self.run.set_log_aside()?
        {
            message = format!("{message}; the log so far is kept as `{}`", kept.display());
        }
        let device = self.device.device.clone().autodiff();
        let model = build_model(&self.plan, &self.model.config(), &device)?;
        self.model = started_model(&self.plan, model, &mut self.notes)?;
        self.optimizer = AdamW::new(adamw(&self.plan), &self.model);
        self.ema = ema(&self.plan, &self.model);
        self.resumed = Some((0, 0));
        self.notes.push(Note::new(0, Topic::Resume, message));
        Ok(())
    }

    fn checkpointer(&self) -> Checkpointer {
        let keep_last = self.plan.checkpoint.keep_last;
        Checkpointer::new(&self.run, self.splits.state(), keep_last)
    }

    fn warn(&mut self, warning: &Warning) {
        let step = self.progress.position.step;
        let note = Note::new(step, Topic::Warning, warning.to_string());
        self.notes.push(note);
    }

    /// The plan, as it will be carried out.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device it runs on.
    pub fn device(&self) -> &Found {
        &self.device
    }

    /// The model's configuration.
    pub fn model_config(&self) -> ModelConfig {
        self.model.config()
    }

    /// How much work there is.
    pub fn amount(&self) -> Amount {
        let plan = &self.plan.train;
        let steps_per_epoch = steps_per_epoch(&self.plan, &self.splits);
        let steps = steps_per_epoch * u64::from(plan.epochs);
        Amount {
            done: self.progress.position.step,
            steps: plan.max_steps.map_or(steps, |max| max.min(steps)),
            steps_per_epoch,
            epochs: plan.epochs,
            images_per_step: plan.batch_size * plan.accumulate,
        }
    }

    /// Trains until the plan is done or `stop` is set. `listener` hears of every event after it was
    /// recorded.
    ///
    /// # Errors
    /// If data, device, disk or arithmetic fail. What was saved before stays.
    pub fn train(self, listener: &mut dyn Listener, stop: &AtomicBool) -> Result<End, TrainError> {
        let checkpoints = self.checkpointer();
        let (mut recorder, warnings) =
            Recorder::open(&self.run, self.resumed, self.plan.log.tensorboard, listener)?;
        let step = self.progress.position.step;
        let warnings = warnings
            .iter()
            .map(|warning| Note::new(step, Topic::Warning, warning.to_string()));
        for note in self.notes.into_iter().chain(warnings) {
            recorder.event(&Event::Note(note))?;
        }
        let mut trainer = Trainer {
            plan: &self.plan,
            splits: &self.splits,
            device: self.device.device.clone().autodiff(),
            model: self.model,
            optimizer: self.optimizer,
            ema: self.ema,
            schedule: self.schedule,
            progress: self.progress,
            checkpoints,
            // A run that starts over has resumed nothing.
            saved: self.resumed.is_some_and(|(offset, _)| offset > 0),
            recorder: &mut recorder,
            stop,
        };
        let end = trainer.run();
        // Whatever happened: what was heard is on disk before anyone reads it.
        let synced = recorder.sync();
        let end = end?;
        synced?;
        Ok(end)
    }
}

/// The plan of a configuration file with overrides.
///
/// # Errors
/// If a file cannot be read or says something wrong; the error lists all of it.
pub fn load_plan(path: &Path, overrides: &[String]) -> Result<Plan, TrainError> {
    let plan = Document::load(path, overrides).and_then(|document| document.plan());
    Ok(plan.map_err(Box::new)?)
}

/// Updates of an epoch; the last one may have fewer micro-batches.
fn steps_per_epoch(plan: &Plan, splits: &Splits) -> u64 {
    let batches = splits.train_batch_count(plan);
    batches.div_ceil(plan.train.accumulate) as u64
}

/// The learning rate after warm-up: `lr * images per update / lr_batch`.
fn scaled_lr(plan: &Plan) -> f64 {
    let images = plan.train.batch_size * plan.train.accumulate;
    match plan.optim.lr_batch {
        0 => plan.optim.lr,
        batch => plan.optim.lr * images as f64 / batch as f64,
    }
}

fn adamw(plan: &Plan) -> AdamWConfig {
    AdamWConfig {
        betas: plan.optim.betas.into(),
        eps: plan.optim.eps,
        weight_decay: plan.optim.weight_decay,
    }
}

/// A new model with the weights that the plan names; a note says what became of them.
fn started_model(plan: &Plan, model: Model, notes: &mut Vec<Note>) -> Result<Model, TrainError> {
    let (model, report) = start_from(&plan.init, Head::AsPlanned, model)?;
    if let (Some(path), Some(report)) = (&plan.init.weights, report) {
        let topic = match report.names(Outcome::Unused).next() {
            Some(_) => Topic::Warning,
            None => Topic::Start,
        };
        let message = format!("weights of `{}`: {}", path.display(), report.summary());
        notes.push(Note::new(0, topic, message));
    }
    Ok(model)
}

/// The average that a plan asks for, starting from a model's weights.
fn ema(plan: &Plan, model: &Model) -> Option<Ema> {
    let decay = plan.ema.decay;
    (decay > 0.0).then(|| Ema::new(decay, model))
}
