//! The teacher of a plan: the model of another run, weights from a file, or saved logits.

use std::path::Path;

use burn::tensor::Device;
use kvt_models::weights::{self, LoadOptions, StateDict};
use kvt_models::{Model, ModelConfig};
use kvt_ops::Key;

use super::logits::is_of;
use super::{
    Fingerprint, SavedLogits, Teacher, TeacherError, TeacherKind, TeacherNetwork, same_classes,
};
use crate::augment::Normalization;
use crate::config::{ModelSection, Plan, load_plan};
use crate::error::TrainError;
use crate::recipe::{DistillConfig, DistillKind};
use crate::run::{Note, RunDir, Topic};
use crate::splits::Splits;
use crate::task::{build_model, load_checkpoint_model, read_for};

/// The teacher of a plan, on a device without autodiff; a note describes it.
///
/// # Errors
/// If it cannot be loaded, or does not match the data or the student.
pub(in crate::task) fn teacher(
    plan: &Plan,
    student: &ModelConfig,
    splits: &Splits,
    device: &Device,
    notes: &mut Vec<Note>,
) -> Result<Option<Teacher>, TrainError> {
    let DistillConfig {
        kind,
        teacher,
        teacher_model,
        logits,
        ..
    } = &plan.distill;
    let classes = splits.classes();
    let (found, path, fingerprint, words) = match (kind, teacher, logits) {
        (DistillKind::None, ..) | (_, None, None) => return Ok(None),
        (_, Some(path), _) => {
            let of_student = Normalization::from(&plan.augment);
            let (model, own) = match teacher_model {
                // A file does not describe its images.
                Some(name) => (of_weights(path, name, classes, device)?, of_student.clone()),
                None => of_run(path, classes, device, notes)?,
            };
            model.check_finite()?;
            let fingerprint = Fingerprint::of(&StateDict::from_model(&model)?);
            let config = model.config();
            let words = format!(
                "learns from {} at {} pixels, of `{}`",
                config.name(),
                config.img_size(),
                path.display()
            );
            // The student's: the device may not support the precision with which the teacher was trained.
            let model = model.with_precision(plan.train.precision);
            let network = TeacherNetwork::new(model, own, of_student).map_err(refused(path))?;
            let network = TeacherKind::Network(Box::new(network));
            (network, path, fingerprint, words)
        }
        (_, None, Some(path)) => {
            let file = weights::read_as_stored(path)?;
            let samples = splits.train.samples.iter();
            let labels: Vec<u32> = samples.map(|sample| sample.label).collect();
            let logits = SavedLogits::new(&file, &labels, classes.len()).map_err(refused(path))?;
            let metadata = weights::metadata(path)?;
            if !is_of(&metadata, &splits.train).map_err(refused(path))? {
                let words = format!(
                    "`{}` does not say which images and classes its logits are for: row by row they are taken for those of the \
                     training images; `kvt logits --run RUN` writes a file that says it",
                    path.display()
                );
                notes.push(Note::new(0, Topic::Warning, words));
            }
            let words = format!(
                "learns from the logits in `{}`, which are of unchanged images: nothing is mixed",
                path.display()
            );
            let logits = TeacherKind::Logits(logits);
            (logits, path, Fingerprint::of(&file), words)
        }
    };
    notes.push(Note::new(0, Topic::Start, words));
    if *kind == DistillKind::Hard && !student.is_distilled() {
        let model = student.name();
        return Err(refused(path)(TeacherError::NoHead(model)));
    }
    Ok(Some(Teacher {
        kind: found,
        path: path.clone(),
        fingerprint,
    }))
}

/// The best weights of a run, or their average if the run reports that, and the normalisation of its images.
fn of_run(
    path: &Path,
    student: &[String],
    device: &Device,
    notes: &mut Vec<Note>,
) -> Result<(Model, Normalization), TrainError> {
    let run = RunDir::open(path)?;
    let plan = load_plan(&run.config(), &[])?;
    let classes = run.read_classes()?;
    same_classes(&classes, student).map_err(refused(path))?;
    let config = plan.model.config(Some(classes.len()))?;
    let model = build_model(&plan, &config, device)?;
    let (model, warning) = load_checkpoint_model(&run, "best", plan.ema.report, model)?;
    notes.extend(warning.map(|warning| Note::new(0, Topic::Warning, warning)));
    Ok((model, Normalization::from(&plan.augment)))
}

/// A weight file for a named model.
fn of_weights(
    path: &Path,
    name: &str,
    classes: &[String],
    device: &Device,
) -> Result<Model, TrainError> {
    let section = ModelSection {
        name: name.to_owned(),
        ..ModelSection::default()
    };
    let config = section.config(Some(classes.len()))?;
    // All weights are replaced by those of the file.
    let model = config.init(device, Key::new(0))?;
    let loaded = model.load(&read_for(&config, path)?, LoadOptions::default());
    let (model, _) = loaded.map_err(|source| TrainError::TeacherWeights {
        path: path.to_owned(),
        source,
    })?;
    Ok(model)
}

fn refused(path: &Path) -> impl Fn(TeacherError) -> TrainError {
    let path = path.to_owned();
    move |problem| TrainError::Teacher {
        path: path.clone(),
        problem,
    }
}
