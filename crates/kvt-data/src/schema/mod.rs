//! The JSON schema of a settings type: the allowed values as text, and the rejection of others.
//!
//! Type, choices, meaning, default and range of a key are declared once, at its field in a `section!`.

mod value;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Number, Value};

/// A section of the configuration, with everything about a key on one line:
/// `pub key: type = default, "attribute" = value;`. The attributes are keywords of JSON schema, and
///
/// - `"x-range"`: the interval of every number in the value, such as `"[0, 1)"`; `inf` for no limit;
/// - `"x-order"`: that of the numbers of a list, `"rising"` or `"falling"`; equal ones may follow each other;
/// - `"x-default"`: the default as text, if it depends on other keys;
/// - `"x-resume" = "free"`: a resumed run can change it.
#[doc(hidden)]
#[macro_export]
macro_rules! __section {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $key_vis:vis $key:ident: $type:ty = $default:expr $(, $attribute:literal = $value:expr)*;)+
    }) => {
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        $(#[$meta])*
        $vis struct $name {
            $($(#[$doc])* #[schemars(extend($($attribute = $value),*))] $key_vis $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }
    };
}
pub use crate::__section as section;
pub use value::{by_kind, doc, expected, kinds, of_kind, refusals, takes_numbers, words};

/// A value that its schema rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The value in TOML.
    pub value: String,
    /// What is allowed, as text.
    pub expected: String,
}

/// The schema of a type: without references, without `null`, which TOML does not have, and with intervals as keywords.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let generator = settings.into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    normalise(&mut schema);
    schema
}

/// The first key of a section with a value that its schema rejects, for settings that do not come from a checked file.
///
/// # Errors
/// The key and its rejection.
pub fn check<T: JsonSchema + Serialize>(section: &T) -> Result<(), (String, Refusal)> {
    let table = toml::Table::try_from(section).map_err(|error| {
        // The only values that TOML cannot represent are integers beyond 63 bits: JSON reveals which key has one.
        let json = serde_json::to_value(section).unwrap_or_default();
        let mut fields = json.as_object().into_iter().flatten();
        let large = fields.find(|(_, value)| value.is_u64() && !value.is_i64());
        let unknown = || ("*".to_owned(), error.to_string());
        let (key, value) = large.map_or_else(unknown, |(key, n)| (key.clone(), n.to_string()));
        let expected = format!("integer in [0, {}]", i64::MAX);
        (key, Refusal { value, expected })
    })?;
    let schema = of::<T>();
    for (key, value) in table {
        let property = schema.get("properties").and_then(|all| all.get(&key));
        let refusal = property.and_then(|schema| refusals(schema, &value).into_iter().next());
        if let Some(refusal) = refusal {
            return Err((key, refusal));
        }
    }
    Ok(())
}

fn normalise(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            drop_null(map);
            map.values_mut().for_each(normalise);
            if map.get("format").is_some_and(|format| format == "uint32") {
                map.entry("maximum").or_insert(u32::MAX.into());
            }
            // One that cannot be read stays: `refusals` then allows no value.
            if let Some(Value::String(range)) = map.get("x-range")
                && let Some(ends) = read_range(range)
            {
                map.remove("x-range");
                set_range(map, &ends);
            }
            // The default of a section repeats those of its keys, and a default that depends on other keys is given as text.
            if map.contains_key("properties") || map.contains_key("x-default") {
                map.remove("default");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(normalise),
        _ => {}
    }
}

/// A missing key is simply absent, so neither a type nor a default may be `null`.
fn drop_null(map: &mut Map<String, Value>) {
    map.retain(|key, value| !(key == "default" && value.is_null()));
    if let Some(Value::Array(types)) = map.get("type")
        && let Some(only) = types.iter().find(|kind| *kind != "null").cloned()
    {
        map.insert("type".to_owned(), only);
    }
    if let Some(Value::Array(choices)) = map.get("anyOf")
        && let [Value::Object(only), null] = choices.as_slice()
        && null.get("type").is_some_and(|kind| kind == "null")
    {
        let mut only = only.clone();
        map.remove("anyOf");
        // The attributes of the key have priority over those of its type.
        only.append(map);
        *map = only;
    }
}

/// The ends of an interval as JSON schema keywords: the keyword, the one that it replaces, and the number. Without a limit at an
/// end, there is none; `None` if it is no interval.
fn read_range(range: &str) -> Option<Vec<(&'static str, &'static str, Number)>> {
    let (low, high) = range
        .get(1..range.len().checked_sub(1)?)?
        .split_once(", ")?;
    let (first, last) = (range.chars().next()?, range.chars().next_back()?);
    let mut ends = Vec::new();
    for (end, bracket, is_excluded, [included, excluded]) in [
        (low, first, '(', ["minimum", "exclusiveMinimum"]),
        (high, last, ')', ["maximum", "exclusiveMaximum"]),
    ] {
        let keyword = match bracket {
            '[' | ']' => included,
            _ if bracket == is_excluded => excluded,
            _ => return None,
        };
        match end {
            "inf" if bracket == ')' => {}
            end => ends.push((keyword, included, serde_json::from_str(end).ok()?)),
        }
    }
    Some(ends)
}

/// Writes an interval into a schema, for every number in it.
fn set_range(schema: &mut Map<String, Value>, ends: &[(&'static str, &'static str, Number)]) {
    if let Some("integer" | "number") = schema.get("type").and_then(Value::as_str) {
        for (keyword, replaced, end) in ends {
            schema.remove(*replaced);
            schema.insert((*keyword).to_owned(), end.clone().into());
        }
    }
    for (_, below) in schema.iter_mut() {
        let below = match below {
            Value::Array(all) => all.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        for schema in below.iter_mut().filter_map(Value::as_object_mut) {
            set_range(schema, ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    section! {
        /// Settings.
        struct Settings {
            /// Two numbers.
            pair: [f64; 2] = [1e-300, 1e30], "x-range" = "(0, 1e30]";
            /// A number or none.
            count: Option<u64> = Some(1), "x-range" = "[1, inf)";
            /// A number of 32 bits.
            small: u32 = 0;
            /// A text.
            text: String = "x".to_owned(), "minLength" = 1;
            /// Two numbers in an order.
            ends: [u32; 2] = [3, 1], "x-order" = "falling";
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
    fn an_interval_that_cannot_be_read_allows_nothing() {
        for (range, ends) in [
            ("[0, 1)", Some(2)),
            ("(0, inf)", Some(1)),
            ("[-1.5, 2]", Some(2)),
            ("[0, inf]", None),
            ("[0,1]", None),
            ("0, 1", None),
            ("[a, 1]", None),
            (")0, 1]", None),
            ("", None),
        ] {
            assert_eq!(read_range(range).map(|ends| ends.len()), ends, "{range}");
        }
        let mut schema = json!({"type": "integer", "x-range": "[0; 1]"});
        normalise(&mut schema);
        assert_eq!(refusals(&schema, &toml::Value::Integer(0)).len(), 1);
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
        assert_eq!(refused(&|s| s.ends = [2, 2]), None);
        assert_eq!(refused(&|s| s.ends = [1, 3]), some("ends", "[1, 3]"));
        let largest = u64::MAX.to_string();
        assert_eq!(
            refused(&|s| s.count = Some(u64::MAX)),
            some("count", &largest)
        );
    }
}
