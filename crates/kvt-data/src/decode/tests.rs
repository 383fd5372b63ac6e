#![expect(clippy::unwrap_used, reason = "tests")]

use image::{ImageBuffer, Luma, LumaA, Rgb, Rgba};

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/decode/");

fn fixture(name: &str) -> Vec<u8> {
    fs_err::read(format!("{FIXTURES}{name}")).unwrap()
}

fn decode_all(bytes: &[u8]) -> Result<Decoded, String> {
    decode_bytes(bytes, ImageLimits::default())
}

fn encode(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

#[test]
fn a_header_has_the_size() {
    for format in [
        ImageFormat::Jpeg,
        ImageFormat::Png,
        ImageFormat::WebP,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
        ImageFormat::Gif,
    ] {
        let bytes = encode(RgbImage::new(7, 5), format);
        assert_eq!(dimensions(&bytes), Ok((7, 5)), "{format:?}");
        assert!(dimensions(&bytes[..8]).is_err(), "{format:?}");
    }
    assert_eq!(dimensions(b"text"), Err(NOT_AN_IMAGE.to_owned()));
}

#[test]
fn agrees_with_pillow() {
    use ColorKind::{Cmyk, Grey, Rgb};
    // Printed by make.py next to the files, at (2, 3), (20, 5), (9, 20), (23, 17).
    let expected = [
        (
            "rgb.jpg",
            Rgb,
            4,
            [[16, 30, 199], [161, 50, 41], [71, 199, 40], [185, 170, 201]],
        ),
        (
            "progressive.jpg",
            Rgb,
            4,
            [[16, 30, 199], [159, 51, 39], [71, 200, 38], [184, 171, 201]],
        ),
        ("grey.jpg", Grey, 4, [[45; 3], [82; 3], [143; 3], [178; 3]]),
        (
            "cmyk.jpg",
            Cmyk,
            4,
            [
                [157, 149, 36],
                [87, 139, 152],
                [201, 95, 55],
                [117, 119, 235],
            ],
        ),
        (
            "ycck.jpg",
            Cmyk,
            4,
            [
                [158, 149, 36],
                [89, 139, 153],
                [203, 95, 57],
                [118, 119, 237],
            ],
        ),
        (
            "exif6.jpg",
            Rgb,
            4,
            [[26, 209, 39], [38, 30, 201], [159, 141, 201], [135, 1, 38]],
        ),
        (
            "palette.png",
            Rgb,
            0,
            [[8, 30, 200], [152, 70, 40], [84, 200, 40], [196, 180, 200]],
        ),
        (
            "lossless.webp",
            Rgb,
            0,
            [[16, 30, 200], [160, 50, 40], [72, 200, 40], [184, 170, 200]],
        ),
    ];
    for (name, color, tolerance, pixels) in expected {
        let decoded = decode_all(&fixture(name)).unwrap();
        assert_eq!(decoded.color, color, "{name}");
        for ((x, y), want) in [(2, 3), (20, 5), (9, 20), (23, 17)].into_iter().zip(pixels) {
            let got = decoded.image.get_pixel(x, y).0;
            let close = got
                .iter()
                .zip(want)
                .all(|(a, b): (&u8, u8)| a.abs_diff(b) <= tolerance);
            assert!(close, "{name} at ({x}, {y}): {got:?}, Pillow {want:?}");
        }
    }
}

#[test]
fn every_kind_of_pixel_becomes_rgb() {
    let cases: [(DynamicImage, [u8; 3]); 8] = [
        (ImageBuffer::from_pixel(2, 2, Luma([7_u8])).into(), [7; 3]),
        (
            ImageBuffer::from_pixel(2, 2, LumaA([7_u8, 0])).into(),
            [7; 3],
        ),
        (
            ImageBuffer::from_pixel(2, 2, Rgb([1_u8, 2, 3])).into(),
            [1, 2, 3],
        ),
        (
            ImageBuffer::from_pixel(2, 2, Rgba([1_u8, 2, 3, 0])).into(),
            [1, 2, 3],
        ),
        // 0x12ff would round up to 0x13; the high byte is 0x12.
        (
            ImageBuffer::from_pixel(2, 2, Luma([0x12ff_u16])).into(),
            [0x12; 3],
        ),
        (
            ImageBuffer::from_pixel(2, 2, LumaA([0x12ff_u16, 0])).into(),
            [0x12; 3],
        ),
        (
            ImageBuffer::from_pixel(2, 2, Rgb([0x12ff_u16, 0xff00, 255])).into(),
            [0x12, 255, 0],
        ),
        (
            ImageBuffer::from_pixel(2, 2, Rgba([0x12ff_u16, 0, 256, 9])).into(),
            [0x12, 0, 1],
        ),
    ];
    for (image, want) in cases {
        let decoded = decode_all(&encode(image.clone(), ImageFormat::Png)).unwrap();
        assert_eq!(decoded.image.get_pixel(1, 1).0, want, "{:?}", image.color());
    }
    let bmp = encode(
        ImageBuffer::from_pixel(3, 2, Rgb([9_u8, 8, 7])),
        ImageFormat::Bmp,
    );
    assert_eq!(decode_all(&bmp).unwrap().image.get_pixel(2, 1).0, [9, 8, 7]);
}

#[test]
fn all_eight_orientations() {
    // The destination of pixel (x, y) of the stored 32 x 24 image, from the EXIF table.
    let place = |orientation: u8, x: u32, y: u32| match orientation {
        1 => (x, y),
        2 => (31 - x, y),
        3 => (31 - x, 23 - y),
        4 => (x, 23 - y),
        5 => (y, x),
        6 => (23 - y, x),
        7 => (23 - y, 31 - x),
        _ => (y, 31 - x),
    };
    let stored = fixture("exif6.jpg");
    // The orientation tag: 0x0112, type 3 (short), count 1, value; big- or little-endian.
    let big = stored
        .windows(8)
        .position(|w| w == [1, 0x12, 0, 3, 0, 0, 0, 1])
        .map(|i| i + 9);
    let little = stored
        .windows(8)
        .position(|w| w == [0x12, 1, 3, 0, 1, 0, 0, 0])
        .map(|i| i + 8);
    let at = big.or(little).unwrap();
    let upright = decode_all(&fixture("rgb.jpg")).unwrap().image;
    for orientation in 1..=8 {
        let mut bytes = stored.clone();
        bytes[at] = orientation;
        let image = decode_all(&bytes).unwrap().image;
        for (x, y) in [(0, 0), (5, 20), (31, 3)] {
            let (to_x, to_y) = place(orientation, x, y);
            assert_eq!(
                image.get_pixel(to_x, to_y),
                upright.get_pixel(x, y),
                "{orientation}"
            );
        }
    }
}

#[test]
fn truncated_files_are_errors_everywhere() {
    let noise = image::RgbImage::from_fn(40, 30, |x, y| {
        Rgb([(x * 37 + y * 91) as u8, (x * y) as u8, 9])
    });
    let files = [
        fixture("rgb.jpg"),
        fixture("progressive.jpg"),
        fixture("lossless.webp"),
        encode(noise.clone(), ImageFormat::Png),
        encode(noise, ImageFormat::Bmp),
    ];
    for (number, bytes) in files.iter().enumerate() {
        assert!(decode_all(bytes).is_ok());
        for percent in [0, 5, 30, 60, 90] {
            let cut = bytes.len() * percent / 100;
            assert!(
                decode_all(&bytes[..cut]).is_err(),
                "file {number} cut at {cut}"
            );
        }
    }
    let jpeg = &files[0];
    for cut in 0..jpeg.len() {
        assert!(decode_all(&jpeg[..cut]).is_err(), "jpeg cut at {cut}");
    }
}

#[test]
fn damaged_bytes_never_panic() {
    for name in [
        "rgb.jpg",
        "progressive.jpg",
        "cmyk.jpg",
        "palette.png",
        "lossless.webp",
    ] {
        let bytes = fixture(name);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            if let Err(reason) = decode_all(&damaged) {
                assert!(!reason.contains("panicked"), "{name} at {at}: {reason}");
            }
        }
    }
}

