//! A [`Comparison`] as text, Markdown, CSV and JSON.

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_HORIZONTAL_ONLY};
use comfy_table::{CellAlignment, TableComponent};

use super::format::{difference, value};
use super::{Comparison, Row, Statistic};
use kvt_data::escape::{markdown, one_line};
use kvt_train::run::Metric;
use kvt_train::table::{Table, or_empty};

impl Comparison {
    /// A table for the terminal. If it is wider than `width` characters, every second column of epochs is dropped until it fits;
    /// without a `width` (for a file or a pipe) all columns are kept.
    pub fn to_text(&self, width: Option<u16>) -> String {
        let shown = |label: &str| one_line(label).into_owned();
        let mut table = self.table(shown);
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
        format!("{text}\n{}", self.caption(shown))
    }

    /// A Markdown table and its caption.
    pub fn to_markdown(&self) -> String {
        let mut table = self.table(markdown);
        table.load_preset(ASCII_MARKDOWN).force_no_tty();
        format!("{}\n\n{}", table.trim_fmt(), self.caption(markdown))
    }

    /// The table with full precision; each column is followed by one for its spread.
    pub fn to_csv(&self) -> String {
        let columns = self.columns().flat_map(|column| {
            let spread = format!("{column} spread");
            [column, spread]
        });
        let header = ["model", "runs"].map(str::to_owned).into_iter();
        let rows = self.rows.iter().map(|row| {
            let numbers = row.values.all().flat_map(|cell| {
                let spread = cell.and_then(|cell| cell.spread);
                [cell.map(|cell| cell.mean), spread].map(or_empty)
            });
            let first = [row.label.clone(), row.runs.to_string()].into_iter();
            first.chain(numbers).collect::<Vec<_>>()
        });
        Table::new(header.chain(columns), rows).csv()
    }

    /// The comparison as JSON.
    ///
    /// # Errors
    /// None in practice: the numbers are finite and the keys are strings.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Drops every second column, but keeps the last one.
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
        let rows = thinned.rows.iter_mut();
        rows.for_each(|row| thin(&mut row.values.cells));
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

    fn table(&self, label: impl Fn(&str) -> String) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        let mut lines = self.lines(label).into_iter();
        table.set_header(lines.next().unwrap_or_default());
        table.add_rows(lines);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// The cells of the table, line by line; the first line has the names of the columns.
    pub(super) fn lines(&self, label: impl Fn(&str) -> String) -> Vec<Vec<String>> {
        let first = std::iter::once("epoch".to_owned());
        let mut lines = vec![first.chain(self.columns()).collect()];
        for row in &self.rows {
            let cells = row.values.all();
            let cells = cells.map(|cell| row.text(cell, self.metric));
            lines.push(std::iter::once(label(&row.label)).chain(cells).collect());
        }
        if let Some(values) = &self.difference {
            let cells = values.all().map(|cell| difference(cell, self.metric));
            let first = std::iter::once("difference".to_owned());
            lines.push(first.chain(cells).collect());
        }
        lines
    }

    /// A description of the numbers, in sentences, with the labels as `label` shows them.
    pub(super) fn caption(&self, label: impl Fn(&str) -> String) -> String {
        let most = self.rows.iter().map(|row| row.runs).max().unwrap_or(0);
        let mut title = self.metric.title.to_owned();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let unit = if self.metric.percent {
            " in percent"
        } else {
            ""
        };
        let mut caption = format!("{title}{unit} on the validation split by finished epochs");
        if most > 1 {
            caption += "; mean ± sample standard deviation over runs (";
            let counts: Vec<String> = self
                .rows
                .iter()
                .map(|row| format!("{}: {}", label(&row.label), row.runs))
                .collect();
            caption += &counts.join(", ");
            caption += ")";
        }
        caption += ".\n";
        if let (Some(_), [first, second]) = (&self.difference, self.rows.as_slice()) {
            let (baseline, other) = (label(&first.label), label(&second.label));
            caption += &format!("Difference: {other} minus {baseline}");
            caption += if most > 1 {
                ", seed by seed where both have the same seeds.\n"
            } else {
                ".\n"
            };
        }
        if most == 1 && self.rows.len() > 1 {
            caption += "One seed each: differences of a few points may be chance. `kvt compare --seeds 3` trains three.\n";
        }
        let averaged: Vec<String> = self
            .rows
            .iter()
            .filter(|row| row.last_ema.is_some())
            .map(|row| {
                let text = row.text(row.last_ema.as_ref(), self.metric);
                format!("{} {text}", label(&row.label))
            })
            .collect();
        if !averaged.is_empty() {
            let averaged = averaged.join(", ");
            caption += &format!("Last, with the EMA of the weights: {averaged}.\n");
        }
        if self.rows.iter().any(Row::has_gaps) {
            caption += "* mean over fewer runs than the row has.\n";
        }
        caption
    }
}

impl Row {
    fn text(&self, cell: Option<&Statistic>, metric: Metric) -> String {
        let text = value(cell, metric);
        // Mark a mean over fewer runs than the row has, so that it is not mistaken for a comparable one.
        match cell {
            Some(cell) if cell.runs < self.runs => text + "*",
            _ => text,
        }
    }

    fn has_gaps(&self) -> bool {
        let mut all = self.values.all().chain([self.last_ema.as_ref()]).flatten();
        all.any(|cell| cell.runs < self.runs)
    }
}

#[cfg(test)]
mod tests;
