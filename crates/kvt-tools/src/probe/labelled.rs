//! Pictures with words above them: the layout of maps of attention and of relevance.

use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};

use kvt_train::plot::{letters_in, shortened, wrapped, write};

/// Pixels between pictures, of the letters, and of a line of them.
const GAP: u32 = 10;
const LETTERS: u32 = 14;
const LINE: u32 = 19;
/// A smaller picture is enlarged by a whole factor to at least this side, which has room for 26 letters, and a part of it to at
/// least so many pixels.
const LEAST_SIDE: u32 = 224;
const LEAST_PART: u32 = 8;

/// A picture, and the lines above it.
#[derive(Clone, Debug)]
pub struct Labelled {
    /// The picture.
    pub picture: RgbImage,
    /// The lines, cut to the width of the picture.
    pub words: Vec<String>,
}

/// A picture enlarged by a whole factor until it can be read, with so many parts (patches) in a row.
#[must_use]
pub fn readable(picture: &RgbImage, parts: usize) -> RgbImage {
    let parts = u32::try_from(parts).unwrap_or(1);
    let least = LEAST_SIDE.max(LEAST_PART * parts);
    let factor = least.div_ceil(picture.width().max(1)).max(1);
    let (width, height) = (factor * picture.width(), factor * picture.height());
    imageops::resize(picture, width, height, FilterType::Nearest)
}

/// Rows of pictures on white, each with its words above it, and below all of them a note in lines as wide as the rows.
///
/// # Errors
/// The drawing library's message.
pub fn labelled(rows: &[Vec<Labelled>], note: &str) -> Result<RgbImage, String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let largest = |tiles: &mut dyn Iterator<Item = u32>| tiles.max().unwrap_or(0);
    let width = |column: usize| {
        let own = rows.iter().filter_map(|row| row.get(column));
        largest(&mut own.map(|tile| tile.picture.width()))
    };
    let widths: Vec<u32> = (0..columns).map(width).collect();
    let all = (widths.iter().map(|width| width + GAP).sum::<u32>() + GAP).max(LEAST_SIDE + GAP);
    let note = wrapped(note, letters_in(all - 2 * GAP, LETTERS));
    let (mut texts, mut pictures) = (Vec::new(), Vec::new());
    let mut top = GAP;
    for row in rows {
        let lines = row.iter().map(|tile| tile.words.len()).max().unwrap_or(0) as u32;
        let below = top + lines * LINE;
        let mut left = GAP;
        for (tile, width) in row.iter().zip(&widths) {
            let letters = letters_in(*width, LETTERS);
            let words = (0..).zip(&tile.words);
            texts.extend(
                words.map(|(line, words)| (left, top + line * LINE, shortened(words, letters))),
            );
            pictures.push((left, below, &tile.picture));
            left += width + GAP;
        }
        top = below + largest(&mut row.iter().map(|tile| tile.picture.height())) + GAP;
    }
    for line in note {
        texts.push((GAP, top, line));
        top += LINE;
    }
    let mut sheet = RgbImage::from_pixel(all, top + GAP, Rgb([255; 3]));
    for (left, top, picture) in pictures {
        imageops::replace(&mut sheet, picture, left.into(), top.into());
    }
    write(&mut sheet, LETTERS, &texts)?;
    Ok(sheet)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn small_pictures_are_enlarged() {
        let side = |width, parts| readable(&RgbImage::new(width, width / 2), parts).dimensions();
        assert_eq!(side(32, 8), (224, 112));
        assert_eq!(side(224, 14), (224, 112));
        assert_eq!(side(100, 8), (300, 150));
        // 40 parts of 8 pixels.
        assert_eq!(side(32, 40), (320, 160));
    }

    /// Two rows by hand: a row is as high as its lines and its highest picture, a column as wide as its widest picture.
    #[test]
    fn pictures_are_below_their_words() {
        let color = |number: u8| Rgb([number, 200, 0]);
        let tile = |number, side, words: &[&str]| Labelled {
            picture: RgbImage::from_pixel(side, side, color(number)),
            words: words.iter().map(|&words| words.to_owned()).collect(),
        };
        let rows = [
            vec![tile(1, 224, &["image", "cat"]), tile(2, 224, &["head 1"])],
            vec![tile(3, 300, &[])],
        ];
        let sheet = labelled(&rows, "a note").unwrap();
        let height = 10 + (2 * 19 + 224 + 10) + (300 + 10) + 19 + 10;
        assert_eq!(sheet.dimensions(), (10 + 310 + 234, height));
        for (number, place, side) in [(1, (10, 48), 224), (2, (320, 48), 224), (3, (10, 282), 300)]
        {
            let own = sheet
                .enumerate_pixels()
                .filter(|(.., p)| **p == color(number));
            let own: Vec<_> = own.map(|(x, y, _)| (x, y)).collect();
            assert_eq!((own.len(), own[0]), (side * side, place), "{number}");
        }
        let ink = |from: u32, to: u32, below: u32| {
            let inside = |(x, y, _): &(u32, u32, &Rgb<u8>)| {
                (from..to).contains(x) && (below..below + 19).contains(y)
            };
            let mut pixels = sheet.enumerate_pixels().filter(inside);
            pixels.any(|(.., pixel)| pixel.0[0] < 100)
        };
        // Both lines of the first picture, one of the second, the note.
        assert!(ink(10, 234, 10) && ink(10, 234, 29) && ink(320, 544, 10));
        assert!(!ink(320, 544, 29) && ink(10, 234, 592));
    }
}
