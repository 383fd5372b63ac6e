//! Whether runs can be compared at all: how they differ besides the model and the recipe.

use kvt_data::DataConfig;
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

impl RunFacts {
    /// Whether the classes of both runs are known and differ.
    fn differs_in_classes(&self, other: &Self) -> bool {
        let told = !self.classes.is_empty() && !other.classes.is_empty();
        told && self.classes != other.classes
    }
}

/// The images of a plan in words. Different paths to the same folder count as the same.
fn data(data: &DataConfig) -> String {
    let path = data
        .path
        .canonicalize()
        .unwrap_or_else(|_| data.path.clone());
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

/// Reasons why the numbers of these runs must not be compared, in sentences: each kind of difference once, with the first run
/// that differs from the very first.
pub(crate) fn unlike(runs: &[RunFacts]) -> Vec<String> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let names = |other: &RunFacts| format!("`{}` and `{}`", first.name, other.name);
    if let Some(other) = others.iter().find(|other| other.data != first.data) {
        found.push(format!(
            "{} are of different folders ({}; {}): if the images differ, their accuracies cannot be compared",
            names(other),
            first.data,
            other.data
        ));
    }
    if let Some(other) = others.iter().find(|other| other.differs_in_classes(first)) {
        let [one, two] = [first, other].map(|run| run.classes.len());
        let how = if one == two {
            format!("{one} each, with other names or in another order")
        } else {
            format!("{one} and {two}")
        };
        found.push(format!(
            "{} have different classes ({how}): their accuracies cannot be compared",
            names(other)
        ));
    }
    if let Some(other) = others.iter().find(|other| other.length != first.length) {
        found.push(format!(
            "{} are planned for {} and {}: their learning rates fall at different speeds, so compare `best` and `last` \
             with care, and no other column",
            names(other),
            first.length,
            other.length
        ));
    }
    found
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
        assert!(found[0].starts_with("`dense` and `other` are of different folders (`a`; `b`)"));
        assert!(
            found[1].contains("different classes (2 and 3)"),
            "{found:?}"
        );
        assert!(
            found[2].contains("planned for 10 epochs and 20 epochs"),
            "{found:?}"
        );
        let found = unlike(&[first, facts("order", "`a`", &["y", "x"], 10)]);
        assert!(found[0].contains("2 each, with other names"), "{found:?}");
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
