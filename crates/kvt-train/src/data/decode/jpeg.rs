//! Colour JPEGs decoded directly with `zune-jpeg`, with the settings of the `image` crate: the same pixels without
//! parsing the headers two more times and without a copy of the file.

use image::RgbImage;
use image::metadata::Orientation;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::MAX_SIDE;
use crate::data::file::ImageLimits;

/// The pixels as stored, and their orientation. `None` leaves the file to the `image` crate: if it does not have three
/// colour components, is too large, or cannot be decoded, for which `image` has the error messages.
pub(super) fn decode(bytes: &[u8], limits: ImageLimits) -> Option<(RgbImage, Orientation)> {
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_strict_mode(false)
        .set_max_width(MAX_SIDE as usize)
        .set_max_height(MAX_SIDE as usize);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().ok()?;
    if !matches!(
        decoder.input_colorspace()?,
        ColorSpace::YCbCr | ColorSpace::RGB
    ) {
        return None;
    }
    let (width, height) = decoder.dimensions()?;
    let (width, height) = (u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    if u64::from(width) * u64::from(height) > limits.max_pixels {
        return None;
    }
    let mut pixels = vec![0; decoder.output_buffer_size()?];
    decoder.decode_into(&mut pixels).ok()?;
    let orientation = decoder
        .exif()
        .and_then(|chunk| Orientation::from_exif_chunk(chunk));
    Some((
        RgbImage::from_raw(width, height, pixels)?,
        orientation.unwrap_or(Orientation::NoTransforms),
    ))
}

/// The number of colour components of a JPEG, or `None` if the file ends before its end marker.
///
/// In the entropy-coded data, a byte 0xff is always followed by 0 or a restart marker, so the end marker cannot occur
/// by chance; the thumbnail in an EXIF segment is skipped with its segment.
pub(super) fn components(bytes: &[u8]) -> Option<u8> {
    let mut components = 0;
    let mut at = 2;
    loop {
        // Moves to the next marker; bytes between segments, and the coded data after a scan's header, are skipped.
        at += memchr::memchr(0xff, bytes.get(at..)?)?;
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
