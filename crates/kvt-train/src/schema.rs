//! The JSON schema of a settings type: what each value may be, in words, and which values it refuses.
//!
//! Type, words, meaning, default and range of a key are declared once, at its field in a [`section!`].

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

/// A section of the configuration, with all that is to be said of a key on one line:
/// `pub key: type = default, "attribute" = value;`. The attributes are keywords of JSON schema, and
///
/// - `"x-range"`: the interval of every number in the value, such as `"[0, 1)"`; `inf` where it has no end;
/// - `"x-default"`: the default in words, where it depends on other keys;
/// - `"x-resume" = "free"`: a resumed run may change it.
macro_rules! section {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* pub $key:ident: $type:ty = $default:expr $(, $attribute:literal = $value:expr)*;)+
    }) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* #[schemars(extend($($attribute = $value),*))] pub $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }
    };
}
pub(crate) use section;

/// A value that its schema refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The value as TOML.
    pub value: String,
    /// What is allowed, in words.
    pub expected: String,
}

/// The schema of a type: without references, without `null`, which TOML does not have, and with intervals as keywords.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let generator = settings.into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    normalise(&mut schema);
    schema
}

/// The first key of a section with a value that its schema refuses, for settings that no file was checked for.
///
/// # Errors
/// The key and its refusal.
pub(crate) fn check<T: JsonSchema + Serialize>(section: &T) -> Result<(), (String, Refusal)> {
    let whole = |error: toml::ser::Error| {
        let expected = "values that TOML can hold".to_owned();
        let value = error.to_string();
        ("*".to_owned(), Refusal { value, expected })
    };
    let schema = of::<T>();
    for (key, value) in toml::Table::try_from(section).map_err(whole)? {
        let property = schema.get("properties").and_then(|all| all.get(&key));
        let refusal = property.and_then(|schema| refusals(schema, &value).into_iter().next());
        if let Some(refusal) = refusal {
            return Err((key, refusal));
        }
    }
    Ok(())
}

