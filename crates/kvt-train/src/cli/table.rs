//! Plain tables for stdout.

use comfy_table::{CellAlignment, Table, presets};

use super::output::one_line;

/// A table with a header; every column but the first is aligned to the right.
pub(super) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(header.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|cell| one_line(cell)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A large number with a unit: `5.72 M`.
pub(super) fn human(number: f64) -> String {
    let (value, unit) = match number {
        n if n >= 1e9 => (n / 1e9, " G"),
        n if n >= 1e6 => (n / 1e6, " M"),
        n if n >= 1e3 => (n / 1e3, " k"),
        n => return format!("{n}"),
    };
    format!("{value:.2}{unit}")
}

/// Digits in groups of three: `5,717,416`.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line() {
        let rows = [vec!["a\nb".to_owned(), "1\u{1b}[2J".to_owned()]];
        let text = table(&["name", "value"], rows);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.contains("a\\u000ab") && text.contains("1\\u001b[2J"),
            "{text}"
        );
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(5_717_416), "5,717,416");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(human(1.254e9), "1.25 G");
        assert_eq!(human(12.0), "12");
    }
}
