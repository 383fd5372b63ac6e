//! Files, their bases and `--set` overrides, merged into one tree in which every value keeps its location.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::problem::{ConfigError, Location, Problem};
use super::reference::{field, join, section as known_section};
use kvt_data::schema::{refusals, takes_numbers};
use kvt_data::text::read_text;

/// Maximum size of a file in bytes: far more than all keys need.
pub(super) const LARGEST_FILE: u64 = 1 << 20;
/// Maximum number of parts of a key: more than any key has, and few enough for recursion.
const DEEPEST_KEY: usize = 16;

/// Values by key.
pub(super) type Tree = BTreeMap<String, Node>;

/// A value and where it was last set.
#[derive(Clone, Debug)]
pub(super) struct Node {
    source: Arc<Source>,
    key: Range<usize>,
    span: Range<usize>,
    pub(super) value: NodeValue,
}

#[derive(Clone, Debug)]
pub(super) enum NodeValue {
    Table(Tree),
    Leaf(toml::Value),
}

/// A file or a command-line argument.
#[derive(Debug)]
struct Source {
    /// As a whole: a [file](Location::File), [words](Location::Said) for which kvt generated the text, or an [override](Location::Override).
    origin: Location,
    text: String,
    /// Distance from the highest-priority layer: 0 for `--set` arguments, 1 for the file, 2 for its base, and so on.
    depth: usize,
}

impl Node {
    /// The location of its key.
    pub(super) fn key_place(&self) -> Location {
        self.source.place(&self.key)
    }

    /// The location of its value.
    pub(super) fn value_place(&self) -> Location {
        self.source.place(&self.span)
    }

    /// The layer in which it was last set: 0 for `--set`, 1 for the file, 2 for its base, and so on.
    pub(super) fn depth(&self) -> usize {
        self.source.depth
    }
}

impl Source {
    fn place(&self, range: &Range<usize>) -> Location {
        match &self.origin {
            Location::File(path) => Location::span(path, &self.text, range),
            origin => origin.clone(),
        }
    }
}

/// The node of a dotted key.
pub(super) fn find<'a>(tree: &'a Tree, key: &str) -> Option<&'a Node> {
    let Some((section, key)) = key.split_once('.') else {
        return tree.get(key);
    };
    match &tree.get(section)?.value {
        NodeValue::Table(inner) => find(inner, key),
        NodeValue::Leaf(_) => None,
    }
}

