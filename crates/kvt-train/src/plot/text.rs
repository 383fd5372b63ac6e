//! Text on pictures: written on pixels, and cut to what fits.

use image::RgbImage;
use plotters::prelude::*;

use super::colors::INK;
use super::font::{FONT, register_fonts};

/// Writes texts in letters of `size` pixels on a picture, each from the upper left corner (x, y) of its line.
///
/// # Errors
/// The drawing library's message.
pub fn write(
    picture: &mut RgbImage,
    size: u32,
    texts: &[(u32, u32, String)],
) -> Result<(), String> {
    register_fonts()?;
    on(picture, size, texts).map_err(|error| error.to_string())
}

fn on(
    picture: &mut RgbImage,
    size: u32,
    texts: &[(u32, u32, String)],
) -> Result<(), Box<dyn std::error::Error>> {
    let sides = picture.dimensions();
    let root = BitMapBackend::with_buffer(picture, sides).into_drawing_area();
    let style = (FONT, size).into_font().color(&INK);
    for (x, y, text) in texts {
        let place = (*x as i32, *y as i32);
        root.draw(&Text::new(text.as_str(), place, style.clone()))?;
    }
    root.present()?;
    Ok(())
}

/// How many letters of `size` pixels fit in `width` pixels, in ordinary text.
pub fn letters_in(width: u32, size: u32) -> usize {
    // A letter of the embedded font is about 0.6 times as wide as it is high.
    (width * 5 / (3 * size.max(1))) as usize
}

/// A text of at most so many letters; a longer one ends with an ellipsis.
pub fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() > letters {
        let kept = text.chars().take(letters.saturating_sub(1));
        kept.chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

/// The words of a text in lines of at most so many letters; a longer word is shortened.
pub fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = shortened(word, letters);
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                *line += &word;
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use image::Rgb;

    use super::*;

    #[test]
    fn texts_fit() {
        assert_eq!(shortened("a long name", 7), "a long…");
        assert_eq!(shortened("a name", 6), "a name");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one  extraordinary", 5), ["one", "extr…"]);
        assert!(wrapped(" ", 5).is_empty());
        // 25 letters of 9.6 pixels.
        assert_eq!(letters_in(240, 16), 25);
    }

    /// Letters begin at the place of a text, or up to four pixels above it; the rest of the picture stays.
    #[test]
    fn a_text_is_where_it_belongs() {
        let blue = Rgb([0, 0, 255]);
        let mut picture = RgbImage::from_pixel(60, 60, blue);
        write(&mut picture, 16, &[(4, 30, "HH".to_owned())]).unwrap();
        let changed = picture.enumerate_pixels().filter(|(.., p)| **p != blue);
        let places: Vec<(u32, u32)> = changed.map(|(x, y, _)| (x, y)).collect();
        assert!(places.len() > 30, "{}", places.len());
        assert!(
            places
                .iter()
                .all(|(x, y)| (4..40).contains(x) && (26..46).contains(y)),
            "{places:?}"
        );
    }
}
