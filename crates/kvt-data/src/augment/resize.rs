//! Resizing of an image, or only of the part that is kept.

use std::cell::RefCell;

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{CropBoxError, FilterType, ResizeAlg, ResizeError, ResizeOptions, Resizer};
use image::{RgbImage, imageops};

use crate::augment::AugmentError;
use crate::augment::crop::Crop;

/// Up to this multiple of the result's pixels, an image is resized as a whole, otherwise only the part that is kept. At
/// `crop_pct = 0.875` this is an image 24 times as long as wide.
const WHOLE: u64 = 32;

/// The part `crop` of the image resized to (width, height).
///
/// A resized image with up to [`WHOLE`] times the pixels of the result is created and cropped, as in torchvision. Beyond
/// that (a side about twenty times as long as the other) only the part of the image that the result shows is resized:
/// covering a square with one column of pixels would take gigabytes. The result differs from that of the whole image by
/// one or two levels, see [`Part`].
pub(super) fn resize_part(
    image: RgbImage,
    (width, height): (u32, u32),
    crop: Crop,
    filter: FilterType,
) -> Result<RgbImage, AugmentError> {
    let pixels = |width: u32, height: u32| u64::from(width) * u64::from(height);
    if pixels(width, height) <= WHOLE * pixels(crop.width, crop.height) {
        return Ok(cut(resize(image, (width, height), filter)?, crop));
    }
    let across = Part::of(image.width(), width, crop.left, crop.width);
    let down = Part::of(image.height(), height, crop.top, crop.height);
    let source = Crop {
        left: across.first,
        top: down.first,
        width: across.pixels,
        height: down.pixels,
    };
    let across = (across.offset, across.length);
    let down = (down.offset, down.length);
    let size = (crop.width, crop.height);
    convolve(&image, source, size, across, down, filter)
}

/// Resizes the part `crop` of an image to (width, height). The kernel does not see the pixels around it.
pub(super) fn resize_crop(
    image: RgbImage,
    crop: Crop,
    size: (u32, u32),
    filter: FilterType,
) -> Result<RgbImage, AugmentError> {
    if (crop.width, crop.height) == size {
        return Ok(cut(image, crop));
    }
    let across = (0.0, f64::from(crop.width));
    let down = (0.0, f64::from(crop.height));
    convolve(&image, crop, size, across, down, filter)
}

/// Resizes to (width, height); an image that already has that size is not changed.
pub(super) fn resize(
    image: RgbImage,
    size: (u32, u32),
    filter: FilterType,
) -> Result<RgbImage, AugmentError> {
    let whole = Crop::whole(image.dimensions());
    resize_crop(image, whole, size, filter)
}

/// Resizes the part of an image given by `across` and `down` (offset and length, in pixels) to (width, height). If the
/// part consists of whole pixels, the kernel does not see the pixels around it.
pub(super) fn resize_box(
    image: &RgbImage,
    size: (u32, u32),
    across: (f64, f64),
    down: (f64, f64),
    filter: FilterType,
) -> Result<RgbImage, AugmentError> {
    let numbers = [across.0, down.0, across.1, down.1];
    if numbers.iter().all(|number| number.fract() == 0.0) {
        let [left, top, width, height] = numbers.map(|number| number as u32);
        let crop = Crop {
            left,
            top,
            width,
            height,
        };
        let (across, down) = ((0.0, across.1), (0.0, down.1));
        return convolve(image, crop, size, across, down, filter);
    }
    let whole = Crop::whole(image.dimensions());
    convolve(image, whole, size, across, down, filter)
}

/// Pixels of the buffer between the two passes that a thread keeps for the next image: 6 MiB. An image can use more.
const KEPT: usize = 2 << 20;

thread_local! {
    /// The rows of a crop at their new width: created once for each worker, as large as its largest crop requires.
    static MIDDLE: RefCell<Vec<U8x3>> = RefCell::default();
}

/// Resizes a part of the crop `crop` of an image to (width, height): `across` and `down` are offset and length of the part
/// in the crop, in pixels. The kernel sees the pixels of the crop around the part, but none beyond the crop.
fn convolve(
    image: &RgbImage,
    crop: Crop,
    (width, height): (u32, u32),
    across: (f64, f64),
    down: (f64, f64),
    filter: FilterType,
) -> Result<RgbImage, AugmentError> {
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter));
    let (columns, rows) = image.dimensions();
    let source =
        TypedImageRef::<U8x3>::from_buffer(columns, rows, image.as_raw()).map_err(outside)?;
    let cut = TypedCroppedImage::from_ref(&source, crop.left, crop.top, crop.width, crop.height)
        .map_err(outside)?;
    let mut result = RgbImage::new(width, height);
    let mut target =
        TypedImage::<U8x3>::from_buffer(width, height, &mut result).map_err(outside)?;
    let mut pixels = MIDDLE.take();
    let count = width as usize * crop.height as usize;
    pixels.resize(pixels.len().max(count), U8x3::default());
    let mut middle =
        TypedImage::from_pixels_slice(width, crop.height, &mut pixels).map_err(outside)?;
    // Rows first, then columns, as in Pillow: the passes round and clip, so their order is visible at hard edges.
    let mut resizer = Resizer::new();
    let part = options.crop(across.0, 0.0, across.1, f64::from(crop.height));
    resizer.resize_typed(&cut, &mut middle, &part)?;
    let part = options.crop(0.0, down.0, f64::from(width), down.1);
    resizer.resize_typed(&middle, &mut target, &part)?;
    if pixels.len() <= KEPT {
        MIDDLE.set(pixels);
    }
    Ok(result)
}

/// Buffers are large enough and crops are in their image; if not, it is an error.
pub(super) fn outside<E>(_: E) -> ResizeError {
    CropBoxError::SizeIsOutOfImageBoundaries.into()
}

/// The pixels of a crop.
pub(super) fn cut(image: RgbImage, crop: Crop) -> RgbImage {
    if image.dimensions() == (crop.width, crop.height) {
        return image;
    }
    imageops::crop_imm(&image, crop.left, crop.top, crop.width, crop.height).to_image()
}

/// The pixels of one side of an image that determine a part of its resized side.
///
/// The kernel weights equal those for the whole side except for their last bits: they are computed from a different
/// origin, and rounded to 16 bits with a common scale of the kernels in the part.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    /// The first pixel that a kernel touches.
    first: u32,
    /// The number of pixels that the kernels touch.
    pixels: u32,
    /// Offset of the part, in pixels after the first one.
    offset: f64,
    /// Length of the part, in pixels of the image.
    length: f64,
}

impl Part {
    /// The part behind the pixels `at .. at + count` after `side` pixels were resized to `resized`.
    fn of(side: u32, resized: u32, at: u32, count: u32) -> Self {
        let scale = f64::from(side) / f64::from(resized);
        let begin = f64::from(at) * scale;
        let end = ((f64::from(at) + f64::from(count)) * scale).min(f64::from(side));
        // A kernel reaches two pixels of the coarser of the two images; one more for rounding.
        let reach = 2.0 * scale.max(1.0) + 1.0;
        let first = (begin - reach).floor().max(0.0);
        let last = (end + reach).ceil().min(f64::from(side));
        let (first, pixels) = (first as u32, (last - first) as u32);
        let offset = begin - f64::from(first);
        Self {
            first,
            pixels,
            offset,
            length: (end - begin).min(f64::from(pixels) - offset),
        }
    }
}

#[cfg(test)]
mod tests;
