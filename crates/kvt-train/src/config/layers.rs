//! Files, their bases and `--set` overrides, merged into one tree in which every value keeps its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::document::LARGEST_FILE;
use super::problem::{ConfigError, Place, Problem};
use super::reference::{join, section as known_section};
use crate::text::read_text;

/// Parts of a key: more than any key has, and few enough to walk through by recursion.
const DEEPEST_KEY: usize = 16;

/// A value and where it was last set.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) value: NodeValue,
}

#[derive(Clone, Debug)]
pub(super) enum NodeValue {
    Table(BTreeMap<String, Node>),
    Leaf(toml::Value),
}

/// Index of a source and byte ranges in its text.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    source: usize,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

#[derive(Debug)]
enum Source {
    File { path: PathBuf, text: String },
    Override(String),
}

/// Everything that was read, and its sum.
#[derive(Debug)]
pub(super) struct Layers {
    sources: Vec<Source>,
    pub(super) root: BTreeMap<String, Node>,
}

impl Layers {
    /// Merges `text`, its bases below it and `overrides` above it.
    pub(super) fn read(
        path: &Path,
        text: String,
        overrides: &[String],
    ) -> Result<Self, ConfigError> {
        let mut layers = Self {
            sources: Vec::new(),
            root: BTreeMap::new(),
        };
        let files = layers.read_chain(path, text).map_err(one)?;
        // The chain runs from the file to its last base; the file has the last word.
        for table in files.into_iter().rev() {
            merge(&mut layers.root, table, "");
        }
        let mut problems = Vec::new();
        for argument in overrides {
            match layers.read_override(argument) {
                Ok(table) => merge(&mut layers.root, table, ""),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() {
            Ok(layers)
        } else {
            Err(ConfigError::invalid(problems))
        }
    }

    fn read_chain(
        &mut self,
        path: &Path,
        text: String,
    ) -> Result<Vec<BTreeMap<String, Node>>, Problem> {
        let mut tables = Vec::new();
        // Shown paths for messages, and canonical ones to tell whether two are the same file.
        let mut chain = vec![(path.to_path_buf(), canonical(path))];
        let mut path = path.to_path_buf();
        let mut text = text;
        loop {
            let source = self.sources.len();
            let parsed = parse(source, &text).map_err(|error| syntax(&path, &text, &error));
            self.sources.push(Source::File {
                path: path.clone(),
                text,
            });
            let mut table = parsed?;
            let Some(base) = table.remove("base") else {
                tables.push(table);
                return Ok(tables);
            };
            tables.push(table);

            let NodeValue::Leaf(toml::Value::String(name)) = &base.value else {
                let message = "invalid value for `base`: expected the path of a file".to_owned();
                return Err(Problem::new(self.value_place(&base.origin), message));
            };
            let next = path.parent().unwrap_or(Path::new("")).join(name);
            let known = canonical(&next);
            let circle = chain.iter().any(|(_, seen)| *seen == known);
            chain.push((next.clone(), known));
            if circle {
                let names: Vec<String> = chain
                    .iter()
                    .map(|(shown, _)| format!("`{}`", shown.display()))
                    .collect();
                let message = format!("`base` goes in a circle: {}", names.join(" -> "));
                return Err(Problem::new(self.value_place(&base.origin), message));
            }
            text = read_text(&next, LARGEST_FILE).map_err(|error| {
                let message = format!("cannot read the base: {error}");
                Problem::new(self.value_place(&base.origin), message)
                    .help("`base` is relative to the file that names it")
            })?;
            path = next;
        }
    }

    fn read_override(&mut self, argument: &str) -> Result<BTreeMap<String, Node>, Problem> {
        let origin = Origin {
            source: self.sources.len(),
            ..Origin::default()
        };
        self.sources.push(Source::Override(argument.to_owned()));
        let refuse = |message: &str, help: &str| {
            Problem::new(Place::Override(argument.to_owned()), message).help(help)
        };

        let usage = "expected `KEY=VALUE`, such as `train.epochs=10`";
        let Some((path, value)) = argument.split_once('=') else {
            return Err(refuse("no value", usage));
        };
        let keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
        if keys.iter().any(|key| key.is_empty()) {
            return Err(refuse("empty key", usage));
        }
        if keys == ["base"] {
            let message = "`base` cannot be set from outside a file";
            return Err(refuse(message, "give the file itself instead"));
        }
        if keys.len() > DEEPEST_KEY {
            return Err(refuse("no key has so many parts", usage));
        }

        // What is no TOML is a word: names and paths need no quotes within the shell's.
        let value = value.trim();
        let value = match parse_value(origin.source, value) {
            Ok(value) => value,
            Err(_) if value.contains(['\n', '\r']) => {
                return Err(refuse(
                    "the value has several lines",
                    "give each key a `--set` of its own",
                ));
            }
            Err(_) => NodeValue::Leaf(toml::Value::String(value.to_owned())),
        };
        let mut node = Node {
            origin: origin.clone(),
            value,
        };
        let mut keys = keys.into_iter();
        let first = keys.next().unwrap_or_default();
        for key in keys.rev() {
            node = Node {
                origin: origin.clone(),
                value: NodeValue::Table(BTreeMap::from([(key.to_owned(), node)])),
            };
        }
        Ok(BTreeMap::from([(first.to_owned(), node)]))
    }

    /// The node at a path of keys, or the deepest one above it.
    pub(super) fn nearest(&self, keys: &[&str]) -> Option<&Node> {
        let mut found = None;
        let mut table = &self.root;
        for key in keys {
            let Some(node) = table.get(*key) else { break };
            found = Some(node);
            match &node.value {
                NodeValue::Table(inner) => table = inner,
                NodeValue::Leaf(_) => break,
            }
        }
        found
    }

    pub(super) fn key_place(&self, origin: &Origin) -> Place {
        self.place(origin.source, &origin.key)
    }

    pub(super) fn value_place(&self, origin: &Origin) -> Place {
        self.place(origin.source, &origin.value)
    }

    /// The file that was asked for, for what no source says.
    pub(super) fn main_place(&self) -> Place {
        match self.sources.first() {
            Some(Source::File { path, .. }) => Place::File(path.clone()),
            _ => Place::File(PathBuf::new()),
        }
    }

    fn place(&self, source: usize, range: &Range<usize>) -> Place {
        match self.sources.get(source) {
            Some(Source::File { path, text }) => Place::span(path, text, range),
            Some(Source::Override(argument)) => Place::Override(argument.clone()),
            None => Place::File(PathBuf::new()),
        }
    }
}

fn one(problem: Problem) -> ConfigError {
    ConfigError::invalid(vec![problem])
}

fn canonical(path: &Path) -> PathBuf {
    fs_err::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Problem {
    let place = match error.span() {
        Some(range) => Place::span(path, text, &range),
        None => Place::File(path.to_path_buf()),
    };
    let message = error.message().replace('\n', ", ");
    Problem::new(place, format!("not valid TOML: {message}"))
}

fn parse(source: usize, text: &str) -> Result<BTreeMap<String, Node>, toml::de::Error> {
    convert_table(source, DeTable::parse(text)?.into_inner())
}

/// One value, and nothing after it.
fn parse_value(source: usize, text: &str) -> Result<NodeValue, toml::de::Error> {
    convert_value(source, DeValue::parse(text)?)
}

fn convert_table(
    source: usize,
    table: DeTable<'_>,
) -> Result<BTreeMap<String, Node>, toml::de::Error> {
    table
        .into_iter()
        .map(|(key, value)| {
            let origin = Origin {
                source,
                key: key.span(),
                value: value.span(),
            };
            let node = Node {
                origin,
                value: convert_value(source, value)?,
            };
            Ok((key.into_inner().into_owned(), node))
        })
        .collect()
}

fn convert_value(source: usize, value: Spanned<DeValue<'_>>) -> Result<NodeValue, toml::de::Error> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => convert_table(source, table).map(NodeValue::Table),
        leaf => toml::Value::deserialize(ValueDeserializer::from(Spanned::new(span, leaf)))
            .map(NodeValue::Leaf),
    }
}

/// Tables merge key by key; everything else is replaced.
///
/// Where a section meets a value, one of them is a mistake: that one stays, so that it is reported.
fn merge(below: &mut BTreeMap<String, Node>, above: BTreeMap<String, Node>, section: &str) {
    let is_section = |path: &str| known_section(path).is_some();
    for (key, node) in above {
        let Some(old) = below.get_mut(&key) else {
            below.insert(key, node);
            continue;
        };
        let path = join(section, &key);
        match (&mut old.value, node.value) {
            (NodeValue::Table(old), NodeValue::Table(new)) => merge(old, new, &path),
            (NodeValue::Table(_), NodeValue::Leaf(_)) if !is_section(&path) => {}
            (NodeValue::Leaf(_), NodeValue::Table(_)) if is_section(&path) => {}
            (_, value) => {
                *old = Node {
                    origin: node.origin,
                    value,
                };
            }
        }
    }
}
