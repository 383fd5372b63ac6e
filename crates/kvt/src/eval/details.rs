//! The results of `kvt eval` for each class, and its restriction to some of the classes.

use serde_json::{Value, json};

use crate::table::table;
use kvt_train::judge::Judgement;

/// Maximum number of class pairs shown.
const PAIRS: usize = 10;

/// Each class and the most confused pairs, as tables.
pub(super) fn tables(judged: &Judgement, names: &[String]) -> String {
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", 100.0 * share))
    };
    let rows = judged.by_class().into_iter().zip(names);
    // Skip classes without images.
    let rows = rows.filter(|(row, _)| row.images > 0).map(|(row, name)| {
        vec![
            name.clone(),
            row.images.to_string(),
            percent(row.recall()),
            percent(row.precision()),
            percent(row.f1()),
        ]
    });
    let header = ["class", "images", "accuracy", "precision", "F1"];
    let mut text = format!(
        "{}\n\nmean accuracy of the classes {:.2} %",
        table(&header, rows),
        100.0 * judged.balanced_accuracy()
    );
    let pairs = judged.confused(PAIRS).into_iter().map(|pair| {
        vec![
            name(names, pair.label),
            name(names, pair.predicted),
            pair.images.to_string(),
        ]
    });
    let pairs: Vec<_> = pairs.collect();
    if !pairs.is_empty() {
        text += &format!(
            "\n\n{}",
            table(&["confused most: class", "taken for", "images"], pairs)
        );
    }
    text
}

/// Each class, as JSON, with shares in percent.
pub(super) fn classes(judged: &Judgement, names: &[String]) -> Value {
    let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
    let rows = judged.by_class().into_iter().zip(names).map(|(row, name)| {
        json!({
            "class": name,
            "images": row.images,
            "right": row.right,
            "accuracy": percent(row.recall()),
            "precision": percent(row.precision()),
            "f1": percent(row.f1()),
        })
    });
    rows.collect()
}

/// The most confused pairs, as JSON.
pub(super) fn confused(judged: &Judgement, names: &[String]) -> Value {
    let pairs = judged.confused(PAIRS).into_iter().map(|pair| {
        json!({
            "class": name(names, pair.label),
            "predicted": name(names, pair.predicted),
            "images": pair.images,
        })
    });
    pairs.collect()
}

fn name(names: &[String], class: usize) -> String {
    let name = names.get(class).cloned();
    name.unwrap_or_else(|| class.to_string())
}
