//! The schema of `[model.attention]`: the union of the keys of all kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::AttentionConfig;
use crate::{DenseConfig, MechanismConfig as _};

/// Every key of any kind, with the part of its schema that all its kinds share. `x-kinds` lists these kinds. If their
/// defaults or ranges differ, `x-of-kind` has the schema of the key for each of them. A test ensures that type and
/// description never differ.
impl JsonSchema for AttentionConfig {
    fn schema_name() -> Cow<'static, str> {
        "AttentionConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut kinds = Vec::new();
        let mut keys: BTreeMap<String, Vec<(&str, Value)>> = BTreeMap::new();
        for (&kind, schema) in Self::KINDS.iter().zip(Self::schemas(generator)) {
            kinds.push(json!({ "const": kind, "description": schema.get("description") }));
            let own = schema.get("properties").and_then(Value::as_object);
            for (key, schema) in own.into_iter().flatten() {
                let known = keys.entry(key.clone()).or_default();
                known.push((kind, schema.clone()));
            }
        }
        let keys = keys.into_iter();
        let mut properties: Map<String, Value> =
            keys.map(|(key, schemas)| (key, union(&schemas))).collect();
        let kind = json!({
            "description": "The mechanism.",
            "oneOf": kinds,
            "default": DenseConfig::KIND,
        });
        properties.insert("kind".to_owned(), kind);
        json_schema!({
            "description": "How every attention layer mixes its tokens. Each kind has its keys, some of them in common.",
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

/// The schema of a key from its schemas in the kinds that have it.
fn union(schemas: &[(&str, Value)]) -> Value {
    let all = || schemas.iter().map(|(_, schema)| schema);
    let mut shared = Map::new();
    let first = all().next().and_then(Value::as_object);
    for (keyword, value) in first.into_iter().flatten() {
        if all().all(|schema| schema.get(keyword) == Some(value)) {
            shared.insert(keyword.clone(), value.clone());
        }
    }
    let shared_alone = Value::Object(shared.clone());
    if all().any(|schema| *schema != shared_alone) {
        let of_kind = schemas
            .iter()
            .map(|(kind, schema)| ((*kind).to_owned(), schema.clone()));
        shared.insert("x-of-kind".to_owned(), Value::Object(of_kind.collect()));
    }
    let kinds = schemas.iter().map(|(kind, _)| json!(kind));
    shared.insert("x-kinds".to_owned(), kinds.collect());
    Value::Object(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kinds_share_stands_once() {
        let schema = |default: usize, least: usize| json!({ "type": "integer", "minimum": least, "default": default, "description": "A number." });
        let alike = union(&[("b", schema(1, 0)), ("a", schema(1, 0))]);
        let mut expected = schema(1, 0);
        expected["x-kinds"] = json!(["b", "a"]);
        assert_eq!(alike, expected);

        let (one, two) = (schema(1, 0), schema(2, 0));
        let defaults = union(&[("b", one.clone()), ("a", two.clone())]);
        let expected = json!({
            "type": "integer", "minimum": 0, "description": "A number.",
            "x-kinds": ["b", "a"], "x-of-kind": { "a": two, "b": one },
        });
        assert_eq!(defaults, expected);

        let ranges = union(&[("b", schema(1, 0)), ("a", schema(1, 1))]);
        assert_eq!(ranges.get("minimum"), None);
        assert_eq!(ranges["default"], 1);
        assert_eq!(ranges["x-of-kind"]["a"]["minimum"], 1);
        // A bound that only one kind has.
        let mut open = schema(1, 0);
        open.as_object_mut().map(|schema| schema.remove("minimum"));
        let ends = union(&[("b", schema(1, 0)), ("a", open)]);
        assert_eq!(ends.get("minimum"), None);
        assert!(ends.get("x-of-kind").is_some());
    }
}
