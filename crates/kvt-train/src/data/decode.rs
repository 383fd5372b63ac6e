//! One image file to 8-bit RGB pixels, as Pillow's `Image.open(path).convert("RGB")` with EXIF rotation gives them.
//!
//! - The format is read from the content, not from the extension: JPEG, PNG, WebP, BMP.
//! - Grey is repeated, alpha is dropped (not blended), a palette is looked up, 16 bits become 8 by `>> 8`.
//! - CMYK and YCCK JPEGs are read as Adobe writes them, inverted, whether or not the Adobe marker is there.
//! - The EXIF orientation is applied.
//! - A truncated file is an error. The JPEG decoder itself paints the missing part grey, so the end marker is looked for here.
//!   A JPEG with damaged bits in the middle decodes, as in Pillow, to a picture with a damaged part.
//! - No side above [`MAX_SIDE`] pixels and no more than [`MAX_BYTES`] decoded bytes, so that a small file can not take the memory.

use std::io::Cursor;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};

use crate::data::ordered::panic_message;

/// The longest side that is decoded, in pixels.
const MAX_SIDE: u32 = 65_500;
/// The most memory that decoding one image may take, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A file that is not a complete image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not decode `{}`: {reason}", path.display())]
pub struct DecodeError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// How the colours of a file are stored, before they become RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorKind {
    /// One channel, with or without alpha.
    Grey,
    /// Three channels or a palette, with or without alpha.
    Rgb,
    /// Four inks, CMYK or YCCK.
    Cmyk,
}

/// A decoded image and how it was stored.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// The pixels, upright.
    pub image: RgbImage,
    /// The stored colours.
    pub color: ColorKind,
}

/// Reads and decodes an image file.
///
/// # Errors
///
/// [`DecodeError`] with the path and the reason, for a file that can not be read, is empty, truncated, damaged, too large
/// or in another format.
pub fn decode(path: &Path) -> Result<RgbImage, DecodeError> {
    let error = |reason: String| DecodeError {
        path: path.to_owned(),
        reason,
    };
    // `fs_err` would name the path a second time.
    let bytes = std::fs::read(path).map_err(|source| error(source.to_string()))?;
    decode_bytes(&bytes)
        .map(|decoded| decoded.image)
        .map_err(error)
}

/// Decodes the bytes of an image file.
///
/// # Errors
///
/// The reason, in words.
pub fn decode_bytes(bytes: &[u8]) -> Result<Decoded, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    // The decoders are others' code that reads hostile input: a panic in one is a bad file, not the end of a run.
    catch_unwind(|| decode_checked(bytes))
        .unwrap_or_else(|panic| Err(format!("the decoder panicked: {}", panic_message(&*panic))))
}

fn decode_checked(bytes: &[u8]) -> Result<Decoded, String> {
    let format =
        image::guess_format(bytes).map_err(|_| "not a JPEG, PNG, WebP or BMP file".to_owned())?;
    let jpeg_components = match format {
        ImageFormat::Jpeg => Some(jpeg_components(bytes).ok_or("the file is truncated")?),
        ImageFormat::Png | ImageFormat::WebP | ImageFormat::Bmp => None,
        other => return Err(format!("{other:?} files are not read: convert it to PNG")),
    };
    let image = pixels(bytes, format).map_err(|error| error.to_string())?;
    if image.width() == 0 || image.height() == 0 {
        return Err("the image has no pixels".to_owned());
    }
    let color = match jpeg_components {
        Some(4) => ColorKind::Cmyk,
        _ if image.color().has_color() => ColorKind::Rgb,
        _ => ColorKind::Grey,
    };
    Ok(Decoded {
        image: to_rgb(image),
        color,
    })
}

fn pixels(bytes: &[u8], format: ImageFormat) -> image::ImageResult<DynamicImage> {
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_BYTES);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits.clone());
    let mut decoder = reader.into_decoder()?;
    limits.reserve(decoder.total_bytes())?;
    let orientation = decoder.orientation()?;
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

fn to_rgb(image: DynamicImage) -> RgbImage {
    let high = |value: u16| (value >> 8) as u8;
    match image {
        DynamicImage::ImageLuma16(grey) => map(&grey, |p: &image::Luma<u16>| [high(p.0[0]); 3]),
        DynamicImage::ImageLumaA16(grey) => map(&grey, |p: &image::LumaA<u16>| [high(p.0[0]); 3]),
        DynamicImage::ImageRgb16(rgb) => map(&rgb, |p: &image::Rgb<u16>| p.0.map(high)),
        DynamicImage::ImageRgba16(rgba) => map(&rgba, |p: &image::Rgba<u16>| {
            [high(p.0[0]), high(p.0[1]), high(p.0[2])]
        }),
        eight_bits => eight_bits.into_rgb8(),
    }
}

fn map<P: image::Pixel>(
    image: &image::ImageBuffer<P, Vec<P::Subpixel>>,
    rgb: impl Fn(&P) -> [u8; 3],
) -> RgbImage {
    RgbImage::from_fn(image.width(), image.height(), |x, y| {
        image::Rgb(rgb(image.get_pixel(x, y)))
    })
}

/// The number of colour components of a JPEG, or `None` if the file ends before its end marker.
///
/// In the entropy-coded data a byte 0xff is always followed by 0 or a restart marker, so the end marker can not
/// be met by chance; the thumbnail in an EXIF segment is stepped over with its segment.
fn jpeg_components(bytes: &[u8]) -> Option<u8> {
    let mut components = 0;
    let mut at = 2;
    loop {
        // To the next marker; bytes between segments, and the coded data after a scan's header, are stepped over.
        while *bytes.get(at)? != 0xff {
            at += 1;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xff => at += 1,
            0x00 | 0x01 | 0xd0..=0xd8 => at += 2,
            0xd9 => return Some(components),
            _ => {
                let length = usize::from(u16::from_be_bytes([
                    *bytes.get(at + 2)?,
                    *bytes.get(at + 3)?,
                ]));
                // Start of frame; 0xc4, 0xc8 and 0xcc are other tables.
                if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
                    components = *bytes.get(at + 9)?;
                }
                at += 2 + length;
            }
        }
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
