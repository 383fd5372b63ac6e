//! Objects on a picture: their pixels half transparent with an outline, their boxes, and what is to be said of them.

use image::{Rgb, RgbImage};
use kvt_data::coco::Annotation;
use kvt_ops::ObjectMask;

use super::{half, object_color};
use kvt_train::plot::{shortened, write};

/// Height of a picture's letters: the longer side divided by this, within these limits. A report shows two pictures side by side at
/// about half of their size.
const LETTERS_OF: u32 = 28;
const LETTERS: [u32; 2] = [12, 28];
/// The longest words at a box, in letters.
const LONGEST: usize = 28;
/// A line is a pixel wide, and one more for so many pixels of the longer side.
const LINE_OF: u32 = 512;

/// An object on a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct PaintedObject {
    /// Its class, which gives the colour.
    pub label: usize,
    /// `[x, y, width, height]` in pixels.
    pub bbox: [f64; 4],
    /// Its pixels, if they are known.
    pub mask: Option<ObjectMask>,
    /// What stands at its box, if it is not empty.
    pub words: String,
}

impl PaintedObject {
    /// An object of a picture of `size` (height, width) as annotated.
    pub(crate) fn of(one: &Annotation, size: (u32, u32), words: String) -> Self {
        Self {
            label: one.label,
            bbox: one.bbox,
            mask: one.mask(size).as_ref().map(ObjectMask::from),
            words,
        }
    }
}

/// The brightness of the picture under the half transparent colours of the objects, and their outlines in full colour. The first object
/// is on top.
#[must_use]
pub fn with_masks(picture: &RgbImage, objects: &[PaintedObject]) -> RgbImage {
    let mut painted = picture.clone();
    for object in objects.iter().rev() {
        let color = object_color(object.label);
        for (row, column, is_outline) in object.mask.iter().flat_map(pixels) {
            let (x, y) = (column as u32, row as u32);
            let below = picture.get_pixel_checked(x, y).copied();
            if let Some((place, below)) = painted.get_pixel_mut_checked(x, y).zip(below) {
                *place = if is_outline {
                    Rgb(color)
                } else {
                    half(below, color)
                };
            }
        }
    }
    painted
}

/// The row and the column of each pixel inside, and whether one of its four neighbours is outside.
fn pixels(mask: &ObjectMask) -> impl Iterator<Item = (usize, usize, bool)> {
    let rows = mask.top..mask.top + mask.height;
    let all = rows.flat_map(move |row| {
        let columns = mask.left..mask.left + mask.width;
        columns.map(move |column| (row, column))
    });
    let inside = all.filter(move |&(row, column)| mask.contains(row, column));
    inside.map(move |(row, column)| {
        let up_and_left = row > 0
            && column > 0
            && mask.contains(row - 1, column)
            && mask.contains(row, column - 1);
        let all = up_and_left && mask.contains(row + 1, column) && mask.contains(row, column + 1);
        (row, column, !all)
    })
}

/// The boxes of objects of a picture of `original` (width, height) on one of another size, and their words. The first object is on top.
///
/// # Errors
/// The drawing library's message.
pub fn with_boxes(
    mut picture: RgbImage,
    objects: &[PaintedObject],
    original: (u32, u32),
) -> Result<RgbImage, String> {
    let (width, height) = picture.dimensions();
    let scale = |new: u32, old: u32| f64::from(new) / f64::from(old.max(1));
    let (across, down) = (scale(width, original.0), scale(height, original.1));
    let longer = width.max(height);
    let thick = 1 + longer / LINE_OF;
    let letters = (longer / LETTERS_OF).clamp(LETTERS[0], LETTERS[1]);
    for object in objects.iter().rev() {
        let [x, y, w, h] = object.bbox;
        // The first pixel that the box touches, and the one after the last; casts saturate.
        let ends = |start: f64, length: f64, scale: f64, side: u32| {
            let end = ((start + length) * scale).ceil() as u32;
            (((start * scale).floor() as u32).min(side), end.min(side))
        };
        let (left, right) = ends(x, w, across, width);
        let (top, bottom) = ends(y, h, down, height);
        let color = object_color(object.label);
        for (row, column) in (top..bottom).flat_map(|y| (left..right).map(move |x| (y, x))) {
            let edge = (row - top).min(bottom - 1 - row);
            let edge = edge.min(column - left).min(right - 1 - column);
            if edge < thick {
                picture.put_pixel(column, row, Rgb(color));
            }
        }
        if !object.words.is_empty() {
            let words = shortened(&object.words, LONGEST);
            label(&mut picture, (left, top), words, letters, color)?;
        }
    }
    Ok(picture)
}

