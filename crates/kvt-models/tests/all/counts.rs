//! Parameters of the named models, as Python counts them.

use kvt_models::ModelConfig;
use serde_json::Value;

use crate::cases::folder;

#[test]
fn parameters_are_those_of_the_published_models() {
    // Written by `scripts/reference/counts.py`, and by the scripts of families that need the authors' code.
    for (file, least) in [("param_counts.json", 36), ("counts_sovit.json", 4)] {
        compare(file, least);
    }
}

fn compare(file: &str, least: usize) {
    let file = fs_err::read_to_string(folder().join(file)).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let counts = file["params"].as_object().unwrap();
    assert!(counts.len() >= least, "{} models", counts.len());
    for (name, count) in counts {
        let model = ModelConfig::by_name(name).unwrap();
        let params = model.summary().params as u64;
        assert_eq!(Some(params), count.as_u64(), "{name}");
    }
}
