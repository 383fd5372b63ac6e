//! The first stage: merged files with known keys and right types, still without a plan.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_path_to_error::Segment;

use super::fields::{Field, Section, sections};
use super::layers::{Layers, Node, NodeValue, join};
use super::problem::{ConfigError, Place, Problem};
use super::raw::RawConfig;
use crate::text::read_text;

/// Bytes of a file: far more than all keys together take.
pub(super) const LARGEST_FILE: u64 = 1 << 20;

/// Configuration files and overrides, merged; [`plan`](Document::plan) makes them complete.
#[derive(Debug)]
pub struct Document {
    path: PathBuf,
    layers: Layers,
    pub(super) raw: RawConfig,
}

impl Document {
    /// Reads the file at `path`, its bases, and `overrides` of the form `section.key=value`.
    ///
    /// # Errors
    /// If a file cannot be read or is not TOML, if bases go in a circle, or if a key is unknown or has the wrong type.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Self, ConfigError> {
        Self::from_text(path, read_text(path, LARGEST_FILE)?, overrides)
    }

    /// As [`load`](Self::load), with the text of the file at hand; `path` names it in messages and is what its `base` is
    /// relative to.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_text(path: &Path, text: String, overrides: &[String]) -> Result<Self, ConfigError> {
        let sections = sections();
        let is_section = |name: &str| sections.iter().any(|section| section.name == name);
        let layers = Layers::read(path, text, overrides, &is_section)?;
        let mut problems = Vec::new();

        let known = keep_known(&layers, &sections, "", &layers.root, &mut problems);
        let raw = deserialize(&layers, &sections, known, &mut problems);
        match raw {
            Some(raw) if problems.is_empty() => Ok(Self {
                path: path.to_path_buf(),
                layers,
                raw,
            }),
            _ => Err(ConfigError::invalid(problems)),
        }
    }

    /// The name of the configuration: its file name without the ending.
    #[must_use]
    pub fn name(&self) -> String {
        match self.path.file_stem() {
            Some(stem) => stem.to_string_lossy().into_owned(),
            None => "run".to_owned(),
        }
    }

    /// The device that the configuration asks for.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.raw.train.device
    }

    /// Where the value of a dotted key was last set, or the file that could have set it.
    pub(super) fn place(&self, key: &str) -> Place {
        self.set_place(key)
            .unwrap_or_else(|| self.layers.main_place())
    }

    /// Where the value of a dotted key was last set, if anything sets it.
    pub(super) fn set_place(&self, key: &str) -> Option<Place> {
        let keys: Vec<&str> = key.split('.').collect();
        match self.layers.nearest(&keys)? {
            Node {
                origin,
                value: NodeValue::Leaf(_),
            } => Some(self.layers.value_place(origin)),
            _ => None,
        }
    }
}

/// Copies what is known and reports the rest.
fn keep_known(
    layers: &Layers,
    sections: &[Section],
    section: &str,
    table: &BTreeMap<String, Node>,
    problems: &mut Vec<Problem>,
) -> toml::Table {
    let mut known = toml::Table::new();
    let fields = sections.iter().find(|other| other.name == section);
    let fields = fields.map_or(&[][..], |section| &section.fields);
    for (key, node) in table {
        let path = join(section, key);
        let is_section = sections.iter().any(|other| other.name == path);
        let is_field = fields.iter().any(|field| field.name == *key);
        match &node.value {
            NodeValue::Table(inner) if is_section => {
                let inner = keep_known(layers, sections, &path, inner, problems);
                known.insert(key.clone(), toml::Value::Table(inner));
            }
            NodeValue::Leaf(_) if is_section => problems.push(
                Problem::new(
                    layers.value_place(&node.origin),
                    format!("`{path}` is a section, not a value"),
                )
                .help(format!("put its keys under `[{path}]`")),
            ),
            NodeValue::Leaf(value) if is_field => {
                known.insert(key.clone(), value.clone());
            }
            NodeValue::Table(_) if is_field => problems.push(Problem::new(
                layers.key_place(&node.origin),
                format!("`{path}` is a value, not a section"),
            )),
            NodeValue::Table(_) => problems.push(unknown_section(layers, sections, &path, node)),
            NodeValue::Leaf(_) => {
                problems.push(unknown_key(layers, sections, section, key, node));
            }
        }
    }
    known
}

fn unknown_section(layers: &Layers, sections: &[Section], path: &str, node: &Node) -> Problem {
    let problem = Problem::new(
        layers.key_place(&node.origin),
        format!("unknown section `[{path}]`"),
    );
    let names = || sections.iter().map(|section| section.name.as_str());
    let last = path.rsplit('.').next().unwrap_or(path);
    let moved = names().find(|name| name.rsplit('.').next() == Some(last));
    match moved.or_else(|| closest(path, names())) {
        Some(name) => problem.help(format!("did you mean `[{name}]`?")),
        None => {
            let list: Vec<String> = names()
                .filter(|name| !name.is_empty())
                .map(|name| format!("`[{name}]`"))
                .collect();
            problem.help(format!("the sections are {}", list.join(", ")))
        }
    }
}

