//! Numbers that stay valid JSON when they are not finite.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match *value {
        value if value.is_finite() => serializer.serialize_f64(value),
        f64::INFINITY => serializer.serialize_str("Infinity"),
        f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
        _ => serializer.serialize_str("NaN"),
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Raw {
    Number(f64),
    Text(String),
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    match Raw::deserialize(deserializer)? {
        Raw::Number(value) => Ok(value),
        Raw::Text(text) => {
            let number = text.parse::<f64>();
            number.map_err(|_| D::Error::custom(format!("`{text}` is not a number")))
        }
    }
}
