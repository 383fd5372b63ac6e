//! Which runs share a row and a line: those that differ by their seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::curves::by_label;
use super::read::label_of;
use super::{Curve, ReportError};
use kvt_train::config::{Plan, diff};

/// The sections and keys that change no number of a run, but where and how fast it is computed, and what is recorded.
const NEUTRAL: [&str; 13] = [
    "analysis",
    "checkpoint",
    "data.cache",
    "data.check_sizes",
    "data.prefetch",
    "data.workers",
    "eval.batch_size",
    "log",
    "report",
    "run",
    "seed",
    "train.device",
    "train.max_hours",
];

/// About how many letters fit in the title of a plot.
const LETTERS: usize = 70;

/// How a run may be called, from short to long; the last name is its own.
pub(crate) type RunNames = [String; 3];

/// The names of a run with this name of its folder: short without the suffix of its seed.
pub(crate) fn names_of(name: &str, folder: &Path, seed: u64) -> RunNames {
    let path = folder.display().to_string();
    let short = |name: &str| label_of(name, seed).to_owned();
    [short(name), short(&path), path]
}

/// The label of each run, and why some have a longer name, in sentences.
///
/// Runs with the same label are averaged. So runs that share a name, but not all settings except the seed, or also the seed, get
/// their next longer name.
///
/// # Errors
/// If the settings of two plans cannot be compared.
pub(crate) fn labels(
    runs: &[(RunNames, &Plan)],
) -> Result<(Vec<String>, Vec<String>), ReportError> {
    let mut places = vec![0; runs.len()];
    let mut notes = Vec::new();
    for place in 0..2 {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (run, (names, _)) in runs.iter().enumerate() {
            if places[run] == place {
                groups.entry(&names[place]).or_default().push(run);
            }
        }
        for (name, group) in groups {
            let plans = group.iter().map(|run| runs[*run].1);
            let Some(why) = unlike(&plans.collect::<Vec<_>>())? else {
                continue;
            };
            group.iter().for_each(|run| places[*run] = place + 1);
            if place == 0 {
                notes.push(format!(
                    "runs called `{name}` {why}: they are not averaged, and named by their paths"
                ));
            }
        }
    }
    let labels = runs
        .iter()
        .zip(places)
        .map(|((names, _), place)| names[place].clone());
    Ok((labels.collect(), notes))
}

/// Why runs are not seeds of one configuration, in words; `None` if they are.
fn unlike(plans: &[&Plan]) -> Result<Option<String>, ReportError> {
    let Some((first, others)) = plans.split_first() else {
        return Ok(None);
    };
    let mut seeds = BTreeSet::from([first.seed]);
    for other in others {
        let all = diff(first, other).map_err(Box::new)?;
        let differing = all.iter().map(|one| one.key.as_str());
        let keys: Vec<&str> = differing.filter(|key| !is_neutral(key)).collect();
        if !keys.is_empty() {
            return Ok(Some(format!("differ in `{}`", keys.join("`, `"))));
        }
        if !seeds.insert(other.seed) {
            return Ok(Some(format!("have the same seed, {}", other.seed)));
        }
    }
    Ok(None)
}

