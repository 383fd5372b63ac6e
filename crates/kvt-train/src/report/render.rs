//! A [`Comparison`] as text, Markdown, CSV and JSON.

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_HORIZONTAL_ONLY};
use comfy_table::{CellAlignment, Table, TableComponent};

use super::format::{percent, points, statistic};
use super::{Comparison, Difference, Row, Statistic};

impl Comparison {
    /// A table for the terminal. If it is wider than `width` characters, every second column of epochs is left out
    /// until it fits; without a `width` (for a file or a pipe) all are there.
    pub fn to_text(&self, width: Option<u16>) -> String {
        let mut table = self.table(str::to_owned);
        table.load_preset(UTF8_HORIZONTAL_ONLY).force_no_tty();
        for between_rows in [
            TableComponent::HorizontalLines,
            TableComponent::MiddleIntersections,
            TableComponent::LeftBorderIntersections,
            TableComponent::RightBorderIntersections,
        ] {
            table.remove_style(between_rows);
        }
        let text = table.trim_fmt();
        let needed = text.lines().map(|line| line.chars().count()).max();
        if width.is_some_and(|width| Some(usize::from(width)) < needed) && self.epochs.len() > 1 {
            return self.every_second_column().to_text(width);
        }
        format!("{text}\n{}", self.caption())
    }

    /// A Markdown table and its caption.
    pub fn to_markdown(&self) -> String {
        let mut table = self.table(|label| label.replace('|', "\\|"));
        table.load_preset(ASCII_MARKDOWN).force_no_tty();
        format!("{}\n\n{}", table.trim_fmt(), self.caption())
    }

    /// The table with full precision; each column has a second one for its spread.
    pub fn to_csv(&self) -> String {
        let mut header = vec!["model".to_owned(), "runs".to_owned()];
        for column in self.columns() {
            header.push(column.clone());
            header.push(format!("{column} spread"));
        }
        let mut lines = vec![header];
        for row in &self.rows {
            let mut line = vec![csv_field(&row.label), row.runs.to_string()];
            for cell in cells(&row.cells, row.best.as_ref(), row.last.as_ref()) {
                line.push(cell.map(|cell| cell.mean.to_string()).unwrap_or_default());
                line.push(
                    cell.and_then(|cell| cell.spread)
                        .map(|spread| spread.to_string())
                        .unwrap_or_default(),
                );
            }
            lines.push(line);
        }
        lines.iter().map(|line| line.join(",") + "\n").collect()
    }

    /// The comparison as JSON.
    ///
    /// # Errors
    /// None that a comparison can cause: its numbers are finite and its keys are strings.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The last column stays.
    fn every_second_column(&self) -> Self {
        fn thin<T>(columns: &mut Vec<T>) {
            let mut left = columns.len();
            columns.retain(|_| {
                left -= 1;
                left.is_multiple_of(2)
            });
        }
        let mut thinned = self.clone();
        thin(&mut thinned.epochs);
        thinned.rows.iter_mut().for_each(|row| thin(&mut row.cells));
        if let Some(difference) = &mut thinned.difference {
            thin(&mut difference.cells);
        }
        thinned
    }

    fn columns(&self) -> impl Iterator<Item = String> {
        self.epochs
            .iter()
            .map(u32::to_string)
            .chain(["best".to_owned(), "last".to_owned()])
    }

