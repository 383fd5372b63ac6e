//! Tables as text: CSV for programs, Markdown for readers.

use std::fmt::Display;

use kvt_data::escape::one_line;

/// A header and rows of cells. Rows are made one by one as they are written.
pub struct Table<R> {
    header: Vec<String>,
    rows: R,
}

impl<R: IntoIterator<Item: AsRef<[String]>>> Table<R> {
    /// A table of these columns.
    pub fn new(header: impl IntoIterator<Item: ToString>, rows: R) -> Self {
        let header = header.into_iter().map(|name| name.to_string());
        Self {
            header: header.collect(),
            rows,
        }
    }

    /// The table as [`csv_lines`].
    pub fn csv(self) -> String {
        csv_lines([self.header]) + &csv_lines(self.rows)
    }

    /// The table in Markdown. Columns with a number (from 0) in `left` are aligned to the left, the others to the right. Cells may
    /// have markup, so that names go through [`escape::markdown`](kvt_data::escape::markdown) first; but no cell ends its line, or
    /// begins another cell.
    pub fn markdown(self, left: &[usize]) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| markdown_cell(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mark = |column| {
            if left.contains(&column) {
                "---"
            } else {
                "---:"
            }
        };
        let marks: Vec<String> = (0..self.header.len()).map(|i| mark(i).to_owned()).collect();
        let rows = self.rows.into_iter().map(|row| line(row.as_ref()));
        line(&self.header) + &line(&marks) + &rows.collect::<String>()
    }
}

/// Lines of CSV: cells with a comma, a quotation mark or a line end are in quotation marks.
pub fn csv_lines(rows: impl IntoIterator<Item: AsRef<[String]>>) -> String {
    // No row is refused for its length.
    let mut lines = csv::WriterBuilder::new()
        .flexible(true)
        .from_writer(Vec::new());
    for row in rows {
        // Writing to memory cannot fail.
        let _ = lines.write_record(row.as_ref());
    }
    String::from_utf8_lossy(&lines.into_inner().unwrap_or_default()).into_owned()
}

/// Values as the cells of a row.
pub fn cells<const N: usize>(values: [&dyn Display; N]) -> [String; N] {
    values.map(|value| value.to_string())
}

/// A value as a cell, which is empty if there is none.
pub fn or_empty(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A share in percent as a cell for readers, `-` if there is none.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", 100.0 * share))
}

/// A cell of Markdown in one line, with its pipes escaped where they are not.
fn markdown_cell(cell: &str) -> String {
    let mut is_escaped = false;
    let escape = |c| {
        let is_bare = c == '|' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_bare.then_some('\\').into_iter().chain([c])
    };
    one_line(cell).chars().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<Vec<[String; 3]>> {
        let rows = [
            ["a,b", "say \"x\"", "1"],
            ["two\nlines", "a|b \\| c", ""],
            ["\r", " ü κ ", "-0.5"],
        ];
        Table::new(
            ["name", "a, \"b\"", ""],
            rows.map(|row| row.map(str::to_owned)).into(),
        )
    }

    /// The output of Python's `csv.writer` for the same cells, whose lines end with `\r\n`.
    #[test]
    fn csv_is_as_pythons() {
        let expected = "name,\"a, \"\"b\"\"\",\n\
                        \"a,b\",\"say \"\"x\"\"\",1\n\
                        \"two\nlines\",a|b \\| c,\n\
                        \"\r\", ü κ ,-0.5\n";
        assert_eq!(table().csv(), expected);
    }

    #[test]
    fn a_row_of_another_length_is_not_lost() {
        let rows = [vec!["1".to_owned()], cells([&1, &2, &3]).into()];
        assert_eq!(Table::new(["a", "b"], rows).csv(), "a,b\n1\n1,2,3\n");
    }

    #[test]
    fn no_cell_of_markdown_ends_early() {
        let expected = "| name | a, \"b\" |  |\n\
                        | --- | ---: | --- |\n\
                        | a,b | say \"x\" | 1 |\n\
                        | two\\u000alines | a\\|b \\| c |  |\n\
                        | \\u000d |  ü κ  | -0.5 |\n";
        assert_eq!(table().markdown(&[0, 2]), expected);
        // An escaped backslash does not escape the pipe after it.
        assert_eq!(markdown_cell("\\\\|"), "\\\\\\|");
    }

    #[test]
    fn cells_are_values_as_they_are_displayed() {
        let row = cells([&"a", &0.1, &or_empty(Some(3)), &or_empty(None::<f64>)]);
        assert_eq!(row, ["a", "0.1", "3", ""]);
    }
}
