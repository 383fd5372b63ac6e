//! Plain tables for stdout.

use comfy_table::{CellAlignment, Table, presets};

use kvt_data::escape::one_line;
use kvt_data::text::counted;
pub(super) use kvt_train::plot::{grouped, human};
use kvt_train::task::Scores;

/// A table with a header; every column but the first is aligned to the right.
pub(super) fn table<'a>(
    header: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(header.into_iter().collect::<Vec<_>>());
    for row in rows {
        table.add_row(row.iter().map(|cell| one_line(cell)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// The twelve numbers of detections in these images, of boxes and of masks.
pub(super) fn scores_text(scores: &Scores, images: &str) -> String {
    format!(
        "{} in {images}, as pycocotools counts, in percent\n\n{}",
        counted(scores.detections, "detection"),
        table(scores.header(""), scores.rows("-"))
    )
}

/// The average precision of each class of objects.
pub(super) fn class_scores_table(scores: &Scores) -> String {
    table(scores.header("AP of class"), scores.class_rows("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_line() {
        let rows = [vec!["a\nb".to_owned(), "1\u{1b}[2J".to_owned()]];
        let text = table(["name", "value"], rows);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.contains("a\\u000ab") && text.contains("1\\u001b[2J"),
            "{text}"
        );
    }
}