#[test]
fn errors_name_the_path_and_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let check = |bytes: &[u8], words: &str| {
        let path = dir.path().join("x.jpg");
        fs_err::write(&path, bytes).unwrap();
        let message = decode(&path, ImageLimits::default())
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("x.jpg") && message.contains(words),
            "{message}"
        );
    };
    check(b"", "the file is empty");
    check(b"hello", "not a JPEG, PNG, WebP, BMP, TIFF or GIF file");
    check(b"\0\0\0\x20ftypavif........", "not read");
    check(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "a Git LFS pointer, not the image: run `git lfs pull`",
    );
    let path = dir.path().join("none.png");
    let missing = decode(&path, ImageLimits::default()).unwrap_err();
    assert!(missing.to_string().contains("none.png"));
}

/// A PNG of one pixel whose header claims `width` x `height`.
fn claiming(width: u32, height: u32) -> Vec<u8> {
    let mut png = encode(image::RgbImage::new(1, 1), ImageFormat::Png);
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let crc = crc(&png[12..29]).to_be_bytes();
    png[29..33].copy_from_slice(&crc);
    png
}

#[test]
fn the_pixels_are_counted_before_they_are_decoded() {
    let reason =
        |bytes: &[u8], max_pixels| decode_bytes(bytes, ImageLimits { max_pixels }).unwrap_err();
    let pillows = ImageLimits::default().max_pixels;
    for (width, height) in [(32_000, 32_000), (65_500, 2_733), (60_000, 60_000)] {
        assert_eq!(
            reason(&claiming(width, height), pillows),
            format!("{width} x {height} pixels are more than `data.max_pixels` = 178956970")
        );
    }
    // Just within the limit: the error is in the file itself.
    let inside = reason(&claiming(65_500, 2_732), pillows);
    assert!(!inside.contains("max_pixels"), "{inside}");
    let long = reason(&claiming(65_501, 1), pillows);
    assert!(long.contains("more than 65500 pixels"), "{long}");

    let four_by_three = encode(image::RgbImage::new(4, 3), ImageFormat::Bmp);
    for bytes in [four_by_three, fixture("rgb.jpg"), fixture("lossless.webp")] {
        let pixels = decode_all(&bytes).unwrap().image.pixels().count() as u64;
        let limits = ImageLimits { max_pixels: pixels };
        assert!(decode_bytes(&bytes, limits).is_ok());
        let less = reason(&bytes, pixels - 1);
        assert!(less.contains("`data.max_pixels`"), "{less}");
    }
}

