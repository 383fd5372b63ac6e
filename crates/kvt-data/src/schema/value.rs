//! The rules of a schema for one value: which values it rejects, and a description of those it allows.

use serde_json::Value;

use super::Refusal;
use crate::text::short;

/// The parts of a value that a schema rejects: the value itself, or items of its list.
pub fn refusals(schema: &Value, value: &toml::Value) -> Vec<Refusal> {
    let all: Vec<&Value> = alternatives(schema).collect();
    if !all.is_empty() {
        let list = all.iter().find(|schema| kind(schema) == "array");
        return match (value, list) {
            _ if all.iter().any(|one| refusals(one, value).is_empty()) => Vec::new(),
            // Items are more specific than the whole list.
            (toml::Value::Array(_), Some(list)) => refusals(list, value),
            _ => vec![refusal(schema, value)],
        };
    }
    let length = |count: usize, unit| {
        let end = |name| schema.get(format!("{name}{unit}")).and_then(Value::as_u64);
        let count = count as u64;
        end("min").is_none_or(|min| count >= min) && end("max").is_none_or(|max| count <= max)
    };
    let allowed = match (kind(schema), value) {
        _ if schema.get("x-range").is_some() => false,
        ("array", toml::Value::Array(items)) if length(items.len(), "Items") => {
            let each = items.iter().zip(std::iter::repeat(schema.get("items")));
            let mut refused: Vec<Refusal> = each
                .flat_map(|(item, schema)| schema.map_or_else(Vec::new, |s| refusals(s, item)))
                .collect();
            if refused.is_empty() {
                refused.extend(disorder(schema, items));
            }
            return refused;
        }
        ("boolean", toml::Value::Boolean(_)) => true,
        ("integer" | "number", &toml::Value::Integer(number)) => in_range(schema, number as f64),
        ("number", &toml::Value::Float(number)) => in_range(schema, number),
        ("string", toml::Value::String(text)) => {
            let words = words(schema);
            (words.is_empty() || words.contains(&text.as_str()))
                && length(text.trim().chars().count(), "Length")
        }
        _ => false,
    };
    if allowed {
        Vec::new()
    } else {
        vec![refusal(schema, value)]
    }
}

/// The refusal of numbers that are not in the order of their list.
fn disorder(schema: &Value, items: &[toml::Value]) -> Option<Refusal> {
    let (sign, expected) = match schema.get("x-order")?.as_str()? {
        "rising" => (1.0, "the smaller value first"),
        _ => (-1.0, "the larger value first"),
    };
    let number = |item: &toml::Value| match *item {
        toml::Value::Integer(number) => sign * number as f64,
        toml::Value::Float(number) => sign * number,
        _ => 0.0,
    };
    let is_sorted = items.iter().map(number).is_sorted();
    (!is_sorted).then(|| Refusal {
        value: toml::Value::Array(items.to_vec()).to_string(),
        expected: expected.to_owned(),
    })
}

/// A description of the allowed values.
pub fn expected(schema: &Value) -> String {
    let own = words(schema)
        .into_iter()
        .map(|word| format!("`\"{word}\"`"));
    let others = alternatives(schema).filter(|one| words(one).is_empty());
    // If single values are allowed too, a list of them needs no second description.
    let choice = own.chain(others.map(expected)).reduce(|text, other| {
        let other = other.replace(&format!("({text})"), "them");
        format!("{text} or {other}")
    });
    if let Some(choice) = choice {
        return choice;
    }
    let count = |key| schema.get(key).and_then(Value::as_u64);
    let text = match kind(schema) {
        "boolean" => "`true` or `false`".to_owned(),
        "integer" => format!("integer{}", range(schema)),
        "number" => format!("float{}", range(schema)),
        "string" if count("minLength").is_some() => "non-empty string".to_owned(),
        "array" => {
            let item = schema.get("items").map(expected).unwrap_or_default();
            match (count("minItems"), count("maxItems")) {
                (Some(least), Some(most)) if least < most => {
                    format!("list of {least} to {most} x {item}")
                }
                (Some(count), Some(_)) => format!("list of {count} x {item}"),
                (Some(_), None) => format!("non-empty list of ({item})"),
                _ => format!("list of ({item})"),
            }
        }
        other => other.to_owned(),
    };
    match schema.get("title").and_then(Value::as_str) {
        Some(title) => format!("{text} ({title})"),
        None => text,
    }
}

/// The choices, if the value is one of several strings.
pub fn words(schema: &Value) -> Vec<&str> {
    let listed = schema.get("enum").and_then(Value::as_array);
    let own = listed
        .into_iter()
        .flatten()
        .chain(schema.get("const"))
        .filter_map(Value::as_str);
    own.chain(alternatives(schema).flat_map(words)).collect()
}

/// Whether a value may be a number.
pub fn takes_numbers(schema: &Value) -> bool {
    matches!(kind(schema), "integer" | "number") || alternatives(schema).any(takes_numbers)
}

/// The values of the section's `kind` that have a key; empty if all have it.
pub fn kinds(schema: &Value) -> Vec<&str> {
    let kinds = schema
        .get("x-kinds")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    kinds.filter_map(Value::as_str).collect()
}

