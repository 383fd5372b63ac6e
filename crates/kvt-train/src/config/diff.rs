//! Whether a run may go on with another configuration.

use std::collections::BTreeMap;
use std::fmt;

use super::plan::Plan;
use super::resolved::entries;

/// What may change when a run is resumed; a name with a dot at its end stands for the whole section.
///
/// These only say where and how fast a run is computed, what it writes down, where its images are, and whether it goes on
/// past a broken file. Everything else is part of the mathematics of the run or of the data it sees. That the images in
/// another place are the same is checked by the checkpoint's record of them.
const HARMLESS: &[&str] = &[
    "run.",
    "log.",
    "checkpoint.",
    "data.path",
    "data.workers",
    "data.prefetch",
    "data.on_error",
    "data.max_skipped",
    "data.max_pixels",
    "data.check_sizes",
    "eval.batch_size",
    "train.device",
    "train.max_steps",
];

/// What a difference means for a run that is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The run computes the same.
    Harmless,
    /// It would be another run.
    Refused,
}

/// A key that two plans set differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Dotted key.
    pub key: String,
    /// The old value as TOML; `None` if it was not set.
    pub old: Option<String>,
    /// The new value as TOML; `None` if it is not set.
    pub new: Option<String>,
    /// What it means for a run that is resumed.
    pub effect: Effect,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| match value {
            Some(value) => format!("`{value}`"),
            None => "not set".to_owned(),
        };
        let (old, new) = (shown(&self.old), shown(&self.new));
        write!(f, "`{}`: {old} -> {new}", self.key)
    }
}

/// The keys in which two plans differ, in alphabetical order.
#[must_use]
pub fn diff(old: &Plan, new: &Plan) -> Vec<Difference> {
    let text = |plan| {
        entries(plan)
            .into_iter()
            .map(|(key, value)| (key, value.to_string()))
    };
    let mut pairs: BTreeMap<&str, (Option<String>, Option<String>)> = BTreeMap::new();
    for (key, value) in text(old) {
        pairs.entry(key).or_default().0 = Some(value);
    }
    for (key, value) in text(new) {
        pairs.entry(key).or_default().1 = Some(value);
    }
    pairs
        .into_iter()
        .filter(|(_, (old, new))| old != new)
        .map(|(key, (old, new))| Difference {
            key: key.to_owned(),
            old,
            new,
            effect: effect(key),
        })
        .collect()
}

fn effect(key: &str) -> Effect {
    let listed = |name: &&str| key == *name || (name.ends_with('.') && key.starts_with(*name));
    if HARMLESS.iter().any(listed) {
        Effect::Harmless
    } else {
        Effect::Refused
    }
}