    fn table(&self, label: impl Fn(&str) -> String) -> Table {
        let mut table = Table::new();
        table.set_header(std::iter::once("epoch".to_owned()).chain(self.columns()));
        for row in &self.rows {
            let cells = cells(&row.cells, row.best.as_ref(), row.last.as_ref());
            let cells = cells.map(|cell| row.text(cell));
            table.add_row(std::iter::once(label(&row.label)).chain(cells));
        }
        if let Some(Difference {
            cells: c,
            best,
            last,
        }) = &self.difference
        {
            let cells = cells(c, best.as_ref(), last.as_ref()).map(|cell| statistic(cell, points));
            table.add_row(std::iter::once("difference".to_owned()).chain(cells));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// What the numbers are, in sentences.
    fn caption(&self) -> String {
        let most = self.rows.iter().map(|row| row.runs).max().unwrap_or(0);
        let mut caption =
            String::from("Top-1 in percent on the validation split by finished epochs");
        if most > 1 {
            caption += "; mean ± sample standard deviation over runs (";
            let counts: Vec<String> = self
                .rows
                .iter()
                .map(|row| format!("{}: {}", row.label, row.runs))
                .collect();
            caption += &counts.join(", ");
            caption += ")";
        }
        caption += ".\n";
        if let (Some(_), [first, second]) = (&self.difference, self.rows.as_slice()) {
            caption += &format!("Difference: {} minus {}", second.label, first.label);
            caption += if most > 1 {
                ", seed by seed where both have the same seeds.\n"
            } else {
                ".\n"
            };
        }
        let averaged: Vec<String> = self
            .rows
            .iter()
            .filter(|row| row.last_ema.is_some())
            .map(|row| format!("{} {}", row.label, row.text(row.last_ema.as_ref())))
            .collect();
        if !averaged.is_empty() {
            let averaged = averaged.join(", ");
            caption += &format!("Last, with the EMA of the weights: {averaged}.\n");
        }
        if self.rows.iter().any(Row::has_gaps) {
            caption += "* fewer runs than the row has.\n";
        }
        caption
    }
}

impl Row {
    fn text(&self, cell: Option<&Statistic>) -> String {
        let text = statistic(cell, percent);
        // A mean over other runs than its neighbours must not pass for the same.
        match cell {
            Some(cell) if cell.runs < self.runs => text + "*",
            _ => text,
        }
    }

    fn has_gaps(&self) -> bool {
        cells(&self.cells, self.best.as_ref(), self.last.as_ref())
            .chain([self.last_ema.as_ref()])
            .flatten()
            .any(|cell| cell.runs < self.runs)
    }
}

fn cells<'a>(
    cells: &'a [Option<Statistic>],
    best: Option<&'a Statistic>,
    last: Option<&'a Statistic>,
) -> impl Iterator<Item = Option<&'a Statistic>> {
    cells.iter().map(Option::as_ref).chain([best, last])
}

fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::compare::tests::{curve, example};
    use super::*;

    #[test]
    fn markdown_has_the_papers_layout() {
        let text = Comparison::new(&example()).to_markdown();
        let expected = "\
| epoch      |          1 |          2 |          3 |       best |       last |
|------------|------------|------------|------------|------------|------------|
| dense      | 12.0 ± 2.8 | 21.0 ± 1.4 |      30.0* | 26.0 ± 5.7 | 26.0 ± 5.7 |
| knn        | 14.0 ± 4.2 | 24.0 ± 0.0 | 31.0 ± 2.8 | 31.0 ± 2.8 | 31.0 ± 2.8 |
| difference | +2.0 ± 1.4 | +3.0 ± 1.4 |       +1.0 | +5.0 ± 8.5 | +5.0 ± 8.5 |

Top-1 in percent on the validation split by finished epochs; mean ± sample standard deviation over runs (dense: 2, knn: 2).
Difference: knn minus dense, seed by seed where both have the same seeds.
* fewer runs than the row has.
";
        assert_eq!(text, expected);
    }

    /// Beside the table: its numbers stay those of the trained weights.
    #[test]
    fn an_ema_is_a_sentence_of_the_caption() {
        let mut curves = example();
        let without = Comparison::new(&curves);
        assert!(!without.to_markdown().contains("EMA"));
        for (curve, ema_top1) in curves.iter_mut().zip([[1.0, 31.0], [2.0, 33.0]]) {
            for (point, ema_top1) in curve.epochs.iter_mut().skip(1).zip(ema_top1) {
                point.ema_top1 = Some(ema_top1);
            }
        }
        let with = Comparison::new(&curves);
        let text = with.to_markdown();
        // Each of the two is one run of two.
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
        let table = Comparison::new(&curves);
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
        let csv = Comparison::new(&curves).to_csv();
        let lines: Vec<_> = csv.lines().collect();
        let [header, row] = lines.as_slice() else {
            unreachable!("one model was given: {csv}");
        };
        assert_eq!(
            *header,
            "model,runs,1,1 spread,2,2 spread,best,best spread,last,last spread"
        );
        // Best and last are of 9.125, 10 and 11, whose mean is no round number.
        assert!(
            row.starts_with("\"a, \"\"b\"\"\",3,10,1,9.125,,10.04166666666666"),
            "{row}"
        );
    }

    #[test]
    fn json_tells_cells_and_gaps() {
        let json = Comparison::new(&[curve("a", 0, &[Some(10.0)]), curve("b", 0, &[])])
            .to_json()
            .unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
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
        let table = Comparison::new(&curves);
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
        let table = Comparison::new(&[]);
        assert!(table.to_text(None).contains("best"));
        assert_eq!(table.to_csv().lines().count(), 1);
    }
}
