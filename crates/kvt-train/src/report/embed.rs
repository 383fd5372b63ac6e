//! A raster picture inside an SVG, for places that expect an SVG.

use std::fmt::Write as _;

/// An SVG that shows a PNG of this size and nothing else.
pub(crate) fn png_in_svg(png: &[u8], (width, height): (u32, u32)) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <image width=\"{width}\" height=\"{height}\" href=\"data:image/png;base64,"
    );
    base64(png, &mut text);
    let _ = write!(text, "\"/>\n</svg>\n");
    text
}

/// Base64 as in RFC 4648, section 4.
fn base64(bytes: &[u8], text: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for part in bytes.chunks(3) {
        let byte = |place: usize| u32::from(part.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) as usize % DIGITS.len();
            let is_there = digit <= part.len();
            text.push(match is_there {
                true => char::from(DIGITS[value]),
                false => '=',
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, section 10.
    #[test]
    fn base64_is_the_standards() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut text = String::new();
            base64(bytes.as_bytes(), &mut text);
            assert_eq!(text, expected);
        }
        let svg = png_in_svg(b"foo", (2, 3));
        assert!(svg.contains("base64,Zm9v\"/>") && svg.contains("viewBox=\"0 0 2 3\""));
    }
}
