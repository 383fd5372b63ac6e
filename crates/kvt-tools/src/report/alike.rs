//! Whether runs can be compared at all: how they differ besides the model and the recipe.

use std::path::{Path, PathBuf};

use crate::groups::{grouped, unique};
use kvt_data::DataConfig;
use kvt_data::text::quoted;
use kvt_train::config::Plan;

/// Facts about a run, besides its numbers, that decide whether it can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// The run's name in messages.
    pub name: String,
    /// Its images, in words: the folder, the splits, and how many are trained on.
    pub data: String,
    /// Its classes, in label order.
    pub classes: Vec<String>,
    /// The length of its plan, in words.
    pub length: String,
}

impl RunFacts {
    /// The facts of a run of a plan on these classes.
    pub fn new(name: impl Into<String>, plan: &Plan, classes: Vec<String>) -> Self {
        Self {
            name: name.into(),
            data: data(&plan.data),
            classes,
            length: plan.length(),
        }
    }
}

/// The images of a plan in words. Different paths to the same folder count as the same.
fn data(data: &DataConfig) -> String {
    let path = canonical(&data.path);
    let mut text = format!("`{}`", path.display());
    let default = DataConfig::default();
    match data.val_fraction {
        0.0 if (&data.train, &data.val) == (&default.train, &default.val) => {}
        0.0 => text += &format!(", `{}` and `{}`", data.train, data.val),
        share => text += &format!(", {share} of it to validate"),
    }
    if !data.labels.is_empty() {
        text += &format!(", labels of `{}`", data.labels);
    }
    if data.subset > 0 {
        text += &format!(", {} images of it", data.subset);
    }
    text
}

/// The canonical path, if it can be determined.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Reasons why the numbers of these runs must not be compared, in sentences: each kind of difference once.
pub(crate) fn unlike(runs: &[RunFacts]) -> Vec<String> {
    let all: Vec<&RunFacts> = runs.iter().collect();
    let mut found = Vec::new();
    if let Some(folders) = groups(&all, |run| &run.data, String::clone) {
        found.push(format!(
            "the runs are of different folders ({folders}): if the images differ, their accuracies cannot be compared"
        ));
    }
    // Unknown classes may be the same.
    let mut told = all.clone();
    told.retain(|run| !run.classes.is_empty());
    let number = |classes: &Vec<String>| classes.len().to_string();
    if let Some(classes) = groups(&told, |run| &run.classes, number) {
        found.push(format!(
            "the runs have different classes, by number, name or order ({classes}): their accuracies cannot be compared"
        ));
    }
    if let Some(lengths) = groups(&all, |run| &run.length, String::clone) {
        found.push(format!(
            "the runs are planned for different lengths ({lengths}): their learning rates fall at different speeds, so compare `best` \
             and `last` with care, and no other column"
        ));
    }
    found
}

/// The most groups of runs in a sentence.
const GROUPS: usize = 5;

/// The runs with the same value together, and the values in words; `None` if it is one for all runs.
fn groups<T: PartialEq>(
    runs: &[&RunFacts],
    value: impl Fn(&RunFacts) -> &T,
    words: impl Fn(&T) -> String,
) -> Option<String> {
    let groups = grouped(runs.iter().map(|run| (value(run), run.name.clone())));
    let count = groups.len();
    if count < 2 {
        return None;
    }
    // The seeds of a configuration have one name.
    let told =
        |(value, names): (&T, Vec<String>)| format!("{}: {}", quoted(&unique(names)), words(value));
    let mut told: Vec<String> = groups.into_iter().take(GROUPS).map(told).collect();
    if count > GROUPS {
        told.push(format!("and {} more", count - GROUPS));
    }
    Some(told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str, data: &str, classes: &[&str], epochs: u32) -> RunFacts {
        RunFacts {
            name: name.to_owned(),
            data: data.to_owned(),
            classes: classes.iter().map(|&class| class.to_owned()).collect(),
            length: format!("{epochs} epochs"),
        }
    }

    #[test]
    fn each_difference_is_said_once() {
        let first = facts("dense", "`a`", &["x", "y"], 10);
        let same = facts("knn", "`a`", &["x", "y"], 10);
        assert_eq!(unlike(&[]), Vec::<String>::new());
        assert_eq!(unlike(&[first.clone(), same.clone()]), Vec::<String>::new());
        // Unknown classes do not count as a difference.
        let unknown = facts("lost", "`a`", &[], 10);
        assert_eq!(unlike(&[first.clone(), unknown]), Vec::<String>::new());
        let runs = [
            first.clone(),
            same,
            facts("other", "`b`", &["x", "y", "z"], 20),
            facts("more", "`c`", &["x"], 30),
        ];
        let found = unlike(&runs);
        assert_eq!(found.len(), 3, "{found:?}");
        // Every run is named.
        for (found, expected) in found.iter().zip([
            "different folders (`dense`, `knn`: `a`; `other`: `b`; `more`: `c`): ",
            "number, name or order (`dense`, `knn`: 2; `other`: 3; `more`: 1): ",
            "lengths (`dense`, `knn`: 10 epochs; `other`: 20 epochs; `more`: 30 epochs): ",
        ]) {
            assert!(found.contains(expected), "{found}");
        }
        let found = unlike(&[first, facts("order", "`a`", &["y", "x"], 10)]);
        assert!(found[0].contains("(`dense`: 2; `order`: 2)"), "{found:?}");
        let many = (0..8).map(|folder| facts("seeds", &folder.to_string(), &[], 10));
        let found = unlike(&many.collect::<Vec<_>>());
        assert!(
            found[0].contains("; `seeds`: 4; and 3 more): "),
            "{found:?}"
        );
    }

    #[test]
    fn a_part_of_the_images_is_other_data() {
        let plain = DataConfig::default();
        let some = DataConfig {
            subset: 100,
            ..plain.clone()
        };
        let split = DataConfig {
            val_fraction: 0.2,
            ..plain.clone()
        };
        let test = DataConfig {
            val: "test".to_owned(),
            ..plain.clone()
        };
        let texts = [&plain, &some, &split, &test].map(data);
        let different: std::collections::BTreeSet<_> = texts.iter().collect();
        assert_eq!(different.len(), 4, "{texts:?}");
        // Another path to the same folder.
        let [one, two] = [".", "./../."].map(|path| {
            let mut folder = plain.clone();
            folder.path = path.into();
            data(&folder)
        });
        assert_ne!(one, two);
        let [one, two] = [".", "./."].map(|path| {
            let mut folder = plain.clone();
            folder.path = path.into();
            data(&folder)
        });
        assert_eq!(one, two);
    }
}
