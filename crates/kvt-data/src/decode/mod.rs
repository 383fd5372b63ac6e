//! Decodes an image file to 8-bit RGB pixels, as Pillow's `Image.open(path).convert("RGB")` with EXIF rotation.
//!
//! - The format is detected from the content, not from the extension: JPEG, PNG, WebP, BMP, TIFF (its first page), GIF (its first
//!   frame).
//! - Grey is repeated, alpha is dropped (not blended; what a TIFF has multiplied by it is divided by it) unless
//!   [`ImageLimits::alpha`] asks for it, palettes are resolved, and 16
//!   bits become 8 by `>> 8`.
//! - A TIFF has 8 or 16 bits of grey or RGB, the latter perhaps with alpha: others, such as bilevel, palettes, CMYK, floats and grey
//!   with alpha, are refused, and so are BigTIFFs. Pillow clips 16 bits of grey; they are shifted here as others are.
//! - CMYK and YCCK JPEGs are read as Adobe writes them, inverted, with or without the Adobe marker.
//! - JPEGs have the colours that libjpeg sees in them, and so does one of at most 4 pixels across, if it is sequential. A
//!   progressive one with colours of half the width is refused: it would be smoothed otherwise.
//! - The orientation is applied, from EXIF (in a TIFF, its own tag) or else XMP.
//! - A truncated file is an error. The JPEG decoder fills the missing part with grey, so the end marker is checked here. A
//!   JPEG with damaged bits in the middle decodes, as in Pillow, to an image with a damaged part. Bytes after the end are
//!   passed over.
//! - No side may exceed [`MAX_SIDE`] pixels, and the image must not exceed [`ImageLimits::max_pixels`], according to the
//!   header: decoding starts only after this check, so that a small file cannot exhaust the memory.

mod jpeg;
mod mask;
mod orientation;
pub(super) mod region;
mod tiff;
mod webp;

use std::io::Cursor;
use std::panic::{UnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use image::metadata::Orientation;
use image::{
    DynamicImage, ExtendedColorType, GrayImage, ImageDecoder, ImageError, ImageFormat, ImageReader,
    Limits, RgbImage,
};

pub use self::mask::decode_mask;
use crate::file::{self, ImageLimits};
use crate::ordered::panic_message;
use crate::raster::Raster;

/// The longest side that is decoded, in pixels.
const MAX_SIDE: u32 = 65_500;
/// The message for other files.
pub(super) const NOT_AN_IMAGE: &str = "not a JPEG, PNG, WebP, BMP, TIFF or GIF file";
/// The message for those JPEGs of at most 4 pixels across whose colours would be others than libjpeg's.
const NARROW: &str = "a JPEG of at most 4 pixels across with colours of half the width, which is read only if it is \
                      sequential and has three of them: convert it to PNG";
/// The message for TIFFs with offsets of 64 bits.
const BIG_TIFF: &str =
    "a BigTIFF, which is not read: write it as a TIFF, which can have 4 GB, or convert it to PNG";
/// The beginning of the text that Git LFS leaves instead of a file.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// A file that is not a complete image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not decode `{}`: {reason}", path.display())]
pub struct DecodeError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// The colour format of a file before conversion to RGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorKind {
    /// One channel, with or without alpha.
    Grey,
    /// Three channels or a palette, with or without alpha.
    Rgb,
    /// Four inks, CMYK or YCCK.
    Cmyk,
}

/// A decoded image and its stored colour format.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// The pixels, with the orientation applied, unless it is beside them.
    pub image: RgbImage,
    /// The alpha, turned as the pixels are, if the file has one and [`ImageLimits::alpha`] asks for it.
    pub alpha: Option<GrayImage>,
    /// The stored colours.
    pub color: ColorKind,
}

/// Reads and decodes an image file.
///
/// # Errors
///
/// [`DecodeError`] with the path and the reason, for a file that cannot be read, is empty, truncated, damaged, too large
/// or in another format.
pub fn decode(path: &Path, limits: ImageLimits) -> Result<RgbImage, DecodeError> {
    Ok(decode_raster(path, limits)?.rgb)
}

/// As [`decode`], with the alpha if [`ImageLimits::alpha`] asks for it: an image for a model of any channels.
///
/// # Errors
///
/// As [`decode`].
pub(crate) fn decode_raster(path: &Path, limits: ImageLimits) -> Result<Raster, DecodeError> {
    let decoded = file::read(path, limits).and_then(|bytes| decode_bytes(&bytes, limits));
    decoded.map(Raster::from).map_err(|reason| {
        let path = path.to_owned();
        DecodeError { path, reason }
    })
}