/// The schema of a key for a value of the section's `kind`. Kinds share a key's type, but not its range and its default.
pub fn of_kind<'a>(schema: &'a Value, kind: &str) -> &'a Value {
    let own = schema.get("x-of-kind").and_then(|kinds| kinds.get(kind));
    own.unwrap_or(schema)
}

/// A description of a key: for each kind if these differ, as in "10 (`clustered`, `scram`), 6 (`nystrom`)".
pub fn by_kind(schema: &Value, said: impl Fn(&Value) -> String) -> String {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for kind in kinds(schema) {
        let (text, kind) = (said(of_kind(schema, kind)), format!("`{kind}`"));
        match all.iter_mut().find(|(known, _)| *known == text) {
            Some((_, kinds)) => kinds.push(kind),
            None => all.push((text, vec![kind])),
        }
    }
    match all.as_slice() {
        [] => said(schema),
        [(text, _)] => text.clone(),
        several => {
            let several = several
                .iter()
                .map(|(text, kinds)| format!("{text} ({})", kinds.join(", ")));
            several.collect::<Vec<String>>().join(", ")
        }
    }
}

/// The comment of a type or field, on one line.
pub fn doc(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str);
    let words: Vec<&str> = text.unwrap_or_default().split_whitespace().collect();
    words.join(" ")
}

fn refusal(schema: &Value, value: &toml::Value) -> Refusal {
    Refusal {
        value: match value {
            // TOML would write all digits.
            toml::Value::Float(number) => format!("{number:?}").to_lowercase(),
            value => value.to_string(),
        },
        expected: match value.as_float() {
            Some(number) if !number.is_finite() => format!("a finite {}", expected(schema)),
            _ => with_article(expected(schema)),
        },
    }
}

/// A description as part of a sentence: with articles before the types in it.
fn with_article(mut text: String) -> String {
    for name in ["integer", "float", "string", "list", "non-empty"] {
        let article = if name == "integer" { "an" } else { "a" };
        if text.starts_with(name) {
            text.insert_str(0, &format!("{article} "));
        }
        text = text.replace(&format!(" or {name}"), &format!(" or {article} {name}"));
    }
    text
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["oneOf", "anyOf"].into_iter().map(|key| schema.get(key));
    lists.flatten().filter_map(Value::as_array).flatten()
}

fn kind(schema: &Value) -> &str {
    match schema.get("type").and_then(Value::as_str) {
        Some(kind) => kind,
        None if schema.get("const").is_some() => "string",
        None => "value",
    }
}

/// The limits of a number's interval, and whether they are excluded.
fn interval(schema: &Value) -> [(f64, bool); 2] {
    let number = |keyword| schema.get(keyword).and_then(Value::as_f64);
    let end = |included, excluded, none| match number(excluded) {
        Some(end) => (end, true),
        None => (number(included).unwrap_or(none), false),
    };
    [
        end("minimum", "exclusiveMinimum", f64::NEG_INFINITY),
        end("maximum", "exclusiveMaximum", f64::INFINITY),
    ]
}

fn in_range(schema: &Value, number: f64) -> bool {
    let [(low, above), (high, below)] = interval(schema);
    number.is_finite()
        && (low < number || low == number && !above)
        && (number < high || number == high && !below)
}

/// The interval of a number, to follow its type.
fn range(schema: &Value) -> String {
    let [(low, above), (high, below)] = interval(schema);
    match (low.is_finite(), high.is_finite()) {
        (false, false) => String::new(),
        (true, false) => format!(" {} {}", if above { ">" } else { ">=" }, short(low)),
        (_, true) => {
            let (open, close) = (if above { '(' } else { '[' }, if below { ')' } else { ']' });
            format!(" in {open}{}, {}{close}", short(low), short(high))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A key of three kinds, one with a different default and range.
    #[test]
    fn kinds_may_have_their_own_default_and_range() {
        let own = |least: u64, default: u64| json!({ "type": "integer", "minimum": least, "default": default });
        let schema = json!({
            "type": "integer",
            "x-kinds": ["clustered", "nystrom", "scram"],
            "x-of-kind": { "clustered": own(1, 10), "nystrom": own(2, 6), "scram": own(1, 10) },
        });
        assert_eq!(
            by_kind(&schema, expected),
            "integer >= 1 (`clustered`, `scram`), integer >= 2 (`nystrom`)"
        );
        let default = |schema: &Value| schema["default"].to_string();
        assert_eq!(
            by_kind(&schema, default),
            "10 (`clustered`, `scram`), 6 (`nystrom`)"
        );
        let refused = |kind: &str| refusals(of_kind(&schema, kind), &toml::Value::Integer(1)).len();
        assert_eq!(["clustered", "nystrom", "linear"].map(refused), [0, 1, 0]);

        // If all are the same, the description is given once.
        let alike = json!({ "type": "boolean", "default": true, "x-kinds": ["linear", "rfa"] });
        assert_eq!(by_kind(&alike, expected), "`true` or `false`");
        assert_eq!(
            by_kind(&json!({ "type": "boolean" }), expected),
            "`true` or `false`"
        );
    }
}
