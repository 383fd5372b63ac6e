//! The part of a colour JPEG that is looked at, decoded at 1/2, 1/4 or 1/8 of its size where that is enough: `libjpeg-turbo`
//! in Rust.
//!
//! The coded data is one stream, which has to be read up to the last row of the part. What is saved is the transform and
//! the colours of the rest, and of what a smaller image does not have.

use std::panic::catch_unwind;

use image::RgbImage;
use libjpeg_turbo_rs::{DecodeLimits, Decoder, PixelFormat, ScalingFactor};

use super::{MAX_SIDE, jpeg};
use crate::augment::{Look, Part};
use crate::data::file::ImageLimits;

/// The part of an image of (width, height) that `look` names. `None` if it names none, and of all that is left to the
/// decoder of whole images: other formats and colours, images that are to be turned, and damaged ones.
pub(in crate::data) fn decode(
    bytes: &[u8],
    limits: ImageLimits,
    look: impl FnOnce((u32, u32)) -> Option<Look>,
) -> Option<Part> {
    if !bytes.starts_with(&[0xff, 0xd8, 0xff]) || jpeg::components(bytes) != Some(3) {
        return None;
    }
    let limits = DecodeLimits {
        max_width: MAX_SIDE as usize,
        max_height: MAX_SIDE as usize,
        max_pixels: limits.max_pixels,
        max_memory: Some(limits.decoded_bytes().saturating_mul(2)),
        ..DecodeLimits::default()
    };
    // As in `decode_bytes`: a panic is a bad file.
    let size = catch_unwind(|| {
        let decoder = Decoder::new_with_limits(bytes, limits).ok()?;
        let header = decoder.header();
        let upright = matches!(decoder.exif_orientation(), 0 | 1);
        let size = (u32::from(header.width), u32::from(header.height));
        let widest = header.components.iter().map(|c| c.horizontal_sampling);
        upright.then_some((size, widest.max().map_or(1, u32::from)))
    });
    let (size, sampling) = size.ok()??;
    let look = look(size)?;
    catch_unwind(|| part(bytes, limits, look, size, sampling)).ok()?
}

fn part(
    bytes: &[u8],
    limits: DecodeLimits,
    look: Look,
    size: (u32, u32),
    sampling: u32,
) -> Option<Part> {
    let (crop, wanted) = (look.crop, look.size);
    let is_enough = |by: &u32| crop.width / by >= wanted.0 && crop.height / by >= wanted.1;
    let by = [8, 4, 2].into_iter().find(is_enough).unwrap_or(1);
    let (width, height) = (size.0.div_ceil(by), size.1.div_ceil(by));
    // Whole pixels of the smaller image, from whole blocks of it on.
    let block = sampling * 8 / by;
    let left = crop.left / by / block * block;
    let right = (crop.left + crop.width).div_ceil(by).min(width);
    let top = crop.top / by;
    let bottom = (crop.top + crop.height).div_ceil(by).min(height);
    let (columns, rows) = (right.checked_sub(left)?, bottom.checked_sub(top)?);

    let mut decoder = Decoder::new_with_limits(bytes, limits).ok()?;
    decoder.set_output_format(PixelFormat::Rgb);
    decoder.set_scale(ScalingFactor::new(1, by));
    let [x, y, w, h] = [left, top, columns, rows].map(|number| number as usize);
    decoder.set_crop_region(x, y, w, h);
    let decoded = decoder.decode_image().ok()?;
    if (decoded.width, decoded.height) != (w, h) || decoded.pixel_format != PixelFormat::Rgb {
        return None;
    }
    let by = f64::from(by);
    let begin = |at: u32, origin: u32| f64::from(at) / by - f64::from(origin);
    let (offset, above) = (begin(crop.left, left), begin(crop.top, top));
    Some(Part {
        // The last column may stand for less than a whole number of pixels.
        across: (
            offset,
            (f64::from(crop.width) / by).min(f64::from(columns) - offset),
        ),
        down: (
            above,
            (f64::from(crop.height) / by).min(f64::from(rows) - above),
        ),
        image: RgbImage::from_raw(columns, rows, decoded.data)?,
    })
}