/// Decodes the bytes of an image file.
///
/// # Errors
///
/// The reason, as text.
pub fn decode_bytes(bytes: &[u8], limits: ImageLimits) -> Result<Decoded, String> {
    let (mut found, orientation) = decode_stored(bytes, limits)?;
    found.image = upright(found.image, orientation);
    let turn = |alpha: GrayImage| turned(alpha, orientation).into_luma8();
    found.alpha = found.alpha.map(turn);
    Ok(found)
}

impl From<Decoded> for Raster {
    fn from(Decoded { image, alpha, .. }: Decoded) -> Self {
        Self { rgb: image, alpha }
    }
}

/// An image as its annotation describes it, in (width, height): as stored, or else upright. An orientation can be added to a
/// photograph after its annotation, or before.
pub(super) fn of_size(
    (stored, orientation): (Decoded, Orientation),
    size: (u32, u32),
) -> Result<RgbImage, String> {
    let (width, height) = stored.image.dimensions();
    if (width, height) == size {
        return Ok(stored.image);
    }
    let image = upright(stored.image, orientation);
    if image.dimensions() == size {
        Ok(image)
    } else {
        Err(format!(
            "the image has {width} x {height} pixels, its annotation {} x {}",
            size.0, size.1
        ))
    }
}

/// Decodes the bytes of an image file: the image as stored, and the orientation that turns it.
pub(super) fn decode_stored(
    bytes: &[u8],
    limits: ImageLimits,
) -> Result<(Decoded, Orientation), String> {
    caught(bytes, "image", || decode_checked(bytes, limits))
}

/// Width and height of an image file in pixels, from its header.
///
/// # Errors
///
/// The reason, as text.
pub(super) fn dimensions(bytes: &[u8]) -> Result<(u32, u32), String> {
    caught(bytes, "image", || {
        let format = format_of(bytes)?;
        let reader = ImageReader::with_format(Cursor::new(bytes), format);
        reader.into_dimensions().map_err(|error| error.to_string())
    })
}

/// What a decoder reads of the bytes of an image or a mask. They are third-party code that reads hostile input: a panic means a bad file
/// and must not end the run.
fn caught<T>(
    bytes: &[u8],
    what: &str,
    read: impl FnOnce() -> Result<T, String> + UnwindSafe,
) -> Result<T, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if bytes.starts_with(LFS_POINTER) {
        return Err(format!(
            "a Git LFS pointer, not the {what}: run `git lfs pull`"
        ));
    }
    catch_unwind(read)
        .unwrap_or_else(|panic| Err(format!("the decoder panicked: {}", panic_message(&*panic))))
}

/// The format of a file, by its beginning.
pub(super) fn format_of(bytes: &[u8]) -> Result<ImageFormat, String> {
    if tiff::is_big(bytes) {
        return Err(BIG_TIFF.to_owned());
    }
    image::guess_format(bytes).map_err(|_| NOT_AN_IMAGE.to_owned())
}

fn decode_checked(bytes: &[u8], limits: ImageLimits) -> Result<(Decoded, Orientation), String> {
    let format = format_of(bytes)?;
    let truncated = "the file is truncated";
    let mut jpeg = None;
    let (bytes, orientation) = match format {
        ImageFormat::Jpeg => {
            let segments = jpeg.insert(jpeg::Segments::read(bytes).ok_or(truncated)?);
            (bytes, orientation::of_jpeg(segments))
        }
        ImageFormat::WebP => {
            let container = webp::container(bytes).ok_or(truncated)?;
            (container, orientation::of_webp(container))
        }
        ImageFormat::Png => (bytes, orientation::of_png(bytes)),
        ImageFormat::Tiff => (bytes, orientation::of_tiff(bytes)),
        ImageFormat::Bmp | ImageFormat::Gif => (bytes, Orientation::NoTransforms),
        other => return Err(format!("{other:?} files are not read: convert it to PNG")),
    };
    let is_narrow = jpeg.as_ref().is_some_and(|jpeg| jpeg.is_narrow);
    let direct = jpeg
        .as_ref()
        .filter(|jpeg| jpeg.components == 3)
        .and_then(|segments| {
            if is_narrow {
                region::whole(bytes, segments, limits)
            } else {
                jpeg::decode(bytes, segments, limits)
            }
        });
    let (image, alpha, color) = match direct {
        Some(image) => (image, None, ColorKind::Rgb),
        None => {
            let image = pixels(bytes, format, limits)?;
            if is_narrow {
                return Err(NARROW.to_owned());
            }
            let color = match jpeg.map(|jpeg| jpeg.components) {
                Some(4) => ColorKind::Cmyk,
                _ if image.color().has_color() => ColorKind::Rgb,
                _ => ColorKind::Grey,
            };
            let is_multiplied = format == ImageFormat::Tiff && tiff::is_multiplied(bytes);
            let alpha = limits.alpha.then(|| alpha_of(&image)).flatten();
            // Converts to three bytes per pixel before rotating, since rotation needs a second image.
            (to_rgb(image, is_multiplied), alpha, color)
        }
    };
    let found = Decoded {
        image,
        alpha,
        color,
    };
    Ok((found, orientation))
}

