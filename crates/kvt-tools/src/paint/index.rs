//! A map of classes as a PNG of class numbers.

use std::io::{self, Write as _};
use std::path::Path;

use png::{BitDepth, ColorType, Encoder};

use super::class_color;
use kvt_data::IGNORED;
use kvt_data::fs::write_atomic;

/// Writes a map of `(height, width)` as an index PNG, whole or not at all. Its numbers are the classes, its palette their colours, so
/// that it can be looked at, and read as a mask again.
///
/// # Errors
/// If the map is not of this size, or the file cannot be written.
pub fn save_index(path: &Path, labels: &[u8], (height, width): (usize, usize)) -> io::Result<()> {
    let bytes = encoded(labels, height, width).map_err(io::Error::other)?;
    write_atomic(path, |file| file.write_all(&bytes))
}

fn encoded(labels: &[u8], height: usize, width: usize) -> Result<Vec<u8>, png::EncodingError> {
    let side = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, side(width), side(height));
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::Eight);
    let palette: Vec<u8> = (0..=IGNORED).flat_map(class_color).collect();
    encoder.set_palette(palette);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(labels)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The `image` crate shows the palette; the numbers are in the file.
    #[test]
    fn a_file_has_numbers_and_colours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mask.png");
        let labels = [0, 1, 200, IGNORED, 7, 7];
        save_index(&path, &labels, (2, 3)).unwrap();
        let seen = image::open(&path).unwrap().to_rgb8();
        assert_eq!(seen.dimensions(), (3, 2));
        let colors: Vec<[u8; 3]> = seen.pixels().map(|pixel| pixel.0).collect();
        assert_eq!(colors, labels.map(class_color));
        let file = std::io::BufReader::new(fs_err::File::open(&path).unwrap());
        let mut decoder = png::Decoder::new(file);
        decoder.set_transformations(png::Transformations::IDENTITY);
        let mut reader = decoder.read_info().unwrap();
        let mut numbers = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut numbers).unwrap();
        assert_eq!(numbers, labels);
        assert!(save_index(&path, &labels, (2, 2)).is_err());
        assert_eq!(image::open(&path).unwrap().to_rgb8(), seen);
    }
}
