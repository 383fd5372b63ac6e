//! The segments of a JPEG, and colour JPEGs decoded directly with `zune-jpeg`, with the settings of the `image` crate: the same
//! pixels without parsing the headers two more times and without a copy of the file.

use image::RgbImage;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::{MAX_SIDE, region};
use crate::file::ImageLimits;

/// What the segments of a JPEG say about its pixels.
#[derive(Default)]
pub(super) struct Segments<'a> {
    /// The number of colour components.
    pub(super) components: u8,
    /// The data of the EXIF segments, joined.
    pub(super) exif: Vec<u8>,
    /// The last XMP segment.
    pub(super) xmp: Option<&'a [u8]>,
    is_jfif: bool,
    /// The colour transform of the Adobe segment.
    adobe: Option<u8>,
    /// The names of the first three components.
    names: [u8; 3],
    /// Whether colours have half the width, and at most two pixels: libjpeg repeats them, and does not smooth them.
    pub(super) is_narrow: bool,
}

impl<'a> Segments<'a> {
    /// `None` if the file ends before its end marker.
    ///
    /// In the entropy-coded data, a byte 0xff is always followed by 0 or a restart marker, so the end marker cannot occur
    /// by chance; the thumbnail in an EXIF segment is skipped with its segment.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut found = Self::default();
        let mut has_pixels = false;
        let mut at = 2;
        loop {
            // Moves to the next marker; bytes between segments, and the coded data after a scan's header, are skipped.
            at += memchr::memchr(0xff, bytes.get(at..)?)?;
            let marker = *bytes.get(at + 1)?;
            match marker {
                0xff => at += 1,
                0x00 | 0x01 | 0xd0..=0xd8 => at += 2,
                0xd9 => return Some(found),
                _ => {
                    let length = u16::from_be_bytes(*bytes.get(at + 2..)?.first_chunk()?);
                    let end = at + 2 + usize::from(length);
                    // Metadata among the pixels belongs to none, as in Pillow.
                    if !has_pixels {
                        found.add(marker, bytes.get(at + 4..end).unwrap_or_default());
                    }
                    has_pixels |= marker == 0xda;
                    at = end;
                }
            }
        }
    }

    fn add(&mut self, marker: u8, segment: &'a [u8]) {
        const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
        match marker {
            // Start of frame; 0xc4, 0xc8 and 0xcc are other tables.
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xcf => {
                if let [_, _, _, w0, w1, components, parts @ ..] = segment {
                    self.components = *components;
                    let parts = parts.as_chunks::<3>().0;
                    for (name, part) in self.names.iter_mut().zip(parts) {
                        *name = part[0];
                    }
                    let across = parts.iter().map(|part| part[1] >> 4);
                    let is_halved = across.clone().min() == Some(1) && across.max() == Some(2);
                    self.is_narrow = is_halved && u16::from_be_bytes([*w0, *w1]) <= NARROW;
                }
            }
            0xe0 if segment.len() >= 14 => self.is_jfif |= segment.starts_with(b"JFIF\0"),
            0xe1 => {
                if let Some(exif) = segment.strip_prefix(b"Exif\0\0") {
                    self.exif.extend(exif);
                } else if let Some(xmp) = segment.strip_prefix(XMP) {
                    self.xmp = Some(xmp);
                }
            }
            0xee if segment.starts_with(b"Adobe") => {
                self.adobe = segment.get(11).copied().or(self.adobe);
            }
            _ => {}
        }
    }

    /// Whether three components are luminance and chrominance, by libjpeg's rule, which Pillow follows; else they are red,
    /// green and blue.
    pub(super) fn is_ycbcr(&self) -> bool {
        self.is_jfif
            || self
                .adobe
                .map_or(self.names != *b"RGB", |transform| transform != 0)
    }
}

/// The widest image whose colours of half the width are repeated, in pixels.
pub(super) const NARROW: u16 = 4;

/// The pixels of a JPEG with three components, as stored. `None` leaves the file to the `image` crate: if it is too large, or
/// cannot be decoded, for which `image` has the error messages.
pub(super) fn decode(
    bytes: &[u8],
    segments: &Segments<'_>,
    limits: ImageLimits,
) -> Option<RgbImage> {
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_strict_mode(false)
        .set_max_width(MAX_SIDE as usize)
        .set_max_height(MAX_SIDE as usize);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().ok()?;
    let (width, height) = decoder.dimensions()?;
    let (width, height) = (u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    limits.check_pixels(width, height).ok()?;
    // CMYK is what it takes three components of Adobe for, until it counts them.
    let is_plain = matches!(
        decoder.input_colorspace()?,
        ColorSpace::RGB | ColorSpace::CMYK
    );
    let mut pixels = vec![0; decoder.output_buffer_size()?];
    decoder.decode_into(&mut pixels).ok()?;
    let mut image = RgbImage::from_raw(width, height, pixels)?;
    if is_plain && segments.is_ycbcr() {
        for pixel in image.pixels_mut() {
            let [y, cb, cr] = pixel.0;
            pixel.0 = region::rgb(y, cb, cr);
        }
    }
    Some(image)
}
