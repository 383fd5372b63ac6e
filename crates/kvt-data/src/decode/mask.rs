//! Index PNGs: files whose pixel values are classes, not colours.
//!
//! They are read as stored. The `image` crate would resolve the palette, as VOC's masks have one, and the indices would be lost.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::{MAX_SIDE, caught};
use crate::LabelMap;
use crate::file::ImageLimits;

const TRUNCATED: &str = "the file is truncated";

/// The values of an index PNG, grey or with a palette, of 1, 2, 4, 8 or 16 bits, interlaced or not.
///
/// # Errors
/// The reason, as text: it is no such file, damaged, too large, or has a value above 255.
pub fn decode_mask(bytes: &[u8], limits: ImageLimits) -> Result<LabelMap, String> {
    caught(bytes, "mask", || decode(bytes, limits))
}

fn decode(bytes: &[u8], limits: ImageLimits) -> Result<LabelMap, String> {
    if !bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Err("not a PNG file: other formats change the values of pixels".to_owned());
    }
    let most = usize::try_from(limits.decoded_bytes()).unwrap_or(usize::MAX);
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: most });
    decoder.set_transformations(Transformations::IDENTITY);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let (width, height) = decoder.read_header_info().map_err(words)?.size();
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(format!(
            "{width} x {height} pixels: a side has more than {MAX_SIDE}"
        ));
    }
    limits.check_pixels(width, height)?;
    let mut reader = decoder.read_info().map_err(words)?;
    let info = reader.info();
    if !matches!(info.color_type, ColorType::Grayscale | ColorType::Indexed) {
        return Err(format!(
            "it has colours ({:?}), not classes: write each pixel's class as a grey value, with Pillow \
             `Image.fromarray(classes.astype(\"uint8\"))`",
            info.color_type
        ));
    }
    let depth = info.bit_depth;
    let length = reader
        .output_buffer_size()
        .ok_or("it is larger than the memory")?;
    let mut packed = vec![0; length];
    let frame = reader.next_frame(&mut packed).map_err(words)?;
    // Behind the pixels a checksum and the end must follow.
    reader.finish().map_err(words)?;
    let size = (height as usize, width as usize);
    let mut labels = Vec::with_capacity(size.0 * size.1);
    for row in packed.chunks_exact(frame.line_size.max(1)) {
        unpack(row, depth, size.1, &mut labels).map_err(|(x, value)| {
            let y = labels.len() / size.1.max(1);
            format!("pixel ({x}, {y}) has the value {value}: classes are at most 255")
        })?;
    }
    if labels.len() == size.0 * size.1 {
        Ok(LabelMap { labels, size })
    } else {
        Err(TRUNCATED.to_owned())
    }
}

/// Appends the values of a row of `width` pixels; an error is a pixel and its value above 255.
fn unpack(
    row: &[u8],
    depth: BitDepth,
    width: usize,
    labels: &mut Vec<u8>,
) -> Result<(), (usize, u16)> {
    let bits = depth as u8;
    match depth {
        BitDepth::Eight => labels.extend(row.iter().take(width)),
        BitDepth::Sixteen => {
            let (pairs, _) = row.as_chunks();
            let values: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
            if let Some((x, value)) = values.iter().enumerate().find(|(_, value)| **value > 255) {
                return Err((x, *value));
            }
            labels.extend(values.into_iter().map(|value| value as u8));
        }
        // The first pixel is in the highest bits.
        BitDepth::One | BitDepth::Two | BitDepth::Four => {
            let of_byte = |&byte: &u8| {
                let shifts = (0..8 / bits).rev().map(move |place| place * bits);
                shifts.map(move |shift| byte >> shift & ((1 << bits) - 1))
            };
            labels.extend(row.iter().flat_map(of_byte).take(width));
        }
    }
    Ok(())
}