#[test]
fn a_chunk_of_a_webp_ends_within_the_file() {
    let whole = fixture("lossless.webp");
    assert!(decode_all(&whole).is_ok());
    let extended = |claimed: u32| {
        let mut chunk = whole[12..].to_vec();
        // `VP8X`: 10 bytes; the first one contains the EXIF flag, the last six the size of the canvas minus 1.
        let size = decode_all(&whole).unwrap().image.dimensions();
        let mut bytes = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x08\0\0\0".to_vec();
        bytes.extend(&(size.0 - 1).to_le_bytes()[..3]);
        bytes.extend(&(size.1 - 1).to_le_bytes()[..3]);
        bytes.append(&mut chunk);
        bytes.extend(b"EXIF");
        bytes.extend(claimed.to_le_bytes());
        bytes.extend(b"MM\0*");
        let riff = bytes.len() as u32 - 8;
        bytes[4..8].copy_from_slice(&riff.to_le_bytes());
        bytes
    };
    assert!(decode_all(&extended(4)).is_ok());
    // 4 GB of metadata in a file of a few hundred bytes.
    let reason = decode_all(&extended(0xffff_fff0)).unwrap_err();
    assert_eq!(reason, "the file is truncated");
}

/// A small file, and Pillow's upright picture of it.
#[derive(serde::Deserialize)]
struct Case {
    name: String,
    file: String,
    size: (u32, u32),
    pixels: String,
}