fn upright(image: RgbImage, orientation: Orientation) -> RgbImage {
    turned(image, orientation).into_rgb8()
}

fn turned(image: impl Into<DynamicImage>, orientation: Orientation) -> DynamicImage {
    let mut image = image.into();
    image.apply_orientation(orientation);
    image
}

/// The pixels as stored.
fn pixels(bytes: &[u8], format: ImageFormat, limits: ImageLimits) -> Result<DynamicImage, String> {
    let words = |error: ImageError| match error {
        ImageError::Limits(_) => format!(
            "a side of more than {MAX_SIDE} pixels, or more memory than an image of `data.max_pixels` = {} pixels takes",
            limits.max_pixels
        ),
        ImageError::Unsupported(_) if format == ImageFormat::Tiff => tiff::refused(bytes),
        other => other.to_string(),
    };
    let mut decoder_limits = Limits::no_limits();
    decoder_limits.max_image_width = Some(MAX_SIDE);
    decoder_limits.max_image_height = Some(MAX_SIDE);
    decoder_limits.max_alloc = Some(limits.decoded_bytes());
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(decoder_limits.clone());
    // Reads the header; the pixels are read by `from_decoder`.
    let decoder = reader.into_decoder().map_err(words)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err("the image has no pixels".to_owned());
    }
    let color = decoder.color_type();
    // As 32 bits are of floats. What is converted already, as CMYK is, has another type in the file.
    let is_plain = color.bytes_per_pixel() <= 2 * color.channel_count()
        && decoder.original_color_type() == ExtendedColorType::from(color);
    if format == ImageFormat::Tiff && !is_plain {
        return Err(tiff::refused(bytes));
    }
    limits.check_pixels(width, height)?;
    decoder_limits
        .reserve(decoder.total_bytes())
        .map_err(words)?;
    DynamicImage::from_decoder(decoder).map_err(words)
}

/// Three bytes for each pixel. With `is_multiplied`, its colours are divided by its alpha.
fn to_rgb(image: DynamicImage, is_multiplied: bool) -> RgbImage {
    let high = |value: u16| (value >> 8) as u8;
    match image {
        DynamicImage::ImageRgba8(rgba) if is_multiplied => {
            map(&rgba, |p: &image::Rgba<u8>| divided(p.0))
        }
        DynamicImage::ImageRgba16(rgba) if is_multiplied => {
            map(&rgba, |p: &image::Rgba<u16>| divided(p.0.map(high)))
        }
        DynamicImage::ImageLuma16(grey) => map(&grey, |p: &image::Luma<u16>| [high(p.0[0]); 3]),
        DynamicImage::ImageLumaA16(grey) => map(&grey, |p: &image::LumaA<u16>| [high(p.0[0]); 3]),
        DynamicImage::ImageRgb16(rgb) => map(&rgb, |p: &image::Rgb<u16>| p.0.map(high)),
        DynamicImage::ImageRgba16(rgba) => map(&rgba, |p: &image::Rgba<u16>| {
            [high(p.0[0]), high(p.0[1]), high(p.0[2])]
        }),
        eight_bits => eight_bits.into_rgb8(),
    }
}

/// As Pillow divides: down, and black where alpha is 0.
fn divided([red, green, blue, alpha]: [u8; 4]) -> [u8; 3] {
    [red, green, blue].map(|color| {
        let value = (255 * u16::from(color)).checked_div(alpha.into());
        value.map_or(0, |value| value.min(255) as u8)
    })
}

fn alpha_of(image: &DynamicImage) -> Option<GrayImage> {
    let levels: Vec<u8> = match image {
        DynamicImage::ImageLumaA8(grey) => grey.pixels().map(|pixel| pixel.0[1]).collect(),
        DynamicImage::ImageRgba8(rgba) => rgba.pixels().map(|pixel| pixel.0[3]).collect(),
        DynamicImage::ImageLumaA16(grey) => {
            grey.pixels().map(|pixel| (pixel.0[1] >> 8) as u8).collect()
        }
        DynamicImage::ImageRgba16(rgba) => {
            rgba.pixels().map(|pixel| (pixel.0[3] >> 8) as u8).collect()
        }
        _ => return None,
    };
    GrayImage::from_raw(image.width(), image.height(), levels)
}

fn map<P: image::Pixel>(
    image: &image::ImageBuffer<P, Vec<P::Subpixel>>,
    rgb: impl Fn(&P) -> [u8; 3],
) -> RgbImage {
    RgbImage::from_fn(image.width(), image.height(), |x, y| {
        image::Rgb(rgb(image.get_pixel(x, y)))
    })
}

#[cfg(test)]
mod tests;
