//! Merged configuration files and overrides, and their conversion to a [`Plan`].

use std::path::Path;

use super::layers::{LARGEST_FILE, Node, NodeValue, Tree, find, read};
use super::problem::{ConfigError, Location, Problem};
use super::reference::{field, join, section as known_section};
use super::suggest::{closest, unknown_key, unknown_section};
use super::{Plan, rules};
use kvt_data::schema::{of_kind, refusals, words};
use kvt_data::text::read_text;

/// Merged configuration files and overrides; [`plan`](Document::plan) checks and completes them.
#[derive(Debug)]
pub struct Document {
    origin: Location,
    root: Tree,
    /// Whether the overrides are also for other documents.
    is_shared: bool,
}

impl Document {
    /// Reads the file at `path`, its bases, and `overrides` of the form `section.key=value`.
    ///
    /// # Errors
    /// If a file cannot be read or is not TOML, if bases form a cycle, or if an override is not `KEY=VALUE`.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        Self::from_text(path, read_text(path, LARGEST_FILE)?, overrides)
    }

    /// As [`load`](Self::load), with the text of the file already read; `path` names it in messages, and its `base` is
    /// relative to it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_text(path: &Path, text: String, overrides: &[String]) -> Result<Self, ConfigError> {
        Self::new(Location::File(path.to_path_buf()), text, overrides)
    }

    /// A configuration without a file: a text that kvt generated from the user's `words`, such as `--model NAME`. Messages
    /// show these words, without a line and a column of the generated text; with empty words, they show nothing.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn of_words(words: &str, text: String, overrides: &[String]) -> Result<Self, ConfigError> {
        Self::new(Location::Said(words.to_owned()), text, overrides)
    }

    fn new(origin: Location, text: String, overrides: &[String]) -> Result<Self, ConfigError> {
        Ok(Self {
            root: read(&origin, text, overrides)?,
            origin,
            is_shared: false,
        })
    }

    /// This document with overrides that were given for several: settings for another kind of attention than this
    /// document's are not rejected.
    #[must_use]
    pub fn shared(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// The name of the configuration: its file name without the extension.
    #[must_use]
    pub fn name(&self) -> String {
        let stem = match &self.origin {
            Location::File(path) => path.file_stem(),
            _ => None,
        };
        stem.map_or_else(
            || "run".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    }

    /// The value of a dotted key such as `train.epochs` as it is set, valid or not; `None` if it is not set.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&toml::Value> {
        Some(self.leaf(key)?.0)
    }

    /// The complete plan.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every key that is unknown or missing, and every value that is wrong.
    pub fn plan(&self) -> Result<Plan, ConfigError> {
        self.complete(true)
    }

    /// A plan without data, for operations that only need a model and a device.
    ///
    /// # Errors
    /// As [`plan`](Self::plan), but the data may be missing.
    pub fn plan_without_data(&self) -> Result<Plan, ConfigError> {
        self.complete(false)
    }

    /// Checks every key, makes a plan of the valid ones, and applies the rules over several keys. Invalid values are
    /// replaced by their defaults, so that one mistake does not hide another.
    fn complete(&self, with_data: bool) -> Result<Plan, ConfigError> {
        let mut checks = Checks {
            document: self,
            problems: Vec::new(),
            refused: Vec::new(),
            misnamed: false,
        };
        let mut known = checks.known("", &self.root);
        rules::leave_other_tasks(&mut known, &mut checks);
        rules::leave_other_kinds(&mut known, &mut checks);
        let unreadable = |error: toml::de::Error| {
            let message = format!("not a configuration: {}", error.message());
            ConfigError::invalid(vec![Problem::new(self.origin.clone(), message)])
        };
        let mut plan = toml::Value::Table(known).try_into().map_err(unreadable)?;
        rules::complete(&mut plan, with_data, &mut checks);
        match checks.problems {
            problems if problems.is_empty() => Ok(plan),
            problems => Err(ConfigError::invalid(problems)),
        }
    }

    /// The value of a dotted key and where it was last set, if it is set.
    fn leaf(&self, key: &str) -> Option<(&toml::Value, Location)> {
        let node = find(&self.root, key)?;
        match &node.value {
            NodeValue::Leaf(value) => Some((value, node.value_place())),
            NodeValue::Table(_) => None,
        }
    }

    /// Whether `key` was set for a value of `choice` that a later file or override changed, or for other documents.
    pub(super) fn is_for_another(&self, key: &str, choice: &str) -> bool {
        let depth = |key: &str| find(&self.root, key).map(Node::depth);
        match (depth(key), depth(choice)) {
            (Some(0), _) if self.is_shared => true,
            (Some(key), Some(choice)) => choice < key,
            _ => false,
        }
    }
}

