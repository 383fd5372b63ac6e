//! The keys of a configuration, read from the JSON schema of [`RawConfig`]: one table for the reference page, for
//! "did you mean" and for what a wrong value is told it should be.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::raw::RawConfig;

/// A section or, at the top level, the whole file.
#[derive(Debug)]
pub(super) struct Section {
    /// Dotted name; empty for the top level.
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) fields: Vec<Field>,
}

/// A key with a value.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// What a value looks like, in words.
    pub(super) expected: String,
    /// The words to choose from, if it is a choice.
    pub(super) words: Vec<String>,
    pub(super) default: String,
    pub(super) doc: String,
}

/// All sections in the order of the reference, the top level first.
pub(super) fn sections() -> Vec<Section> {
    let mut found = Vec::new();
    collect("", &schema_value(), &mut found);
    found
}

/// The JSON schema of a configuration file, for editors that complete and check TOML.
#[must_use]
pub fn schema() -> String {
    format!("{:#}\n", schema_value())
}

/// The reference page of the configuration in Markdown, generated from the comments of the keys.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# Configuration\n\n<!-- Generated from the schema of the configuration: do not edit. -->\n\n\
         Every key, with its default. Files are TOML; `--set section.key=value` on the command line comes last.\n",
    );
    for section in sections() {
        let title = match section.name.as_str() {
            "" => "Top level".to_owned(),
            name => format!("`[{name}]`"),
        };
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {title}\n\n");
        if !section.name.is_empty() {
            let _ = write!(page, "{}\n\n", section.doc);
        }
        page.push_str("| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
        for field in &section.fields {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                field.name,
                field.expected.replace('|', "\\|"),
                field.default.replace('|', "\\|"),
                field.doc.replace('|', "\\|"),
            );
        }
    }
    page
}

fn schema_value() -> Value {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<RawConfig>()
        .to_value();
    drop_null(&mut schema);
    schema
}

/// TOML has no null: an absent key is just absent, so neither a type nor a default may say `null`.
fn drop_null(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !(key == "default" && value.is_null()));
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    map.remove("anyOf");
                    for (key, value) in only {
                        map.entry(key).or_insert(value);
                    }
                }
            }
            map.values_mut().for_each(drop_null);
            // The default of a section repeats those of its keys.
            if map.contains_key("properties") {
                map.remove("default");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(drop_null),
        _ => {}
    }
}

fn collect(name: &str, schema: &Value, found: &mut Vec<Section>) {
    let empty = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let (inner, leaves): (Vec<_>, Vec<_>) = properties
        .iter()
        .partition(|(_, property)| property.get("properties").is_some());
    found.push(Section {
        name: name.to_owned(),
        doc: doc(schema),
        fields: leaves
            .into_iter()
            .map(|(name, property)| field(name, property))
            .collect(),
    });
    for (key, property) in inner {
        let path = match name {
            "" => key.clone(),
            name => format!("{name}.{key}"),
        };
        collect(&path, property, found);
    }
}

fn field(name: &str, schema: &Value) -> Field {
    let mut words = Vec::new();
    collect_words(schema, &mut words);
    Field {
        name: name.to_owned(),
        expected: expected(schema),
        words,
        default: default(schema),
        doc: doc(schema),
    }
}

fn doc(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str);
    text.unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn default(schema: &Value) -> String {
    if let Some(text) = schema.get("x-default").and_then(Value::as_str) {
        return text.to_owned();
    }
    match schema.get("default") {
        // JSON's shortest form of a number, a string, a boolean or a list of them is TOML too.
        Some(value) => format!("`{}`", value.to_string().replace(',', ", ")),
        None => "none".to_owned(),
    }
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["oneOf", "anyOf"]
        .into_iter()
        .filter_map(|key| schema.get(key).and_then(Value::as_array))
        .flatten()
}

fn collect_words(schema: &Value, words: &mut Vec<String>) {
    let listed = schema.get("enum").and_then(Value::as_array);
    let single = schema.get("const");
    for word in listed.into_iter().flatten().chain(single) {
        words.extend(word.as_str().map(str::to_owned));
    }
    for alternative in alternatives(schema) {
        collect_words(alternative, words);
    }
}

fn expected(schema: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut words = Vec::new();
    collect_words(schema, &mut words);
    parts.extend(words.iter().map(|word| format!("`\"{word}\"`")));
    for alternative in alternatives(schema) {
        if alternative.get("const").is_none() && alternative.get("enum").is_none() {
            parts.push(expected(alternative));
        }
    }
    if parts.is_empty() {
        parts.push(match schema.get("type").and_then(Value::as_str) {
            Some("boolean") => "`true` or `false`".to_owned(),
            // Larger numbers of the other formats are no integers of TOML.
            Some("integer")
                if schema
                    .get("format")
                    .is_some_and(|format| format == "uint32") =>
            {
                format!("integer from 0 to {}", u32::MAX)
            }
            Some("integer") if schema.get("minimum").is_some() => "integer >= 0".to_owned(),
            Some("integer") => "integer".to_owned(),
            Some("number") => "float".to_owned(),
            Some("array") => {
                let item = schema.get("items").map(expected).unwrap_or_default();
                match schema.get("minItems").and_then(Value::as_u64) {
                    Some(count) => format!("list of {count} x {item}"),
                    None => format!("list of ({item})"),
                }
            }
            Some(other) => other.to_owned(),
            None => "value".to_owned(),
        });
    }
    parts.join(" or ")
}
