//! Pictures as PNG.

use std::io;

use image::ImageEncoder;

/// Encodes 8-bit RGB pixels as PNG.
pub fn encode_png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    image::codecs::png::PngEncoder::new(io::Cursor::new(&mut bytes))
        .write_image(pixels, width, height, image::ExtendedColorType::Rgb8)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}
