//! From a validated plan to a trained run: folder, data, device, model, optimizer, loop.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use kvt_models::weights::Outcome;
use kvt_models::{Model, ModelConfig};

use super::checkpoint::{Checkpointer, Restored};
use super::model::{Head, build_model, for_data, model_config, start_from};
use super::progress::Progress;
use super::{End, Recorder, Splits, TrainError, Trainer};
use crate::config::{Document, Effect, Plan, diff, resolved_toml};
use crate::device::{self, Found};
use crate::fs::write_atomic;
use crate::recipe::{AdamW, AdamWConfig, Ema, Schedule};
use crate::run::{
    Environment, Event, Listener, Note, RunDir, RunError, Topic, Versions, read_events,
};

/// The version of Burn, for the record.
const BURN: &str = "0.22.1";

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
    /// Log bytes and steps of the checkpoint it goes on from.
    resumed: Option<(u64, u64)>,
    notes: Vec<Note>,
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
    /// Prepares a run: a new one, or with `resume` the one that is in `run.dir`. `generating` hears
    /// of the progress of a data set that is made on first use.
    ///
    /// # Errors
    /// If the folder, the data, the device or the model cannot be had, or a resumed run was started
    /// with another configuration.
    pub fn prepare(
        plan: Plan,
        resume: bool,
        generating: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, TrainError> {
        // All that can fail without a trace comes before the folder is made.
        let device = device::resolve(&plan.train.device)?;
        let config = model_config(&plan.model, None)?;
        let size = (config.img_size(), config.img_size());
        let mut notes = Vec::new();
        let mut classes = None;
        if resume {
            let started = RunDir::open(&plan.run.dir)?;
            notes.extend(compare_with_started(&started, &plan)?);
            classes = Some(started.read_classes()?);
        }
        let splits = Splits::open(&plan, size, classes.as_deref(), generating)?;
        let warnings = splits.warnings().into_iter();
        notes.extend(warnings.map(|text| Note::new(0, Topic::Warning, text)));
        let config = for_data(&plan, &splits)?;
        let autodiff = device.device.clone().autodiff();
        let model = build_model(&plan, &config, &autodiff)?;
        let model = match resume {
            // A checkpoint follows.
            true => model,
            false => started_model(&plan, model, &mut notes)?,
        };

        let run = RunDir::create(&plan.run.dir, resume)?;
        let versions = Versions {
            kvt: env!("CARGO_PKG_VERSION"),
            burn: BURN,
        };
        let description = format!("{} ({})", device.name, device.description);
        Environment::collect(versions, description).record(&run.environment())?;
        run.write_classes(splits.classes())?;
        // This file makes the folder a run, so it comes last.
        write_atomic(&run.config(), |file| {
            std::io::Write::write_all(file, resolved_toml(&plan).as_bytes())
        })?;

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
        if resume {
            session.restore()?;
        }
        Ok(session)
    }

    fn restore(&mut self) -> Result<(), TrainError> {
        let optimizer = AdamW::new(adamw(&self.plan), &self.model);
        let checkpoints = Checkpointer::new(&self.run, self.splits.state());
        match checkpoints.restore(self.model.clone(), optimizer, self.ema.take()) {
            Ok(Restored {
                model,
                optimizer,
                ema,
                progress,
                log_offset,
                warning,
            }) => {
                let step = progress.position.step;
                self.notes
                    .extend(warning.map(|w| Note::new(step, Topic::Warning, w.to_string())));
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
                Ok(())
            }
            // Killed before its first checkpoint: there is nothing to lose by starting over. A log
            // with a finished epoch says that there was one, and that somebody removed it.
            Err(TrainError::Run(RunError::NoCheckpoint { .. }))
                if !self.has_finished_epoch()? =>
            {
                let device = self.device.device.clone().autodiff();
                let model = build_model(&self.plan, &self.model.config(), &device)?;
                self.model = started_model(&self.plan, model, &mut self.notes)?;
                self.optimizer = AdamW::new(adamw(&self.plan), &self.model);
                self.ema = ema(&self.plan, &self.model);
                let message = "no checkpoint yet: starting from the beginning";
                self.notes.push(Note::new(0, Topic::Resume, message));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn has_finished_epoch(&self) -> Result<bool, RunError> {
        let log = self.run.log();
        Ok(log.exists()
            && read_events(&log)?
                .iter()
                .any(|event| matches!(event, Event::Epoch(_))))
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
        let (mut recorder, warning) =
            Recorder::open(&self.run, self.resumed, self.plan.log.tensorboard, listener)?;
        let step = self.progress.position.step;
        let warning = warning.map(|w| Note::new(step, Topic::Warning, w.to_string()));
        for note in self.notes.into_iter().chain(warning) {
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
            checkpoints: Checkpointer::new(&self.run, self.splits.state()),
            recorder: &mut recorder,
            stop,
        };
        let end = trainer.run();
        // Whatever happened: what was heard is on disk before anyone reads it.
        recorder.sync()?;
        end
    }
}

/// The plan of a configuration file with overrides.
///
/// # Errors
/// If a file cannot be read or says something wrong; the error lists all of it.
pub fn load_plan(path: &Path, overrides: &[String]) -> Result<Plan, TrainError> {
    let names = kvt_models::names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = Document::load(path, overrides).and_then(|document| document.plan(&names));
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

/// Refuses to resume with a configuration that would change the run's mathematics; a note for each
/// difference that does not.
fn compare_with_started(run: &RunDir, plan: &Plan) -> Result<Vec<Note>, TrainError> {
    let started = load_plan(&run.config(), &[])?;
    let differences = diff(&started, plan);
    let refused: Vec<String> = differences
        .iter()
        .filter(|d| d.effect == Effect::Refused)
        .map(|difference| format!("  {difference}"))
        .collect();
    if !refused.is_empty() {
        return Err(TrainError::ConfigChanged {
            run: run.path().to_owned(),
            differences: refused.join("\n"),
        });
    }
    Ok(differences
        .into_iter()
        .map(|difference| {
            let message = format!("resumed with another setting: {difference}");
            Note::new(0, Topic::Resume, message)
        })
        .collect())
}