/// What a schema refuses of a value: the value itself, or items of its list.
pub(crate) fn refusals(schema: &Value, value: &toml::Value) -> Vec<Refusal> {
    let all: Vec<&Value> = alternatives(schema).collect();
    if !all.is_empty() {
        let list = all.iter().find(|schema| kind(schema) == "array");
        return match (value, list) {
            _ if all.iter().any(|one| refusals(one, value).is_empty()) => Vec::new(),
            // Items say more than the whole list.
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
        ("array", toml::Value::Array(items)) if length(items.len(), "Items") => {
            let items = items.iter().zip(std::iter::repeat(schema.get("items")));
            return items
                .flat_map(|(item, schema)| schema.map_or_else(Vec::new, |s| refusals(s, item)))
                .collect();
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

/// What a value may be, in words.
pub(crate) fn expected(schema: &Value) -> String {
    let mut parts: Vec<String> = words(schema)
        .iter()
        .map(|word| format!("`\"{word}\"`"))
        .collect();
    let others = alternatives(schema).filter(|one| words(one).is_empty());
    parts.extend(others.map(expected));
    if !parts.is_empty() {
        return parts.join(" or ");
    }
    let count = |key| schema.get(key).and_then(Value::as_u64);
    match kind(schema) {
        "boolean" => "`true` or `false`".to_owned(),
        "integer" => format!("integer{}", range(schema)),
        "number" => format!("float{}", range(schema)),
        "string" if count("minLength").is_some() => "non-empty string".to_owned(),
        "array" => {
            let item = schema.get("items").map(expected).unwrap_or_default();
            match (count("minItems"), count("maxItems")) {
                (Some(count), Some(_)) => format!("list of {count} x {item}"),
                (Some(_), None) => format!("non-empty list of ({item})"),
                _ => format!("list of ({item})"),
            }
        }
        other => other.to_owned(),
    }
}

/// The words to choose from, if the value is a choice.
pub(crate) fn words(schema: &Value) -> Vec<&str> {
    let listed = schema.get("enum").and_then(Value::as_array);
    let own = listed.into_iter().flatten().chain(schema.get("const"));
    let own = own.filter_map(Value::as_str);
    own.chain(alternatives(schema).flat_map(words)).collect()
}

/// The comment of a type or field, on one line.
pub(crate) fn doc(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str);
    let words: Vec<&str> = text.unwrap_or_default().split_whitespace().collect();
    words.join(" ")
}

fn refusal(schema: &Value, value: &toml::Value) -> Refusal {
    Refusal {
        value: match value {
            // TOML writes all the digits.
            toml::Value::Float(number) => format!("{number:?}").to_lowercase(),
            value => value.to_string(),
        },
        expected: expected(schema),
    }
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["oneOf", "anyOf"].into_iter().map(|key| schema.get(key));
    lists.flatten().filter_map(Value::as_array).flatten()
}

fn kind(schema: &Value) -> &str {
    let kind = schema.get("type").and_then(Value::as_str);
    kind.unwrap_or("value")
}

/// The ends of a number's interval, and whether they are left out.
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

/// The interval of a number, to be read after its type.
fn range(schema: &Value) -> String {
    let [(low, above), (high, below)] = interval(schema);
    let shown = |number: f64| format!("{number:?}").trim_end_matches(".0").to_owned();
    match (low.is_finite(), high.is_finite()) {
        (false, false) => String::new(),
        (true, false) => format!(" {} {}", if above { ">" } else { ">=" }, shown(low)),
        (_, true) => {
            let (open, close) = (if above { '(' } else { '[' }, if below { ')' } else { ']' });
            format!(" in {open}{}, {}{close}", shown(low), shown(high))
        }
    }
}

fn normalise(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            drop_null(map);
            map.values_mut().for_each(normalise);
            if map.get("format").is_some_and(|format| format == "uint32") {
                map.entry("maximum").or_insert(u32::MAX.into());
            }
            if let Some(Value::String(range)) = map.remove("x-range") {
                set_range(map, &range);
            }
            // The default of a section repeats those of its keys, and one that depends on other keys is said in words.
            if map.contains_key("properties") || map.contains_key("x-default") {
                map.remove("default");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(normalise),
        _ => {}
    }
}

/// An absent key is just absent, so neither a type nor a default may say `null`.
fn drop_null(map: &mut Map<String, Value>) {
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
}

/// Writes an interval as keywords of JSON schema, at every number of a schema.
fn set_range(schema: &mut Map<String, Value>, range: &str) {
    if let "integer" | "number" = schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        let ends = range.trim_matches(['[', '(', ']', ')']).split_once(", ");
        let (low, high) = ends.unwrap_or_default();
        for (end, included, excluded, is_excluded) in [
            (low, "minimum", "exclusiveMinimum", range.starts_with('(')),
            (high, "maximum", "exclusiveMaximum", range.ends_with(')')),
        ] {
            // `inf` is not JSON: there is no end.
            if let Ok(end) = serde_json::from_str(end) {
                schema.remove(included);
                let keyword = if is_excluded { excluded } else { included };
                schema.insert(keyword.to_owned(), end);
            }
        }
    }
    for (_, below) in schema.iter_mut() {
        let below = match below {
            Value::Array(all) => all.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for schema in below.iter_mut().filter_map(Value::as_object_mut) {
            set_range(schema, range);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    section! {
        /// Settings.
        pub struct Settings {
            /// Two numbers.
            pub pair: [f64; 2] = [1e-300, 1e30], "x-range" = "(0, 1e30]";
            /// A number or none.
            pub count: Option<u64> = Some(1), "x-range" = "[1, inf)";
            /// A number of 32 bits.
            pub small: u32 = 0;
            /// A text.
            pub text: String = "x".to_owned(), "minLength" = 1;
        }
    }

    #[test]
    fn intervals_become_keywords_of_the_numbers() {
        let schema = of::<Settings>();
        let properties = &schema["properties"];
        assert_eq!(properties["pair"]["items"]["exclusiveMinimum"], 0);
        assert_eq!(properties["pair"]["items"]["maximum"], json!(1e30));
        assert_eq!(properties["count"]["type"], "integer");
        assert_eq!(properties["count"]["minimum"], 1);
        assert_eq!(properties["count"].get("maximum"), None);
        assert!(!schema.to_string().contains("x-range"));
        let words = ["pair", "count", "small", "text"].map(|key| expected(&properties[key]));
        assert_eq!(
            words,
            [
                "list of 2 x float in (0, 1e30]",
                "integer >= 1",
                "integer in [0, 4294967295]",
                "non-empty string",
            ]
        );
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let refused = |set: &dyn Fn(&mut Settings)| {
            let mut settings = Settings::default();
            set(&mut settings);
            check(&settings)
                .err()
                .map(|(key, refusal)| (key, refusal.value))
        };
        let some = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
        assert_eq!(refused(&|_| {}), None);
        assert_eq!(refused(&|s| s.count = None), None);
        assert_eq!(refused(&|s| s.count = Some(0)), some("count", "0"));
        assert_eq!(refused(&|s| s.pair[1] = 0.0), some("pair", "0.0"));
        assert_eq!(refused(&|s| s.pair[0] = 1e31), some("pair", "1e31"));
        assert_eq!(refused(&|s| s.pair[0] = f64::NAN), some("pair", "nan"));
        assert_eq!(refused(&|s| s.text = " ".to_owned()), some("text", "\" \""));
        assert_eq!(refused(&|s| s.count = Some(u64::MAX)).unwrap().0, "*");
    }
}