/// Words on a patch of a pale colour, above a place or below it where there is no room above.
fn label(
    picture: &mut RgbImage,
    (left, top): (u32, u32),
    words: String,
    letters: u32,
    color: [u8; 3],
) -> Result<(), String> {
    let (width, height) = picture.dimensions();
    // A letter is about 0.6 times as wide as it is high.
    let long = (words.chars().count() as u32 * letters * 3 / 5 + letters / 2).min(width);
    let tall = (letters + letters / 4).min(height);
    let left = left.min(width - long);
    let top = top.checked_sub(tall).unwrap_or(top.min(height - tall));
    for (x, y) in (left..left + long).flat_map(|x| (top..top + tall).map(move |y| (x, y))) {
        picture.put_pixel(x, y, Rgb(color.map(|paint| paint.midpoint(255))));
    }
    // Letters are drawn in the upper part of their height.
    let (x, y) = (left + letters / 4, top + 7 * letters / 16);
    write(picture, letters, &[(x, y, words)])
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn object(label: usize, bbox: [f64; 4], inside: &[&str]) -> PaintedObject {
        let width = inside.first().map_or(0, |row| row.len());
        PaintedObject {
            label,
            bbox,
            mask: Some(ObjectMask {
                top: 1,
                left: 1,
                height: inside.len(),
                width,
                inside: inside
                    .iter()
                    .flat_map(|row| row.bytes().map(|pixel| pixel == b'x'))
                    .collect(),
            }),
            words: String::new(),
        }
    }

    /// Each pixel as a letter: `.` as it was, `o` in full colour, `h` half transparent over grey 100.
    fn seen(picture: &RgbImage, label: usize) -> Vec<String> {
        let color = object_color(label);
        let half = color.map(|paint| paint.midpoint(100));
        let letter = |pixel: &Rgb<u8>| match pixel.0 {
            [100, 100, 100] => '.',
            pixel if pixel == color => 'o',
            pixel if pixel == half => 'h',
            _ => '?',
        };
        let rows = picture.rows();
        rows.map(|row| row.map(letter).collect()).collect()
    }

    /// By hand: only a pixel with all four neighbours inside is no outline, also beside a hole.
    #[test]
    fn outlines_are_the_pixels_beside_others() {
        let grey = RgbImage::from_pixel(7, 6, Rgb([100; 3]));
        let one = object(3, [0.0; 4], &["xxxx.", "xx.xx", "xxxxx", ".xxx."]);
        let painted = with_masks(&grey, &[one]);
        assert_eq!(
            seen(&painted, 3),
            [
                ".......", //
                ".oooo..", //
                ".oo.oo.", //
                ".ohoho.", //
                "..ooo..", //
                ".......",
            ]
        );
    }

    /// The mask of the better one hides that of the other, without mixing; what is outside of the picture is not drawn.
    #[test]
    fn the_first_object_is_on_top() {
        let grey = RgbImage::from_pixel(3, 3, Rgb([100; 3]));
        let rows = ["xxx", "xxx", "xxx"];
        let both = [object(0, [0.0; 4], &rows), object(1, [0.0; 4], &rows)];
        let painted = with_masks(&grey, &both);
        assert_eq!(seen(&painted, 0), ["...", ".oo", ".oh"]);
    }

    /// A box of 1.5 to 3.5 and 1 to 4 touches columns 1 to 3 and rows 1 to 3; twice as large, 3 to 6 and 2 to 7.
    #[test]
    fn boxes_are_where_they_belong_at_any_size() {
        let grey = |side| RgbImage::from_pixel(side, side, Rgb([100; 3]));
        let one = [object(2, [1.5, 1.0, 2.0, 3.0], &[])];
        let drawn = with_boxes(grey(5), &one, (5, 5)).unwrap();
        assert_eq!(
            seen(&drawn, 2),
            [".....", ".ooo.", ".o.o.", ".ooo.", "....."]
        );
        let twice = with_boxes(grey(10), &one, (5, 5)).unwrap();
        let rows = seen(&twice, 2);
        assert_eq!(rows[1], "..........");
        assert_eq!(rows[2], "...oooo...");
        assert_eq!(rows[3], "...o..o...");
        assert_eq!((&rows[7], &rows[8]), (&rows[2], &rows[1]));
        // Cut off at the border.
        let outside = [object(2, [-3.0, -3.0, 20.0, 20.0], &[])];
        let drawn = with_boxes(grey(3), &outside, (3, 3)).unwrap();
        assert_eq!(seen(&drawn, 2), ["ooo", "o.o", "ooo"]);
    }

    /// Words stand on a patch above the box, or within it at the upper border, and never beyond the right one.
    #[test]
    fn words_have_room() {
        let grey = RgbImage::from_pixel(200, 100, Rgb([100; 3]));
        let pale = object_color(5).map(|paint| paint.midpoint(255));
        for (bbox, top) in [([190.0, 40.0, 10.0, 50.0], 25), ([0.0, 0.0, 50.0, 50.0], 0)] {
            let mut one = object(5, bbox, &[]);
            one.words = "cat 0.87".to_owned();
            let drawn = with_boxes(grey.clone(), &[one], (200, 100)).unwrap();
            let patch = drawn.enumerate_pixels().filter(|(.., p)| p.0 == pale);
            let rows: Vec<u32> = patch.map(|(_, y, _)| y).collect();
            assert_eq!(rows.iter().min(), Some(&top));
            assert_eq!(rows.iter().max(), Some(&(top + 14)));
            let plain = [[100; 3], object_color(5), pale];
            assert!(drawn.pixels().any(|pixel| !plain.contains(&pixel.0)));
        }
        // A picture of 560 pixels has letters of 20, and a patch of 25.
        let mut one = object(5, [0.0, 0.0, 50.0, 50.0], &[]);
        one.words = "cat".to_owned();
        let large = RgbImage::from_pixel(560, 100, Rgb([100; 3]));
        let drawn = with_boxes(large, &[one], (560, 100)).unwrap();
        let patch = drawn.enumerate_pixels().filter(|(.., p)| p.0 == pale);
        assert_eq!(patch.map(|(_, y, _)| y).max(), Some(24));
        // A picture smaller than its words.
        let mut one = object(5, [0.0, 0.0, 3.0, 3.0], &[]);
        one.words = "cat".to_owned();
        let tiny = RgbImage::from_pixel(4, 4, Rgb([100; 3]));
        assert!(with_boxes(tiny, &[one], (4, 4)).is_ok());
    }
}
