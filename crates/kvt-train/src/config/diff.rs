//! Whether a run can continue with a changed configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Plan;
use super::problem::ConfigError;
use super::reference::{field, join};

/// A key with different values in two plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Dotted key.
    pub key: String,
    /// The old value as TOML; `None` if it was not set.
    pub old: Option<String>,
    /// The new value as TOML; `None` if it is not set.
    pub new: Option<String>,
    /// Whether a run that is resumed computes the same results: the key only affects where and how fast it is computed, what is
    /// recorded, where the images are, or whether the run continues after a broken file. The checkpoint's record of the images
    /// ensures that images in another location are the same. With another key it would be a different run: the key affects its
    /// mathematics or its data.
    pub is_harmless: bool,
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
///
/// # Errors
/// If TOML cannot represent a value of a plan.
pub fn diff(old: &Plan, new: &Plan) -> Result<Vec<Difference>, ConfigError> {
    let (old, new) = (entries(old)?, entries(new)?);
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differing = keys
        .into_iter()
        .filter(|key| old.get(*key) != new.get(*key));
    Ok(differing
        .map(|key| Difference {
            key: key.clone(),
            old: old.get(key).cloned(),
            new: new.get(key).cloned(),
            is_harmless: field(key).is_some_and(|field| field.is_free),
        })
        .collect())
}

/// Every key that the plan sets, with its value in TOML.
pub(super) fn entries(plan: &Plan) -> Result<BTreeMap<String, String>, ConfigError> {
    let leaves = leaves(toml::Table::try_from(plan)?).into_iter();
    Ok(leaves
        .map(|(key, value)| (key, value.to_string()))
        .collect())
}

/// The values of a table and of the tables in it, by their dotted keys.
pub(crate) fn leaves(table: toml::Table) -> BTreeMap<String, toml::Value> {
    fn add(section: &str, table: toml::Table, leaves: &mut BTreeMap<String, toml::Value>) {
        for (key, value) in table {
            let key = join(section, &key);
            match value {
                toml::Value::Table(inner) => add(&key, inner, leaves),
                value => drop(leaves.insert(key, value)),
            }
        }
    }
    let mut leaves = BTreeMap::new();
    add("", table, &mut leaves);
    leaves
}