/// Merges `text` with its bases below it and `overrides` above it.
pub(super) fn read(
    origin: &Location,
    text: String,
    overrides: &[String],
) -> Result<Tree, ConfigError> {
    let one = |problem| ConfigError::invalid(vec![problem]);
    let mut root = Tree::new();
    // The chain runs from the file to its last base; the file has priority.
    for table in read_chain(origin, text).map_err(one)?.into_iter().rev() {
        merge(&mut root, table, "");
    }
    let mut problems = Vec::new();
    for argument in overrides {
        match read_override(argument) {
            Ok(table) => merge(&mut root, table, ""),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(root)
    } else {
        Err(ConfigError::invalid(problems))
    }
}

fn read_chain(origin: &Location, text: String) -> Result<Vec<Tree>, Problem> {
    // A `base` is relative to it.
    let path = match origin {
        Location::File(path) => path.as_path(),
        _ => Path::new(""),
    };
    let canonical = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut tables = Vec::new();
    // Displayed paths for messages, and canonical paths to detect that two are the same file.
    let mut chain = vec![(path.to_path_buf(), canonical(path))];
    let mut text = text;
    loop {
        let path = chain.last().map_or(path, |(path, _)| path).to_path_buf();
        let source = Arc::new(Source {
            origin: match chain.len() {
                1 => origin.clone(),
                _ => Location::File(path.clone()),
            },
            text,
            depth: chain.len(),
        });
        let parsed = DeTable::parse(&source.text)
            .and_then(|table| convert_table(&source, table.into_inner()));
        let mut table = parsed.map_err(|error| {
            let message = error.message().replace('\n', ", ");
            let place = source.place(&error.span().unwrap_or_default());
            Problem::new(place, format!("not valid TOML: {message}"))
        })?;
        let base = table.remove("base");
        tables.push(table);
        let Some(base) = base else {
            return Ok(tables);
        };

        let NodeValue::Leaf(toml::Value::String(name)) = &base.value else {
            let message = "invalid value for `base`: expected the path of a file";
            return Err(Problem::new(base.value_place(), message));
        };
        let next = path.parent().unwrap_or(Path::new("")).join(name);
        let known = canonical(&next);
        let circle = chain.iter().any(|(_, seen)| *seen == known);
        chain.push((next.clone(), known));
        if circle {
            let shown = chain
                .iter()
                .map(|(path, _)| format!("`{}`", path.display()));
            let names = shown.collect::<Vec<String>>().join(" -> ");
            let message = format!("`base` goes in a circle: {names}");
            return Err(Problem::new(base.value_place(), message));
        }
        text = read_text(&next, LARGEST_FILE).map_err(|error| {
            Problem::new(base.value_place(), format!("cannot read the base: {error}"))
                .help("`base` is relative to the file that names it")
        })?;
    }
}

fn read_override(argument: &str) -> Result<Tree, Problem> {
    let source = Arc::new(Source {
        origin: Location::Override(argument.to_owned()),
        text: String::new(),
        depth: 0,
    });
    let refuse =
        |message: &str, help: &str| Err(Problem::new(source.place(&(0..0)), message).help(help));
    let usage = "expected `KEY=VALUE`, such as `train.epochs=10`";
    let Some((path, value)) = argument.split_once('=') else {
        return refuse("no value", usage);
    };
    let keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    if keys.iter().any(|key| key.is_empty()) {
        return refuse("empty key", usage);
    }
    if keys == ["base"] {
        let message = "`base` cannot be set from outside a file";
        return refuse(message, "give the file itself instead");
    }
    if keys.len() > DEEPEST_KEY {
        return refuse("the key has too many parts", usage);
    }

    // A value that is not TOML is a string: names and paths need no quotes within the shell's quotes.
    let value = value.trim();
    let parsed = DeValue::parse(value).and_then(|value| convert_value(&source, value));
    let value = match parsed {
        Ok(parsed) if is_text(&keys.join("."), &parsed, value) => {
            NodeValue::Leaf(toml::Value::String(value.to_owned()))
        }
        Ok(parsed) => parsed,
        Err(_) if value.contains(['\n', '\r']) => {
            let help = "use a separate `--set` for each key";
            return refuse("the value has several lines", help);
        }
        Err(_) => NodeValue::Leaf(toml::Value::String(value.to_owned())),
    };
    let tree = |key: &str, value| {
        let node = Node {
            source: Arc::clone(&source),
            key: 0..0,
            span: 0..0,
            value,
        };
        Tree::from([(key.to_owned(), node)])
    };
    let (last, above) = keys.split_last().unwrap_or((&"", &[]));
    let above = above.iter().rev();
    Ok(above.fold(tree(last, value), |inner, key| {
        tree(key, NodeValue::Table(inner))
    }))
}

/// Whether `text` is meant as it is, although it is also TOML: the key takes text, and not what the text is in TOML, such
/// as a folder that is called `2024`, `nan` or `12:30:00`. A number is meant as one if the key takes numbers, in its range or not.
fn is_text(key: &str, parsed: &NodeValue, text: &str) -> bool {
    use toml::Value::{Float, Integer, String as Text};
    let Some(schema) = field(key).map(|field| &field.schema) else {
        return false;
    };
    let takes = |value: &toml::Value| refusals(schema, value).is_empty();
    let is_taken = match parsed {
        NodeValue::Leaf(Text(_)) => true,
        NodeValue::Leaf(Integer(_) | Float(_)) if takes_numbers(schema) => true,
        NodeValue::Leaf(value) => takes(value),
        NodeValue::Table(_) => false,
    };
    !is_taken && takes(&Text(text.to_owned()))
}

fn convert_table(source: &Arc<Source>, table: DeTable<'_>) -> Result<Tree, toml::de::Error> {
    let convert = |(key, value): (Spanned<_>, Spanned<_>)| {
        let node = Node {
            source: Arc::clone(source),
            key: key.span(),
            span: value.span(),
            value: convert_value(source, value)?,
        };
        Ok((std::borrow::Cow::into_owned(key.into_inner()), node))
    };
    table.into_iter().map(convert).collect()
}

fn convert_value(
    source: &Arc<Source>,
    value: Spanned<DeValue<'_>>,
) -> Result<NodeValue, toml::de::Error> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => convert_table(source, table).map(NodeValue::Table),
        leaf => toml::Value::deserialize(ValueDeserializer::from(Spanned::new(span, leaf)))
            .map(NodeValue::Leaf),
    }
}

/// Merges tables key by key; everything else is replaced.
///
/// If a section meets a value, one of them is a mistake, which is kept so that it is reported.
fn merge(below: &mut Tree, above: Tree, section: &str) {
    for (key, node) in above {
        let path = join(section, &key);
        let is_section = known_section(&path).is_some();
        let Some(old) = below.get_mut(&key) else {
            below.insert(key, node);
            continue;
        };
        match (&mut old.value, node.value) {
            (NodeValue::Table(old), NodeValue::Table(new)) => merge(old, new, &path),
            (NodeValue::Table(_), NodeValue::Leaf(_)) if !is_section => {}
            (NodeValue::Leaf(_), NodeValue::Table(_)) if is_section => {}
            (_, value) => *old = Node { value, ..node },
        }
    }
}