fn is_neutral(key: &str) -> bool {
    NEUTRAL.iter().any(|neutral| {
        let rest = key.strip_prefix(neutral);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// A common heading for runs: their labels.
pub(crate) fn heading(curves: &[Curve]) -> String {
    let names = by_label(curves).into_iter().map(|(label, _)| label);
    in_words(&names.collect::<Vec<_>>())
}

/// Names in a sentence: `a, b and c`.
pub(super) fn in_words(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// A title of plots of runs: their labels, or their number if they do not fit.
pub(crate) fn title(curves: &[Curve]) -> String {
    match heading(curves) {
        text if text.chars().count() <= LETTERS => text,
        _ => format!("{} models", by_label(curves).len()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use kvt_train::config::Document;

    fn plan(set: &[&str]) -> Plan {
        let text = "[model]\nname = \"deit_tiny_patch16_224\"\n[data]\npath = \"photos\"\n";
        let set: Vec<String> = set.iter().map(|&key| key.to_owned()).collect();
        let document = Document::of_words("test", text.to_owned(), &set).unwrap();
        document.plan().unwrap()
    }

    /// Runs by their folder and their settings.
    fn labelled(runs: &[(&str, &[&str])]) -> (Vec<String>, Vec<String>) {
        let plans: Vec<Plan> = runs.iter().map(|(_, set)| plan(set)).collect();
        let named = runs.iter().zip(&plans).map(|((path, _), plan)| {
            let name = path.rsplit('/').next().unwrap();
            let short = |name: &str| label_of(name, plan.seed).to_owned();
            ([short(name), short(path), (*path).to_owned()], plan)
        });
        labels(&named.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn seeds_of_one_configuration_share_a_label() {
        let (labels, notes) = labelled(&[
            ("x/knn-seed0", &["seed=0"]),
            // Where it was computed and what was recorded is no matter.
            (
                "x/knn-seed1",
                &[
                    "seed=1",
                    "train.device=cuda:1",
                    "log.every_steps=7",
                    "report.auto=false",
                    "run.dir=elsewhere",
                    "train.max_hours=7.5",
                ],
            ),
            ("y/knn-seed2", &["seed=2"]),
            ("x/dense", &["optim.lr=1"]),
        ]);
        assert_eq!(labels, ["knn", "knn", "knn", "dense"]);
        assert_eq!(notes, Vec::<String>::new());
    }

    #[test]
    fn other_settings_or_the_same_seed_do_not() {
        let (labels, notes) = labelled(&[
            ("x/photos", &["seed=0"]),
            ("y/photos", &["seed=1", "optim.lr=1", "data.path=faces"]),
        ]);
        assert_eq!(labels, ["x/photos", "y/photos"]);
        let expected = "runs called `photos` differ in `data.path`, `optim.lr`: they are not averaged, and named by their paths";
        assert_eq!(notes, [expected]);
        let (labels, notes) = labelled(&[("x/photos", &["seed=3"]), ("y/photos", &["seed=3"])]);
        assert_eq!(labels, ["x/photos", "y/photos"]);
        assert!(notes[0].contains("have the same seed, 3:"), "{notes:?}");
    }

    /// The seeds in each of two folders are those of one configuration.
    #[test]
    fn a_longer_name_is_shared_by_seeds() {
        let (labels, _) = labelled(&[
            ("x/knn-seed0", &["seed=0"]),
            ("x/knn-seed1", &["seed=1"]),
            ("y/knn-seed0", &["seed=0", "optim.lr=1"]),
            ("y/knn-seed1", &["seed=1", "optim.lr=1"]),
            // A folder of one name with another configuration.
            ("z/knn-seed0", &["seed=0"]),
            ("z/knn-seed1", &["seed=1", "optim.lr=2"]),
        ]);
        assert_eq!(
            labels,
            [
                "x/knn",
                "x/knn",
                "y/knn",
                "y/knn",
                "z/knn-seed0",
                "z/knn-seed1"
            ]
        );
    }

    #[test]
    fn a_title_names_what_is_compared() {
        let of = |labels: &[&str]| {
            let curves = labels.iter().map(|&label| Curve {
                label: label.to_owned(),
                seed: 0,
                epochs: Vec::new(),
            });
            title(&curves.collect::<Vec<_>>())
        };
        assert_eq!(of(&["cait"]), "cait");
        assert_eq!(of(&["cait", "pit", "cait"]), "cait and pit");
        assert_eq!(of(&["cait", "pit", "swin"]), "cait, pit and swin");
        let long = "x".repeat(40);
        assert_eq!(of(&[&long, &format!("{long}y")]), "2 models");
    }

    #[test]
    fn a_key_with_the_name_of_a_neutral_one_within_counts() {
        assert!(is_neutral("run.dir") && is_neutral("seed") && is_neutral("log.every_steps"));
        assert!(!is_neutral("data.shapes.seed") && !is_neutral("data.workers_more"));
    }
}
