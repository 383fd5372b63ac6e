//! Pictures as PNG.

use std::io::{self, Write as _};
use std::path::Path;

use image::{ImageEncoder, RgbImage};
use kvt_data::fs::write_atomic;

/// Encodes 8-bit RGB pixels as PNG.
pub fn encode_png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    image::codecs::png::PngEncoder::new(io::Cursor::new(&mut bytes))
        .write_image(pixels, width, height, image::ExtendedColorType::Rgb8)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Writes a picture as a PNG file, whole or not at all.
///
/// # Errors
/// If it cannot be encoded or written.
pub fn save_png(path: &Path, picture: &RgbImage) -> io::Result<()> {
    let (width, height) = picture.dimensions();
    let png = encode_png(picture, width, height).map_err(io::Error::other)?;
    write_atomic(path, |file| file.write_all(&png))
}
