//! Configuration files with overrides: from a text to a plan.

use std::path::Path;

use kvt_train::config::{Document, diff, resolved_toml};

use proptest::prelude::any;

use crate::corpus::corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

/// What a text and an override make, and what must hold of it.
fn read(text: String, overrides: &[String]) {
    let path = Path::new("x.toml");
    let document = match Document::from_text(path, text, overrides) {
        Ok(document) => document,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let plan = match document.plan() {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    // What a run writes down is what it was told.
    let resolved = resolved_toml(&plan).unwrap();
    let again = Document::from_text(path, resolved, &[]).unwrap();
    let again = again.plan().unwrap();
    assert_eq!(diff(&plan, &again).unwrap(), []);
    assert_eq!(plan, again);
    assert!(
        plan.train
            .batch_size
            .checked_mul(plan.train.accumulate)
            .is_some()
    );
    // Building it would take as long as it is large: what `config check` looks at must do.
    if let Ok(config) = plan.model.config(None) {
        let _ = config.summary();
    }
}

#[test]
fn configurations() {
    let files = corpus("config");
    for file in &files {
        read(String::from_utf8_lossy(file).into_owned(), &[]);
    }
    // Where the edits start from is a plan, with as many overrides as there are.
    let overrides = String::from_utf8_lossy(&files[3]).into_owned();
    let overrides: Vec<String> = overrides.lines().map(str::to_owned).collect();
    for file in &files[..3] {
        let text = String::from_utf8_lossy(file).into_owned();
        let document = Document::from_text(Path::new("x.toml"), text, &overrides).unwrap();
        document.plan().unwrap();
    }
    let cases = (any::<u8>(), edits(0..8), any::<u8>(), edits(0..8));
    fuzz(2_000, &cases, |(file, edits, other, in_override)| {
        let text = edited(&files, file, &edits);
        // A line of the corpus is nearly an override.
        let line = edited(&files, other, &in_override);
        let line = String::from_utf8_lossy(&line).into_owned();
        let overrides: Vec<String> = match in_override.len() {
            0 => Vec::new(),
            count => line
                .lines()
                .skip(count)
                .take(2)
                .map(str::to_owned)
                .collect(),
        };
        let text = String::from_utf8_lossy(&text).into_owned();
        read(text, &overrides);
    });
}