fn unknown_key(
    layers: &Layers,
    sections: &[Section],
    section: &str,
    key: &str,
    node: &Node,
) -> Problem {
    let whereabouts = match section {
        "" => "at the top level".to_owned(),
        section => format!("in `[{section}]`"),
    };
    let mut problem = Problem::new(
        layers.key_place(&node.origin),
        format!("unknown key `{key}` {whereabouts}"),
    );
    let own = sections.iter().find(|other| other.name == section);
    let own: Vec<&str> = own.map_or_else(Vec::new, |section| {
        let fields = section.fields.iter();
        fields.map(|field| field.name.as_str()).collect()
    });
    let near = closest(key, own.iter().copied());
    if let Some(name) = near {
        problem = problem.help(format!("did you mean `{name}`?"));
    }
    let elsewhere: Vec<String> = sections
        .iter()
        .filter(|other| other.fields.iter().any(|field| field.name == key))
        .map(|other| match other.name.as_str() {
            "" => "at the top level".to_owned(),
            name => format!("in `[{name}]`"),
        })
        .collect();
    if !elsewhere.is_empty() {
        problem = problem.help(format!("`{key}` belongs {}", elsewhere.join(" or ")));
    } else if near.is_none() {
        let all = sections.iter().flat_map(|other| {
            let fields = other.fields.iter();
            fields.map(move |field| (other, field.name.as_str()))
        });
        let far = closest_by(key, all, |(_, name)| name);
        problem = match far {
            Some((other, name)) if !other.name.is_empty() => {
                problem.help(format!("did you mean `{name}` in `[{}]`?", other.name))
            }
            _ => {
                let list: Vec<String> = own.iter().map(|name| format!("`{name}`")).collect();
                problem.help(format!("the keys here are {}", list.join(", ")))
            }
        };
    }
    problem
}

/// Deserializes, leaving out and reporting one wrong value after another.
fn deserialize(
    layers: &Layers,
    sections: &[Section],
    mut known: toml::Table,
    problems: &mut Vec<Problem>,
) -> Option<RawConfig> {
    loop {
        let value = toml::Value::Table(known.clone());
        let error = match serde_path_to_error::deserialize(value) {
            Ok(raw) => return Some(raw),
            Err(error) => error,
        };
        let keys: Vec<&str> = error
            .path()
            .iter()
            .map_while(|segment| match segment {
                Segment::Map { key } => Some(key.as_str()),
                _ => None,
            })
            .collect();
        let Some(value) = take(&mut known, &keys) else {
            // Only reachable if a key is gone already: report what serde says rather than looping.
            problems.push(Problem::new(layers.main_place(), error.inner().to_string()));
            return None;
        };
        let place = match layers.nearest(&keys) {
            Some(node) => layers.value_place(&node.origin),
            None => layers.main_place(),
        };
        problems.push(wrong_type(sections, &keys, &value, place));
    }
}

fn wrong_type(sections: &[Section], keys: &[&str], value: &toml::Value, place: Place) -> Problem {
    let path = keys.join(".");
    let field = find_field(sections, keys);
    let expected = field.map_or("another type", |field| field.expected.as_str());
    let problem = Problem::new(
        place,
        format!("invalid value `{value}` for `{path}`: expected {expected}"),
    );
    let words = field.map_or(&[][..], |field| &field.words);
    match value
        .as_str()
        .and_then(|text| closest(text, words.iter().map(String::as_str)))
    {
        Some(word) => problem.help(format!("did you mean `\"{word}\"`?")),
        None => problem,
    }
}

fn find_field<'a>(sections: &'a [Section], keys: &[&str]) -> Option<&'a Field> {
    let (name, section) = keys.split_last()?;
    let section = section.join(".");
    let section = sections.iter().find(|other| other.name == section)?;
    section.fields.iter().find(|field| field.name == *name)
}

fn take(table: &mut toml::Table, keys: &[&str]) -> Option<toml::Value> {
    let (last, above) = keys.split_last()?;
    let mut table = table;
    for key in above {
        table = table.get_mut(*key)?.as_table_mut()?;
    }
    table.remove(*last)
}

/// The candidate that is a typing error away from `word`, if there is one.
pub(super) fn closest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    closest_by(word, candidates, |candidate| candidate)
}

fn closest_by<'a, T: Copy>(
    word: &str,
    candidates: impl Iterator<Item = T>,
    name: impl Fn(T) -> &'a str,
) -> Option<T> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, name(candidate)), candidate))
        .filter(|(similarity, _)| *similarity > 0.8)
        // Of equals the first: `deit_tiny` means the 224 px model, which is listed before the 384 px one.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}
