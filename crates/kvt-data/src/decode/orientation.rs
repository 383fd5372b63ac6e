//! The orientation in the metadata of a file, where Pillow's `ImageOps.exif_transpose` looks for it: in EXIF, before or after
//! the pixels, or else in XMP. A value that is no whole number from 1 to 8 leaves the image as it is.

use std::borrow::Cow;

use image::metadata::Orientation;

use super::{jpeg, tiff, webp};

/// The tag of the orientation.
const TAG: u64 = 0x112;
/// What EXIF may begin with, in every format.
const PREFIX: &[u8] = b"Exif\0\0";
/// The most bytes that a text of a PNG may unpack to, as in Pillow.
const MOST_TEXT: usize = 1 << 20;

pub(super) fn of_jpeg(segments: &jpeg::Segments<'_>) -> Orientation {
    find(Some(&segments.exif), segments.xmp)
}

/// A TIFF has the directory that EXIF has in other files, and its XMP there.
pub(super) fn of_tiff(bytes: &[u8]) -> Orientation {
    find(
        Some(bytes),
        tiff::entry(bytes, tiff::XMP).map(|xmp| xmp.bytes),
    )
}

pub(super) fn of_webp(container: &[u8]) -> Orientation {
    let flags = match webp::chunks(container).next() {
        Some((kind, head)) if kind == *b"VP8X" => head.first().copied().unwrap_or_default(),
        // A simple file has no metadata.
        _ => 0,
    };
    let first = |name: &[u8; 4], flag: u8| {
        let mut chunks = webp::chunks(container).filter(|(kind, _)| kind == name);
        chunks.next().filter(|_| flags & flag != 0)
    };
    find(
        first(b"EXIF", 8).map(|(_, data)| data),
        first(b"XMP ", 4).map(|(_, data)| data),
    )
}

pub(super) fn of_png(bytes: &[u8]) -> Orientation {
    let (mut exif, mut profile, mut xmp) = (None, None, None);
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some((head, body)) = rest.split_first_chunk::<8>() {
        let [a, b, c, d, kind @ ..] = *head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let Some(data) = body.get(..length) else {
            break;
        };
        match &kind {
            b"IEND" => break,
            b"eXIf" => exif = Some(data),
            b"tEXt" | b"zTXt" | b"iTXt" => match until_zero(data) {
                Some((b"Raw profile type exif", value)) => profile = text(kind, value),
                Some((b"XML:com.adobe.xmp", value)) => xmp = text(kind, value),
                _ => {}
            },
            _ => {}
        }
        // Behind the checksum.
        rest = body.get(length + 4..).unwrap_or_default();
    }
    let profile = profile.and_then(|text| unhex(&text));
    find(exif.or(profile.as_deref()), xmp.as_deref())
}

/// The bytes up to the first zero, and those after it.
fn until_zero(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(0, data)?;
    Some((&data[..at], &data[at + 1..]))
}

/// The text of a chunk of a PNG, from what follows its keyword.
fn text(kind: [u8; 4], value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (packed, value) = match (&kind, value) {
        (b"zTXt", [0, value @ ..]) => (true, value),
        (b"iTXt", [packed, 0, value @ ..]) => {
            let (_language, value) = until_zero(value)?;
            (*packed != 0, until_zero(value)?.1)
        }
        (b"tEXt", value) => (false, value),
        _ => return None,
    };
    if packed {
        Some(
            fdeflate::decompress_to_vec_bounded(value, MOST_TEXT)
                .ok()?
                .into(),
        )
    } else {
        Some(value.into())
    }
}

/// The bytes that ImageMagick and ExifTool write in hexadecimal, after three lines: an empty one, a name, a length.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text
        .splitn(4, |&byte| byte == b'\n')
        .nth(3)?
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|&digit| char::from(digit).to_digit(16))
        .collect();
    let (pairs, []) = digits.as_deref()?.as_chunks::<2>() else {
        return None;
    };
    Some(
        pairs
            .iter()
            .map(|[high, low]| (high << 4 | low) as u8)
            .collect(),
    )
}

fn find(exif: Option<&[u8]>, xmp: Option<&[u8]>) -> Orientation {
    let found = exif
        .and_then(in_exif)
        .or_else(|| in_xmp(xmp?))
        .and_then(|value| Orientation::from_exif(u8::try_from(value).ok()?));
    found.unwrap_or(Orientation::NoTransforms)
}

/// The value of the tag in the first directory; 0 if it is there, but no whole number.
fn in_exif(exif: &[u8]) -> Option<u64> {
    let once = exif.strip_prefix(PREFIX).unwrap_or(exif);
    let found = tiff::entry(once.strip_prefix(PREFIX).unwrap_or(once), TAG)?;
    // Of several values, the first one counts.
    Some(found.number().unwrap_or(0))
}

/// The digit of the first `tiff:Orientation`, as an attribute or as an element.
fn in_xmp(xmp: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"tiff:Orientation";
    memchr::memmem::find_iter(xmp, NAME).find_map(|at| {
        let rest = &xmp[at + NAME.len()..];
        let value = rest
            .strip_prefix(b"=\"")
            .or_else(|| rest.strip_prefix(b">"))?;
        let digit = value.first().filter(|digit| digit.is_ascii_digit())?;
        Some(u64::from(digit - b'0'))
    })
}
