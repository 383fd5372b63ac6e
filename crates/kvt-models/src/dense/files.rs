//! What the files of all dense networks have in common.

use std::collections::BTreeSet;

use super::Pyramid;
use super::pyramid::{BACKBONE, is_used};
use crate::weights::{LoadReport, LoadRow, Misfit, Outcome, StateDict, WeightsError};

/// PyTorch's counter of batches, which nothing reads.
const COUNTER: &str = ".num_batches_tracked";

/// The names in a file that a network does not have, by what became of its parameters (`rows`). Counters of batch norms, and what
/// the backbone's classifier has, are passed over. Layers whose size depends on the number of classes begin with `classifiers`.
///
/// # Errors
///
/// If something is missing or has another shape.
pub(super) fn unused(
    rows: Vec<LoadRow>,
    state: &StateDict,
    pyramid: &Pyramid,
    classifiers: &[&str],
) -> Result<Vec<String>, WeightsError> {
    let report = LoadReport { rows };
    if !report.fits() {
        let misfit = misfit(&report, classifiers);
        return Err(WeightsError::Incompatible { report, misfit });
    }
    let rows = report.rows.iter();
    let known = rows.filter(|row| row.outcome != Outcome::Unused);
    let known: BTreeSet<&str> = known.map(|row| row.name.as_str()).collect();
    let family = pyramid.backbone.config.family();
    let is_of_classifier = |name: &str| {
        let name = name.strip_prefix(BACKBONE);
        name.is_some_and(|name| !is_used(family, name))
    };
    let others = state.iter().map(|(name, _)| name);
    let others = others.filter(|name| !known.contains(name) && !name.ends_with(COUNTER));
    let others = others.filter(|name| !is_of_classifier(name));
    Ok(others.map(str::to_owned).collect())
}

/// Which parts of the network do not fit.
fn misfit(report: &LoadReport, classifiers: &[&str]) -> Misfit {
    let of_classes = |row: &LoadRow| classifiers.iter().any(|part| row.name.starts_with(part));
    let is_misfit = |row: &&LoadRow| matches!(row.outcome, Outcome::Missing | Outcome::Mismatched);
    if report.rows.iter().filter(is_misfit).all(of_classes) {
        Misfit::Head
    } else {
        Misfit::Others
    }
}