fn words(error: DecodingError) -> String {
    match error {
        DecodingError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            TRUNCATED.to_owned()
        }
        DecodingError::LimitsExceeded => {
            "it takes more memory than an image of `data.max_pixels` pixels".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use png::Encoder;

    use super::*;

    const VALUES: [u8; 15] = [0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1];

    /// A PNG of 5 x 3 pixels, packed as in the file.
    fn png(color: ColorType, depth: BitDepth, packed: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 5, 3);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if color == ColorType::Indexed {
            // All colours alike: only the indices tell classes apart.
            encoder.set_palette(vec![7; 3 * 4]);
        }
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(packed).unwrap();
        writer.finish().unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<LabelMap, String> {
        decode_mask(bytes, ImageLimits::default())
    }

    #[test]
    fn values_are_read_as_stored() {
        let wide: Vec<u8> = VALUES.iter().flat_map(|value| [0, *value]).collect();
        let kinds: [(BitDepth, &[u8]); 5] = [
            (BitDepth::One, &[0b0110_1000, 0b1100_0000, 0b0101_1000]),
            (
                BitDepth::Two,
                &[
                    0b0001_0100,
                    0b0100_0000,
                    0b0101_0000,
                    0,
                    0b0001_0001,
                    0b0100_0000,
                ],
            ),
            (
                BitDepth::Four,
                &[0x01, 0x10, 0x10, 0x11, 0x00, 0x00, 0x01, 0x01, 0x10],
            ),
            (BitDepth::Eight, &VALUES),
            (BitDepth::Sixteen, &wide),
        ];
        for (depth, packed) in kinds {
            for color in [ColorType::Grayscale, ColorType::Indexed] {
                if (color, depth) == (ColorType::Indexed, BitDepth::Sixteen) {
                    continue;
                }
                let map = read(&png(color, depth, packed)).unwrap();
                assert_eq!(map.size, (3, 5));
                assert_eq!(map.labels, VALUES, "{color:?} {depth:?}");
            }
        }
    }

    /// Of each depth the largest value, and one with another bit.
    #[test]
    fn all_bits_of_a_value_count() {
        let rows = |first: [u8; 2], of_row: usize| {
            let mut packed = vec![0; 3 * of_row];
            packed[..2].copy_from_slice(&first);
            packed
        };
        for (depth, packed, expected) in [
            (
                BitDepth::Two,
                rows([0b1101_1000, 0b1100_0000], 2),
                [3, 1, 2, 0, 3],
            ),
            (BitDepth::Four, rows([0xf8, 0x42], 3), [15, 8, 4, 2, 0]),
            (BitDepth::Eight, rows([255, 128], 5), [255, 128, 0, 0, 0]),
            (BitDepth::Sixteen, rows([0, 255], 10), [255, 0, 0, 0, 0]),
        ] {
            let map = read(&png(ColorType::Grayscale, depth, &packed)).unwrap();
            assert_eq!(map.labels[..5], expected, "{depth:?}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let reason = |bytes: &[u8]| read(bytes).unwrap_err();
        let rgb = png(ColorType::Rgb, BitDepth::Eight, &[9; 45]);
        assert!(reason(&rgb).contains("colours (Rgb)"), "{}", reason(&rgb));
        let alpha = png(ColorType::GrayscaleAlpha, BitDepth::Eight, &[9; 30]);
        assert!(reason(&alpha).contains("colours"));
        let mut wide = [0; 30];
        wide[2 * 7] = 1;
        let wide = png(ColorType::Grayscale, BitDepth::Sixteen, &wide);
        assert_eq!(
            reason(&wide),
            "pixel (2, 1) has the value 256: classes are at most 255"
        );
        let good = png(ColorType::Grayscale, BitDepth::Eight, &VALUES);
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err(), "{length} bytes");
        }
        assert!(reason(b"\xff\xd8\xff\xe0").contains("not a PNG"));
        assert!(reason(b"").contains("empty"));
        let few = ImageLimits::of(14);
        let reason = decode_mask(&good, few).unwrap_err();
        assert!(reason.contains("5 x 3"), "{reason}");
    }
}
