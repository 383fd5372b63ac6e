//! The names of classes below a picture.

use image::{Rgb, RgbImage, imageops};

use super::{GAP, name_of, object_color};
use kvt_train::plot::{letters_in, shortened, write};

/// Height of a line, and of its letters; side of a patch of colour.
const LINE: u32 = 24;
const LETTERS: u32 = 16;
const PATCH: u32 = 16;
/// How much lower than its patch a name is written: letters are drawn in the upper part of their height.
const LOWER: u32 = 5;
/// The narrowest column of a name, and the longest name in letters.
const NARROWEST: u32 = 160;
const LONGEST: usize = 28;

/// A picture with a patch of colour and the name of each of `classes` below it. `names` are those of all classes in order; a class
/// without one is a number.
///
/// # Errors
/// The drawing library's message.
pub fn with_legend(
    picture: &RgbImage,
    classes: &[usize],
    names: &[String],
) -> Result<RgbImage, String> {
    let words: Vec<([u8; 3], String)> = classes
        .iter()
        .map(|&class| {
            let name = shortened(&name_of(names, class), LONGEST);
            (object_color(class), name)
        })
        .collect();
    let longest = words.iter().map(|(_, name)| name.chars().count()).max();
    // As wide as the longest name, at 0.6 of its height for a letter.
    let needed = PATCH + 3 * GAP + longest.unwrap_or(0) as u32 * LETTERS * 3 / 5;
    let width = picture.width().max(NARROWEST);
    let column = needed.min(width);
    let columns = (width / column).max(1);
    let rows = (words.len() as u32).div_ceil(columns);
    let height = picture.height() + if rows == 0 { 0 } else { GAP + rows * LINE };
    let mut all = RgbImage::from_pixel(width, height, Rgb([255; 3]));
    imageops::replace(&mut all, picture, 0, 0);
    let letters = letters_in(column - PATCH - 2 * GAP, LETTERS);
    let mut texts = Vec::new();
    for (number, (color, name)) in (0..).zip(words) {
        let left = number % columns * column + GAP;
        let top = picture.height() + GAP + number / columns * LINE;
        let patch = RgbImage::from_pixel(PATCH, PATCH, Rgb(color));
        imageops::replace(&mut all, &patch, i64::from(left), i64::from(top));
        let place = (left + PATCH + GAP, top + LOWER);
        texts.push((place.0, place.1, shortened(&name, letters)));
    }
    write(&mut all, LETTERS, &texts)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_class_has_its_patch_and_name() {
        let picture = RgbImage::from_pixel(300, 40, Rgb([9; 3]));
        let names = ["sky", "a rather long name of a class"].map(str::to_owned);
        let shown = with_legend(&picture, &[0, 1, 5], &names).unwrap();
        // One column, since a name takes more than half of the width.
        assert_eq!(shown.dimensions(), (300, 40 + GAP + 3 * LINE));
        assert_eq!(
            imageops::crop_imm(&shown, 0, 0, 300, 40).to_image(),
            picture
        );
        for class in [0, 1, 5] {
            let colour = object_color(class);
            let patch = shown.pixels().filter(|pixel| pixel.0 == colour).count();
            assert_eq!(patch, (PATCH * PATCH) as usize, "{class}");
        }
        let ink = shown.pixels().filter(|pixel| pixel.0 == [0x33; 3]).count();
        assert!(ink > 30, "{ink} pixels of text");
        // A capital's middle is that of its patch, within a pixel.
        let capital = with_legend(&picture, &[0], &["I".to_owned()]).unwrap();
        let is_ink = |p: &Rgb<u8>| p.0 == [p.0[0]; 3] && (10..200).contains(&p.0[0]);
        let inked = capital.enumerate_pixels().filter(|(.., p)| is_ink(p));
        let rows: Vec<u32> = inked.map(|(_, y, _)| y).collect();
        let ends = rows.iter().min().zip(rows.iter().max()).unwrap();
        let middle = 40 + GAP + PATCH / 2;
        assert!((ends.0 + ends.1 + 1).abs_diff(2 * middle) <= 2, "{ends:?}");
        // Short names share lines; without classes there is nothing below.
        let short = with_legend(&picture, &[2, 3, 4, 5], &[]).unwrap();
        assert_eq!(short.height(), 40 + GAP + LINE);
        assert_eq!(with_legend(&picture, &[], &[]).unwrap(), picture);
    }

    /// A picture of a few pixels still has room for names.
    #[test]
    fn small_pictures_grow() {
        let picture = RgbImage::from_pixel(8, 8, Rgb([9; 3]));
        let shown = with_legend(&picture, &[0], &[]).unwrap();
        assert_eq!(shown.dimensions(), (NARROWEST, 8 + GAP + LINE));
    }
}
