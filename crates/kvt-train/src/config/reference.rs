//! The keys of a configuration, from the schema of a [`Plan`]: one table for the reference page, for "did you mean",
//! for the checks of values, and for the changes allowed on resume.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

use super::Plan;
use crate::table::Table;
use kvt_data::schema::{self, by_kind, doc, expected, kinds, words};

/// A section or, at the top level, the whole file.
#[derive(Debug)]
pub(super) struct Section {
    /// Dotted name; empty for the top level.
    pub(super) name: String,
    doc: String,
    pub(super) fields: Vec<Field>,
}

/// A key with a value.
#[derive(Debug)]
pub(super) struct Field {
    /// The name of its section.
    pub(super) section: String,
    pub(super) name: String,
    pub(super) schema: Value,
    /// Whether a resumed run can change it: `extend("x-resume" = "free")` at the key or its section.
    pub(super) is_free: bool,
}

/// All sections in the order of the reference, the top level first.
pub(super) fn sections() -> &'static [Section] {
    static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
        let mut found = Vec::new();
        collect("", &schema::of::<Plan>(), &mut found);
        found
    });
    &SECTIONS
}

/// The section with a dotted name.
pub(super) fn section(name: &str) -> Option<&'static Section> {
    sections().iter().find(|section| section.name == name)
}

/// The key with a dotted name.
pub(super) fn field(path: &str) -> Option<&'static Field> {
    let (name, key) = path.rsplit_once('.').unwrap_or(("", path));
    section(name)?.fields.iter().find(|field| field.name == key)
}

/// The meaning of a dotted key such as `train.epochs`: the first sentence of its description.
pub fn key_meaning(path: &str) -> Option<String> {
    let doc = doc(&field(path)?.schema);
    let end = doc.find(". ").map_or(doc.len(), |end| end + 1);
    let sentence = doc.get(..end)?;
    (!sentence.is_empty()).then(|| sentence.to_owned())
}

/// The position of a section or key in the reference, which is the order for readers.
pub fn reading_order(path: &str) -> (usize, usize) {
    let place = |name: &str| sections().iter().position(|section| section.name == name);
    if let Some(place) = place(path) {
        return (place, 0);
    }
    let (name, key) = path.rsplit_once('.').unwrap_or(("", path));
    let fields = section(name).map_or(&[][..], |section| &section.fields);
    let field = fields.iter().position(|field| field.name == key);
    (
        place(name).unwrap_or(usize::MAX),
        field.unwrap_or(usize::MAX),
    )
}

/// The dotted keys with a given last part, in the order of the reference: `epochs` is `train.epochs`.
pub fn keys_named(name: &str) -> Vec<String> {
    let named = |section: &'static Section| {
        let mut fields = section.fields.iter();
        fields.any(|field| field.name == name)
    };
    let sections = sections().iter().filter(|section| named(section));
    sections.map(|section| join(&section.name, name)).collect()
}

/// The JSON schema of a configuration file, for editors that complete and check TOML.
#[must_use]
pub fn schema() -> String {
    format!("{:#}\n", schema::of::<Plan>())
}

/// The reference page of the configuration in Markdown, generated from the comments of the keys.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# Configuration\n\n<!-- Generated from the schema of the configuration: do not edit. -->\n\n\
         Every key, with its default. Files are TOML; `--set section.key=value` on the command line comes last. Its value is TOML, too, \
         but text needs no quotes, and a key that takes only text takes it as it is: `--set run.dir=2024` is a folder.\n",
    );
    let mut described: BTreeMap<Vec<&str>, &str> = BTreeMap::new();
    for section in sections() {
        // Writing to a string cannot fail.
        let _ = match section.name.as_str() {
            "" => write!(page, "\n## Top level\n\n"),
            name => write!(page, "\n## `[{name}]`\n\n{}\n\n", section.doc),
        };
        let mut fields: Vec<&Field> = section.fields.iter().collect();
        let kind = fields.iter().find(|field| field.name == "kind").copied();
        let all = kind.map_or_else(Vec::new, |kind| words(&kind.schema));
        // If the other keys depend on the kind, it comes first.
        let has_kinds = fields.iter().any(|field| !kinds(&field.schema).is_empty());
        if has_kinds {
            fields.sort_by_key(|field| field.name != "kind");
        }
        let row = |Field { name, schema, .. }: &Field| {
            let mut doc = doc(schema);
            let kinds = kinds(schema);
            if kinds.len() < all.len() && !kinds.is_empty() {
                let _ = write!(doc, " Only with `{}`.", kinds.join("`, `"));
            }
            let (expected, default) = (by_kind(schema, expected), by_kind(schema, default));
            [format!("`{name}`"), expected, default, doc]
        };
        let rows = fields.into_iter().map(row);
        page += &Table::new(["key", "type", "default", "meaning"], rows).markdown(&[0, 1, 2, 3]);
        if let Some(kind) = kind.filter(|_| has_kinds) {
            match described.get(&all) {
                Some(section) => {
                    let _ = writeln!(page, "\nThe kinds are those of `[{section}]`.");
                }
                None => {
                    page.push_str(&described_kinds(&kind.schema));
                    described.insert(all, &section.name);
                }
            }
        }
    }
    page
}

/// A description of each kind, as a list.
fn described_kinds(kind: &Value) -> String {
    let kinds = kind.get("oneOf").and_then(Value::as_array);
    let lines = kinds.into_iter().flatten().filter_map(|kind| {
        let name = kind.get("const")?.as_str()?;
        Some(format!("\n- `{name}`: {}", doc(kind)))
    });
    format!("{}\n", lines.collect::<String>())
}

fn collect(name: &str, schema: &Value, found: &mut Vec<Section>) {
    let is_free = |schema: &Value| {
        schema
            .get("x-resume")
            .is_some_and(|effect| effect == "free")
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let (inner, leaves): (Vec<_>, Vec<_>) = properties
        .into_iter()
        .flatten()
        .partition(|(_, property)| property.get("properties").is_some());
    let field = |(key, property): (&String, &Value)| Field {
        section: name.to_owned(),
        name: key.clone(),
        schema: property.clone(),
        is_free: is_free(schema) || is_free(property),
    };
    found.push(Section {
        name: name.to_owned(),
        doc: doc(schema),
        fields: leaves.into_iter().map(field).collect(),
    });
    for (key, property) in inner {
        collect(&join(name, key), property, found);
    }
}

fn default(schema: &Value) -> String {
    let words = schema.get("x-default").and_then(Value::as_str);
    match (words, schema.get("default")) {
        (Some(words), _) => words.to_owned(),
        // The shortest JSON form of a number, a string, a boolean or a list of them is also valid TOML.
        (None, Some(value)) => format!("`{}`", value.to_string().replace(',', ", ")),
        (None, None) => "none".to_owned(),
    }
}

/// The dotted name of a key in a section; the top level has no name.
pub(super) fn join(section: &str, key: &str) -> String {
    match section {
        "" => key.to_owned(),
        section => format!("{section}.{key}"),
    }
}