/// Orientations in each place and form, the colours of JPEGs by each sign, bytes after the end, and narrow JPEGs, from
/// `scripts/reference/decode.py`.
#[test]
fn small_files_are_pillows() {
    use base64::Engine as _;
    let cases: Vec<Case> = serde_json::from_slice(&fixture("decode.json")).unwrap();
    assert_eq!(cases.len(), 82);
    let code = &base64::engine::general_purpose::STANDARD;
    for Case {
        name,
        file,
        size,
        pixels,
    } in cases
    {
        let file = code.decode(file).unwrap();
        let image = decode_all(&file).unwrap().image;
        assert_eq!(image.dimensions(), size, "{name}");
        let expected = code.decode(pixels).unwrap();
        let differences = image.as_raw().iter().zip(&expected);
        let worst = differences.map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        // Decoders of JPEG round differently.
        let most = if file.starts_with(&[0xff, 0xd8]) {
            4
        } else {
            0
        };
        assert!(worst <= most, "{name}: {worst} beside {expected:?}");
    }
}

/// TIFFs and GIFs, from `scripts/reference/other_formats.py`; those without pixels are refused.
#[test]
fn other_formats_are_pillows() {
    use base64::Engine as _;
    let cases: Vec<serde_json::Value> =
        serde_json::from_slice(&fixture("other_formats.json")).unwrap();
    assert_eq!(cases.len(), 33);
    let code = &base64::engine::general_purpose::STANDARD;
    let bytes = |value: &serde_json::Value| code.decode(value.as_str()?).ok();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let found = decode_all(&bytes(&case["file"]).unwrap());
        match bytes(&case["pixels"]) {
            Some(pixels) => {
                let Decoded { image, color } = found.unwrap();
                let (width, height) = image.dimensions();
                assert_eq!(serde_json::json!([width, height]), case["size"], "{name}");
                assert_eq!(image.as_raw(), &pixels, "{name}");
                assert_eq!(color == ColorKind::Grey, name.contains("grey"), "{name}");
            }
            None => {
                let reason = found.unwrap_err();
                let expected = match name {
                    "tiff bilevel" => "1 x 1 bits of grey, compression 1,",
                    "tiff cmyk" => "4 x 8 bits of CMYK",
                    "tiff float" => "1 x 32 floating-point bits of grey",
                    "tiff palette" => "1 x 8 bits of a palette",
                    "tiff grey with alpha" => "2 x 8 bits of grey",
                    "tiff big" => "a BigTIFF, which is not read",
                    _ => "",
                };
                assert!(reason.contains(expected), "{name}: {reason}");
                assert!(!reason.contains("panicked"), "{name}: {reason}");
            }
        }
    }
}

/// The coefficients of a progressive one are not decoded here, and its colours would be smoothed.
#[test]
fn a_narrow_jpeg_that_would_differ_is_refused() {
    let reason = decode_all(&fixture("narrow_progressive.jpg")).unwrap_err();
    assert!(reason.contains("at most 4 pixels"), "{reason}");
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

/// Direct decoding gives the same pixels as the `image` crate, for any colour sampling.
#[test]
fn jpegs_are_those_of_the_image_crate() {
    let mut files = vec![
        fixture("rgb.jpg"),
        fixture("progressive.jpg"),
        fixture("exif6.jpg"),
    ];
    for (width, height) in [(1, 1), (17, 33), (64, 48), (131, 70)] {
        let image = RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([(x * 7 + y) as u8, (x ^ y) as u8, (y * 5) as u8])
        });
        files.push(encode(image, ImageFormat::Jpeg));
    }
    let limits = ImageLimits::default();
    for bytes in files {
        let segments = jpeg::Segments::read(&bytes).unwrap();
        let direct = jpeg::decode(&bytes, &segments, limits).unwrap();
        let image = pixels(&bytes, ImageFormat::Jpeg, limits).unwrap();
        assert!(direct == image.into_rgb8());
    }
    let few = ImageLimits { max_pixels: 5 };
    let segments = jpeg::Segments::default();
    assert!(jpeg::decode(&fixture("rgb.jpg"), &segments, few).is_none());
}
