//! A confusion matrix as PNG: rows are true classes, columns are predicted classes, and a cell shows its share of the row.
//! Correct cells are blue, wrong ones orange. With more classes than pixels, several classes share a cell.

mod cells;

use std::path::Path;

use plotters::prelude::*;
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use self::cells::{Cell, shared};
use super::ReportError;
use super::plot::save;
use kvt_train::plot::{FONT, GRID, INK, PALETTE};
use kvt_train::plot::{encode_png, letters_in, register_fonts, shortened, wrapped};

/// Up to this many classes, cells are wide enough for a number.
const NUMBERED: usize = 20;
/// Up to this many classes, there is room for their names.
const NAMED: usize = 60;
/// Maximum number of letters shown of a name.
const LETTERS: usize = 24;
/// Approximate side of the matrix in pixels, which is also the maximum number of cells per row; and the minimum side of a cell
/// with a name, and the maximum side of any cell.
const SIDE: usize = 1000;
const CELL: [usize; 2] = [20, 96];
/// Pixels around the picture, per line of text, per line of the title, of its letters, and per letter of a name.
const GAP: i32 = 24;
const LINE: i32 = 40;
const TITLE: i32 = 28;
const BOLD: u32 = 20;
const LETTER: i32 = 10;
/// Minimum width of a picture, so that the title of a small matrix has few lines.
const LEAST_WIDTH: i32 = 420;
/// The unit of the numbers and colours.
const UNIT: &str = "% of the images of each true class";

/// Draws a confusion matrix to a PNG file, atomically. `cells` has the number of images of each pair of true and predicted class
/// that occurs.
///
/// # Errors
/// Failures of drawing and of the file system.
pub(crate) fn draw_confusion(
    cells: &[([usize; 2], u64)],
    names: &[String],
    title: &str,
    path: &Path,
) -> Result<(), ReportError> {
    save(png(cells, names, title), path)
}

fn png(cells: &[([usize; 2], u64)], names: &[String], title: &str) -> Result<Vec<u8>, String> {
    register_fonts()?;
    let classes = names.len().max(1);
    let is_named = classes <= NAMED;
    let together = classes.div_ceil(SIDE);
    let places = classes.div_ceil(together);
    let cell = if is_named {
        (SIDE / places).clamp(CELL[0], CELL[1])
    } else {
        SIDE / places
    };
    let names: Vec<String> = names.iter().map(|name| shortened(name, LETTERS)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let pixels = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let label = if is_named {
        LETTER * pixels(longest.unwrap_or(0)) + GAP / 2
    } else {
        0
    };
    let matrix = pixels(places * cell);
    // Left of the matrix: an axis title and the names. Above it: the title of the picture, and the unit.
    let left = GAP + LINE + label;
    let width = (left + matrix + GAP).max(LEAST_WIDTH);
    let room = (width - 2 * GAP).unsigned_abs();
    let title = wrapped(title, letters_in(room, BOLD + 2));
    let top = GAP + TITLE * pixels(title.len()) + LINE;
    let height = top + matrix + label + LINE + GAP;
    let [width, height] = [width, height].map(i32::unsigned_abs);
    let mut bytes = vec![0; width as usize * height as usize * 3];
    let picture = Matrix {
        cells: shared(cells, together),
        names: is_named.then_some(names.as_slice()),
        places,
        together,
        cell: pixels(cell),
        place: (left, top),
        label,
    };
    {
        let root = BitMapBackend::with_buffer(&mut bytes, (width, height)).into_drawing_area();
        picture
            .draw(&root, &title)
            .map_err(|error| error.to_string())?;
    }
    encode_png(&bytes, width, height)
}

struct Matrix<'a> {
    cells: Vec<Cell>,
    /// `None` where there is no room for them.
    names: Option<&'a [String]>,
    /// Cells per row, and classes per cell.
    places: usize,
    together: usize,
    /// Side of a cell in pixels.
    cell: i32,
    /// The upper left corner of the matrix.
    place: (i32, i32),
    /// Room for the names.
    label: i32,
}

