//! Parameters of the models with a name, as Python counts them.

use kvt_models::ModelConfig;
use serde_json::Value;

use crate::cases::folder;

#[test]
fn parameters_are_those_of_the_published_models() {
    // Written by `scripts/reference/counts.py`.
    let file = fs_err::read_to_string(folder().join("param_counts.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let counts = file["params"].as_object().unwrap();
    assert!(counts.len() >= 28, "{} models", counts.len());
    for (name, count) in counts {
        let model = ModelConfig::by_name(name).unwrap();
        let params = model.summary().params as u64;
        assert_eq!(Some(params), count.as_u64(), "{name}");
    }
}