/// Collects problems, so that one run reports them all.
pub(super) struct Checks<'a> {
    pub(super) document: &'a Document,
    pub(super) problems: Vec<Problem>,
    /// Keys whose value was rejected.
    refused: Vec<String>,
    /// Whether a key or section is unknown: it may be a misspelling of one that seems to be missing.
    pub(super) misnamed: bool,
}

impl Checks<'_> {
    /// Where a key was last set, or the file as a whole.
    pub(super) fn place(&self, key: &str) -> Location {
        self.set_place(key)
            .unwrap_or_else(|| self.document.origin.clone())
    }

    /// Where a key was last set, if it is set.
    pub(super) fn set_place(&self, key: &str) -> Option<Location> {
        Some(self.document.leaf(key)?.1)
    }

    /// Whether a key is set.
    pub(super) fn sets(&self, key: &str) -> bool {
        self.document.leaf(key).is_some()
    }

    /// Gives a key a default that depends on other keys, unless it is set.
    pub(super) fn by_default<T>(&self, key: &str, value: &mut T, default: T) {
        if !self.sets(key) {
            *value = default;
        }
    }

    /// Whether the value of a key was rejected.
    pub(super) fn refuses(&self, key: &str) -> bool {
        self.refused.iter().any(|refused| refused == key)
    }

    /// Rejects the value of a key, at the place where it was set, unless it was rejected already.
    pub(super) fn refuse(&mut self, key: &str, value: &str, expected: &str) {
        if !self.refuses(key) {
            self.reject(key, value, expected);
        }
    }

    /// Rejects a value, which may be one of several of a key.
    fn reject(&mut self, key: &str, value: &str, expected: &str) {
        self.refused.push(key.to_owned());
        let message = format!("invalid value `{value}` for `{key}`: expected {expected}");
        let mut problem = Problem::new(self.place(key), message);
        let words = field(key).map_or_else(Vec::new, |field| words(&field.schema));
        if let Some(word) = closest(value.trim_matches('"'), words.into_iter()) {
            problem = problem.help(format!("did you mean `\"{word}\"`?"));
        }
        self.problems.push(problem);
    }

    /// Reports a key that conflicts with others, if it is set.
    pub(super) fn conflict(
        &mut self,
        key: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if let Some(place) = self.set_place(key) {
            self.problems.push(Problem::new(place, message).help(help));
        }
    }

    /// Reports a key that is set while the choice is not that it belongs to: an explicit choice can disable the key of a base, a missing
    /// one cannot.
    pub(super) fn needs(&mut self, key: &str, choice: &str, help: &str) {
        if !self.sets(choice) && !self.refuses(key) {
            let message = format!("`{key}` is set, but `{choice}` is not");
            self.conflict(key, message, help);
        }
    }

    /// Reports a key that is not set.
    pub(super) fn missing(&mut self, key: &str, help: &str) {
        if !self.misnamed {
            let place = self.document.origin.clone();
            let problem = Problem::new(place, format!("missing key `{key}`"));
            self.problems.push(problem.help(help));
        }
    }

    /// Copies what is known and allowed, and reports the rest.
    fn known(&mut self, section: &str, table: &Tree) -> toml::Table {
        let mut known = toml::Table::new();
        let kind = chosen_kind(section, table);
        for (key, node) in table {
            let path = join(section, key);
            let problem = match (&node.value, known_section(&path), field(&path)) {
                (NodeValue::Table(inner), Some(_), _) => {
                    let inner = self.known(&path, inner);
                    known.insert(key.clone(), toml::Value::Table(inner));
                    continue;
                }
                (NodeValue::Leaf(value), _, Some(field)) => {
                    let refusals = refusals(of_kind(&field.schema, kind), value);
                    if refusals.is_empty() {
                        known.insert(key.clone(), value.clone());
                    }
                    for refusal in refusals {
                        self.reject(&path, &refusal.value, &refusal.expected);
                    }
                    continue;
                }
                (NodeValue::Leaf(_), Some(_), _) => Problem::new(
                    node.value_place(),
                    format!("`{path}` is a section, not a value"),
                )
                .help(format!("put its keys under `[{path}]`")),
                (NodeValue::Table(_), _, Some(_)) => Problem::new(
                    node.key_place(),
                    format!("`{path}` is a value, not a section"),
                ),
                (NodeValue::Table(_), ..) => unknown_section(&path, node.key_place()),
                (NodeValue::Leaf(_), ..) => unknown_key(section, key, node.key_place()),
            };
            self.misnamed = true;
            self.problems.push(problem);
        }
        known
    }
}

/// The `kind` of a section, or its default; empty if there is neither.
fn chosen_kind<'a>(section: &str, table: &'a Tree) -> &'a str {
    match table.get("kind").map(|node| &node.value) {
        Some(NodeValue::Leaf(value)) => value.as_str().unwrap_or_default(),
        _ => field(&join(section, "kind"))
            .and_then(|field| field.schema.get("default")?.as_str())
            .unwrap_or_default(),
    }
}
