#![expect(clippy::unwrap_used, reason = "tests")]

use image::{ImageBuffer, Luma, LumaA, Rgb, Rgba};

use super::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/decode/");

fn fixture(name: &str) -> Vec<u8> {
    fs_err::read(format!("{FIXTURES}{name}")).unwrap()
}

fn encode(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

#[test]
fn agrees_with_pillow() {
    use ColorKind::{Cmyk, Grey, Rgb};
    // Printed by make.py beside the files, at (2, 3), (20, 5), (9, 20), (23, 17).
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
        let decoded = decode_bytes(&fixture(name)).unwrap();
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
        let decoded = decode_bytes(&encode(image.clone(), ImageFormat::Png)).unwrap();
        assert_eq!(decoded.image.get_pixel(1, 1).0, want, "{:?}", image.color());
    }
    let bmp = encode(
        ImageBuffer::from_pixel(3, 2, Rgb([9_u8, 8, 7])),
        ImageFormat::Bmp,
    );
    assert_eq!(
        decode_bytes(&bmp).unwrap().image.get_pixel(2, 1).0,
        [9, 8, 7]
    );
}

#[test]
fn all_eight_orientations() {
    // Where pixel (x, y) of the stored 32 x 24 picture goes, from the EXIF table.
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
    let upright = decode_bytes(&fixture("rgb.jpg")).unwrap().image;
    for orientation in 1..=8 {
        let mut bytes = stored.clone();
        bytes[at] = orientation;
        let image = decode_bytes(&bytes).unwrap().image;
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
        assert!(decode_bytes(bytes).is_ok());
        for percent in [0, 5, 30, 60, 90] {
            let cut = bytes.len() * percent / 100;
            assert!(
                decode_bytes(&bytes[..cut]).is_err(),
                "file {number} cut at {cut}"
            );
        }
    }
    let jpeg = &files[0];
    for cut in 0..jpeg.len() {
        assert!(decode_bytes(&jpeg[..cut]).is_err(), "jpeg cut at {cut}");
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
            if let Err(reason) = decode_bytes(&damaged) {
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
        let message = decode(&path).unwrap_err().to_string();
        assert!(
            message.contains("x.jpg") && message.contains(words),
            "{message}"
        );
    };
    check(b"", "the file is empty");
    check(b"hello", "not a JPEG, PNG, WebP or BMP file");
    check(b"GIF89a........", "not read");
    // A PNG that claims 60000 x 60000 pixels.
    let mut bomb = encode(image::RgbImage::new(1, 1), ImageFormat::Png);
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let crc = crc(&bomb[12..29]).to_be_bytes();
    bomb[29..33].copy_from_slice(&crc);
    check(&bomb, "limit");
    let missing = decode(&dir.path().join("none.png")).unwrap_err();
    assert!(missing.to_string().contains("none.png"));
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    })
}
