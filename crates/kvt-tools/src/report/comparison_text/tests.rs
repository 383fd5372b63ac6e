#![expect(clippy::unwrap_used, reason = "tests")]

use super::super::comparison::tests::{curve, example, top1};
use super::*;

#[test]
fn markdown_has_the_papers_layout() {
    let text = Comparison::new(&example(), Metric::TOP1).to_markdown();
    let expected = "\
| epoch      |          1 |          2 |          3 |       best |       last |
|------------|------------|------------|------------|------------|------------|
| dense      | 12.0 ± 2.8 | 21.0 ± 1.4 |      30.0* | 26.0 ± 5.7 | 26.0 ± 5.7 |
| knn        | 14.0 ± 4.2 | 24.0 ± 0.0 | 31.0 ± 2.8 | 31.0 ± 2.8 | 31.0 ± 2.8 |
| difference | +2.0 ± 1.4 | +3.0 ± 1.4 |       +1.0 | +5.0 ± 8.5 | +5.0 ± 8.5 |

Top-1 in percent on the validation split by finished epochs; mean ± sample standard deviation over runs (dense: 2, knn: 2).
Difference: knn minus dense, seed by seed where both have the same seeds.
* mean over fewer runs than the row has.
";
    assert_eq!(text, expected);
}

/// The numbers of the table itself stay those of the trained weights.
#[test]
fn an_ema_is_a_sentence_of_the_caption() {
    let mut curves = example();
    let without = Comparison::new(&curves, Metric::TOP1);
    assert!(!without.to_markdown().contains("EMA"));
    for (curve, values) in curves.iter_mut().zip([[1.0, 31.0], [2.0, 33.0]]) {
        for (point, value) in curve.epochs.iter_mut().skip(1).zip(values) {
            point.ema = top1(Some(value));
        }
    }
    let with = Comparison::new(&curves, Metric::TOP1);
    let text = with.to_markdown();
    // Each of the two covers one run of two.
    assert!(
        text.contains("Last, with the EMA of the weights: dense 31.0*, knn 33.0*.\n"),
        "{text}"
    );
    let table = |comparison: &Comparison| {
        let text = comparison.to_markdown();
        text.split("\n\n").next().unwrap().to_owned()
    };
    assert_eq!(table(&with), table(&without));
    assert_eq!(with.to_csv(), without.to_csv());
}

#[test]
fn a_single_run_has_no_spread_and_a_gap_is_a_dash() {
    let curves = [
        curve("a|b", 0, &[Some(1.0), None]),
        curve("c", 0, &[None, Some(2.0)]),
    ];
    let table = Comparison::new(&curves, Metric::TOP1);
    let text = table.to_markdown();
    assert!(text.contains("| a\\|b       | 1.0 |   – |"), "{text}");
    assert!(!text.contains('±'), "{text}");
    assert!(!text.contains('*'), "{text}");
    assert!(table.to_text(None).contains("a|b"));
}

#[test]
fn csv_has_full_precision_and_quotes() {
    let label = "a, \"b\"";
    let curves = [
        curve(label, 0, &[Some(9.0), Some(9.125)]),
        curve(label, 1, &[Some(10.0), None]),
        curve(label, 2, &[Some(11.0), None]),
    ];
    let csv = Comparison::new(&curves, Metric::TOP1).to_csv();
    let lines: Vec<_> = csv.lines().collect();
    let [header, row] = lines.as_slice() else {
        unreachable!("one model was given: {csv}");
    };
    assert_eq!(
        *header,
        "model,runs,1,1 spread,2,2 spread,best,best spread,last,last spread"
    );
    // Best and last are over 9.125, 10 and 11, whose mean is not a short decimal.
    assert!(
        row.starts_with("\"a, \"\"b\"\"\",3,10,1,9.125,,10.04166666666666"),
        "{row}"
    );
}

#[test]
fn json_tells_cells_and_gaps() {
    let json = Comparison::new(
        &[curve("a", 0, &[Some(10.0)]), curve("b", 0, &[])],
        Metric::TOP1,
    )
    .to_json()
    .unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["metric"], "top1");
    assert_eq!(value["epochs"], serde_json::json!([1]));
    assert_eq!(
        value["rows"][0]["cells"][0],
        serde_json::json!({"mean": 10.0, "spread": null, "runs": 1})
    );
    assert_eq!(value["rows"][1]["cells"][0], serde_json::Value::Null);
}

#[test]
fn a_narrow_terminal_gets_fewer_columns_and_the_last() {
    let curves = [
        curve("dense", 0, &[Some(1.0); 12]),
        curve("knn", 0, &[Some(2.0); 12]),
    ];
    let table = Comparison::new(&curves, Metric::TOP1);
    let header = |width| table.to_text(width).lines().nth(1).unwrap().to_owned();
    let columns = |width| {
        let header = header(width);
        header
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(None).len(), 15);
    assert_eq!(columns(Some(200)).len(), 15);
    assert_eq!(
        columns(Some(80)),
        ["epoch", "2", "4", "6", "8", "10", "12", "best", "last"]
    );
    assert!(header(Some(80)).chars().count() <= 80);
    assert_eq!(columns(Some(5)), ["epoch", "12", "best", "last"]);
}

#[test]
fn no_runs_make_an_empty_table() {
    let table = Comparison::new(&[], Metric::TOP1);
    assert!(table.to_text(None).contains("best"));
    assert_eq!(table.to_csv().lines().count(), 1);
}
