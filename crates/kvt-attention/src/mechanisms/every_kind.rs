//! Properties of every kind of attention.

#![expect(clippy::unwrap_used, reason = "tests")]

use burn::module::Module;
use burn::tensor::Device;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::AttentionConfig;
use crate::{BurnInit, Place};

/// The default settings of a kind, with another value of one key.
fn with(kind: &str, key: &str, value: Value) -> AttentionConfig {
    let mut keys = Map::from_iter([("kind".to_owned(), json!(kind))]);
    keys.insert(key.to_owned(), value);
    serde_json::from_value(Value::Object(keys)).unwrap()
}

/// Both ends of the range of a key are valid, and values slightly outside it are not.
#[test]
fn the_schemas_and_the_checks_have_the_same_ranges() {
    let mut ranges = 0;
    let schemas = AttentionConfig::schemas(&mut SchemaGenerator::default());
    for (kind, schema) in AttentionConfig::KINDS.iter().zip(schemas) {
        let keys = schema.get("properties").unwrap().as_object().unwrap();
        for (key, schema) in keys {
            let [Some(least), Some(most)] = ["minimum", "maximum"].map(|end| schema[end].as_f64())
            else {
                continue;
            };
            // These limit each other, so that the ends of one range are invalid with the defaults of the others.
            if *kind == "poolingformer" && ["pool", "pool_radius", "stride"].contains(&key.as_str())
            {
                continue;
            }
            ranges += 1;
            let is_whole = schema["type"] == "integer";
            let valid = |value: f64| {
                let value = if is_whole {
                    json!(value as u64)
                } else {
                    json!(value)
                };
                with(kind, key, value).validate().is_ok()
            };
            assert!(valid(least) && valid(most), "{kind} `{key}`");
            let beyond = if is_whole { most + 1.0 } else { most * 1.1 };
            assert!(!valid(beyond), "{kind} `{key}` {beyond}");
            // Unsigned integers cannot be below 0.
            if is_whole && least == 0.0 {
                continue;
            }
            let below = if is_whole {
                least - 1.0
            } else {
                least * 0.9 - 1e-9
            };
            assert!(!valid(below), "{kind} `{key}` {below}");
        }
    }
    assert!(ranges > 1);
}

/// At a place where the defaults of all kinds fit.
#[test]
fn the_parameters_that_a_kind_costs_are_those_of_its_module() {
    let place = Place {
        prefix: 1,
        grid: Some([18, 18]),
        ..Place::new(325, 24, 3)
    };
    for kind in AttentionConfig::KINDS {
        let config: AttentionConfig = serde_json::from_value(json!({ "kind": kind })).unwrap();
        config.validate_at(&place).unwrap();
        let module = config.init(&place, &BurnInit::new(&Device::flex()));
        assert_eq!(config.cost(&place).params, module.num_params(), "{kind}");
    }
}
