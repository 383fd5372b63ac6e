//! The cells of a picture of a confusion matrix.

use std::collections::BTreeMap;

/// A cell of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// Row and column.
    pub(super) at: [usize; 2],
    /// Its share of the images of its row, in (0, 1].
    pub(super) share: f64,
    /// Whether most of its images were classified correctly.
    pub(super) is_right: bool,
}

/// The cells that are not empty, where `together` classes share a row and a column.
pub(super) fn shared(cells: &[([usize; 2], u64)], together: usize) -> Vec<Cell> {
    let mut rows = BTreeMap::<usize, u64>::new();
    // Correct and wrong images of a cell.
    let mut counts = BTreeMap::<[usize; 2], [u64; 2]>::new();
    for &([label, predicted], images) in cells {
        let at = [label, predicted].map(|class| class / together.max(1));
        *rows.entry(at[0]).or_default() += images;
        let [right, wrong] = counts.entry(at).or_default();
        if label == predicted {
            *right += images;
        } else {
            *wrong += images;
        }
    }
    let cells = counts.into_iter().filter_map(|(at, [right, wrong])| {
        let row = rows.get(&at[0]).copied().filter(|row| *row > 0)?;
        Some(Cell {
            at,
            share: (right + wrong) as f64 / row as f64,
            is_right: right >= wrong,
        })
    });
    cells.filter(|cell| cell.share > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three classes per cell, by hand: rows of 4 and of 2 images. The first cell has two correct images and a wrong one, whose
    /// predicted class shares the cell.
    #[test]
    fn classes_that_share_a_cell_are_added_up() {
        let cells = [
            ([0, 0], 2),
            ([1, 2], 1),
            ([2, 5], 1),
            ([4, 3], 1),
            ([5, 5], 1),
        ];
        let cell = |at, share, is_right| Cell {
            at,
            share,
            is_right,
        };
        assert_eq!(
            shared(&cells, 3),
            [
                cell([0, 0], 0.75, true),
                cell([0, 1], 0.25, false),
                cell([1, 1], 1.0, true),
            ]
        );
        let alone = shared(&cells, 1);
        assert_eq!(alone.len(), 5);
        assert_eq!(alone[1], cell([1, 2], 1.0, false));
    }
}