impl Matrix<'_> {
    fn draw<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
        title: &[String],
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        root.fill(&WHITE)?;
        let (left, top) = self.place;
        let side = self.cell * i32::try_from(self.places).unwrap_or(i32::MAX);
        let text = |size: i32| (FONT, size).into_font().color(&INK);
        let at = |style: TextStyle<'static>, h, v| style.pos(Pos::new(h, v));
        let bold = (FONT, BOLD, FontStyle::Bold).into_font().color(&INK);
        let mut below = GAP / 2;
        for line in title {
            root.draw(&Text::new(line.clone(), (GAP, below), bold.clone()))?;
            below += TITLE;
        }
        root.draw(&Text::new(UNIT, (GAP, below), text(16)))?;
        let corners = [(left - 1, top - 1), (left + side, top + side)];
        root.draw(&Rectangle::new(corners, GRID.stroke_width(1)))?;
        for cell in &self.cells {
            self.cell(root, cell)?;
        }
        for (number, name) in self.names.unwrap_or_default().iter().enumerate() {
            let middle = self.cell * i32::try_from(number).unwrap_or(0) + self.cell / 2;
            let style = at(text(16), HPos::Right, VPos::Center);
            root.draw(&Text::new(name.clone(), (left - 8, top + middle), style))?;
            let turned = (FONT, 16).into_font().transform(FontTransform::Rotate270);
            let style = at(turned.color(&INK), HPos::Right, VPos::Center);
            root.draw(&Text::new(
                name.clone(),
                (left + middle, top + side + 8),
                style,
            ))?;
        }
        let style = at(text(18), HPos::Center, VPos::Top);
        let under = (left + side / 2, top + side + self.label + GAP / 2);
        let axis = match self.together {
            1 => "predicted class".to_owned(),
            many => format!("predicted class ({many} classes a point)"),
        };
        root.draw(&Text::new(axis, under, style))?;
        let turned = (FONT, 18).into_font().transform(FontTransform::Rotate270);
        let style = at(turned.color(&INK), HPos::Center, VPos::Top);
        root.draw(&Text::new("true class", (GAP / 2, top + side / 2), style))
    }

    fn cell<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
        cell: &Cell,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let Cell {
            at: [row, column],
            share,
            is_right,
        } = *cell;
        let place = |start: i32, number: usize| {
            start + self.cell * i32::try_from(number).unwrap_or(i32::MAX)
        };
        let (x, y) = (place(self.place.0, column), place(self.place.1, row));
        let color = PALETTE[usize::from(!is_right)];
        let corners = [(x, y), (x + self.cell, y + self.cell)];
        // The square root makes small shares visible: 1 % is a tenth as dark as 100 %.
        let style = color.mix(share.sqrt().clamp(0.05, 1.0)).filled();
        root.draw(&Rectangle::new(corners, style))?;
        if self.places <= NUMBERED {
            let ink = if share > 0.4 { WHITE } else { INK };
            let style = (FONT, 15)
                .into_font()
                .color(&ink)
                .pos(Pos::new(HPos::Center, VPos::Center));
            let middle = (x + self.cell / 2, y + self.cell / 2);
            root.draw(&Text::new(percent(share), middle, style))?;
        }
        Ok(())
    }
}

/// A share above 0 in percent: whole, and with a decimal where a whole number would hide a few errors.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 0.05 {
        "<0.1".to_owned()
    } else if percent < 9.95 || (99.0..100.0).contains(&percent) {
        // Rounded down, so that only a class without errors has 100.
        format!("{:.1}", (10.0 * percent + 1e-9).floor().max(1.0) / 10.0)
    } else {
        format!("{percent:.0}")
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("class {n}")).collect()
    }

    /// Of two classes, the first is always right and the second is always predicted as the first: a blue cell above an orange
    /// one.
    #[test]
    fn what_is_right_is_blue_and_what_is_wrong_is_orange() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("confusion.png");
        let cells = [([0, 0], 3), ([1, 0], 5)];
        draw_confusion(&cells, &names(2), "Title", &path).unwrap();
        let picture = image::open(&path).unwrap().to_rgb8();
        let count = |color: RGBColor| {
            let color = image::Rgb([color.0, color.1, color.2]);
            let mut found = picture.enumerate_pixels().filter(|(_, _, p)| **p == color);
            let first = found.next().map(|(x, y, _)| (x, y));
            (first, found.count())
        };
        let (blue, orange) = (count(PALETTE[0]), count(PALETTE[1]));
        // A cell minus its number.
        let cell = CELL[1] * CELL[1];
        for (first, pixels) in [blue, orange] {
            assert!(first.is_some() && pixels > cell * 8 / 10 && pixels <= cell + 4 * CELL[1]);
        }
        let (first, second) = (blue.0.unwrap(), orange.0.unwrap());
        assert_eq!(first.0, second.0);
        assert!(first.1 < second.1);
    }

    #[test]
    fn a_few_errors_are_not_none() {
        let shares = [1e-4, 0.0004, 0.004, 0.0449, 0.1, 0.456, 0.9899, 0.9996, 1.0];
        let texts = [
            "<0.1", "<0.1", "0.4", "4.4", "10", "46", "99", "99.9", "100",
        ];
        assert_eq!(shares.map(percent), texts);
    }

    /// A long title is as wide as the matrix: no part of the picture is blank beside it.
    #[test]
    fn a_long_title_does_not_widen_the_picture() {
        let size = |title: &str| {
            let png = png(&[([0, 0], 3)], &names(5), title).unwrap();
            let picture = image::load_from_memory(&png).unwrap();
            (picture.width(), picture.height())
        };
        let (short, long) = (size("a title"), size(&"some more words ".repeat(8)));
        assert_eq!(short.0, long.0);
        // Names of 7 letters, five cells of 96 pixels.
        assert_eq!(short.0, 24 + 40 + (7 * 10 + 12) + 5 * 96 + 24);
        assert!(long.1 > short.1);
    }

    #[test]
    fn many_classes_have_no_names() {
        for count in [0, 1, 61, 1000, 1001, 21_841, 1_000_000] {
            let cells: Vec<_> = (0..count).step_by(7).map(|class| ([class; 2], 1)).collect();
            let png = png(&cells, &names(count), "many").unwrap();
            let picture = image::load_from_memory(&png).unwrap();
            assert!(picture.width().max(picture.height()) < 1400, "{count}");
        }
    }
}
