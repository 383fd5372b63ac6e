//! Reads and writes a run's folder at a start: configuration, classes, environment.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::config::{Plan, diff, load_plan, resolved_toml};
use crate::engine::TrainError;
use crate::run::{Environment, Note, RunDir, RunError, Topic};
use crate::splits::Splits;
use kvt_data::fs::write_text;

/// The images of a plan with their own classes, and the problem with the class list of a resumed run, if any. The list may be
/// wrong rather than the data: the checkpoint decides. It does not know names, so as many classes with other names are refused.
pub(super) fn open_splits(
    plan: &Plan,
    size: (usize, usize),
    classes: Option<(PathBuf, Result<Vec<String>, RunError>)>,
    generating: &mut dyn FnMut(usize, usize),
) -> Result<(Splits, Option<TrainError>), TrainError> {
    let splits = Splits::open(plan, size, None, generating);
    let Some((path, classes)) = classes else {
        return Ok((splits?, None));
    };
    if let (Ok(splits), Ok(classes)) = (&splits, &classes) {
        refuse_renamed(&path, classes, splits.classes())?;
    }
    let error = match classes {
        Ok(classes) => match &splits {
            Ok(splits) if splits.classes() == classes => None,
            _ => match Splits::open(plan, size, Some(&classes), generating) {
                Ok(_) => Some(TrainError::Run(RunError::Malformed {
                    path,
                    line: 1,
                    reason: "the order of the classes is not that of the data".to_owned(),
                })),
                Err(error) => Some(error.into()),
            },
        },
        Err(error) => Some(error.into()),
    };
    match (splits, error) {
        (Ok(splits), error) => Ok((splits, error)),
        (Err(_), Some(error)) => Err(error),
        (Err(error), None) => Err(error.into()),
    }
}

/// Rejects as many classes with other names, and names the first of both lists that the other lacks.
fn refuse_renamed(path: &Path, old: &[String], new: &[String]) -> Result<(), TrainError> {
    let first_not_in = |names: &[String], others: &[String]| {
        let others: HashSet<&String> = others.iter().collect();
        names.iter().find(|name| !others.contains(name)).cloned()
    };
    let is_as_long = old.len() == new.len();
    match (first_not_in(old, new), first_not_in(new, old)) {
        (Some(old), Some(new)) if is_as_long => Err(TrainError::ClassRenamed {
            path: path.to_owned(),
            old,
            new,
        }),
        _ => Ok(()),
    }
}

/// Writes the run's description and environment. The configuration makes the folder a run, so it comes last.
pub(super) fn record_start(
    run: &RunDir,
    plan: &Plan,
    splits: &Splits,
    environment: &Environment,
    notes: &mut Vec<Note>,
) -> Result<(), TrainError> {
    run.check()?;
    let warnings = environment
        .record(&run.environment())?
        .into_iter()
        .chain(run.warning());
    notes.extend(warnings.map(|warning| Note::new(0, Topic::Warning, warning.to_string())));
    run.write_classes(splits.classes())?;
    let config = resolved_toml(plan).map_err(Box::new)?;
    Ok(write_text(&run.config(), &config)?)
}

/// Refuses to resume with a configuration that would change the results; returns a note for each harmless difference.
pub(super) fn compare_with_started(run: &RunDir, plan: &Plan) -> Result<Vec<Note>, TrainError> {
    let started = load_plan(&run.config(), &[]).map_err(|error| TrainError::RunConfig {
        run: run.path().to_owned(),
        problem: error.to_string(),
    })?;
    let differences = diff(&started, plan).map_err(Box::new)?;
    let refused: Vec<String> = differences
        .iter()
        .filter(|difference| !difference.is_harmless)
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
