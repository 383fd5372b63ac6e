//! Masks: index PNGs, whose pixels are classes.

use kvt_train::data::{ImageLimits, decode_mask};
use proptest::prelude::*;

use crate::corpus::named_corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

/// So few that no edit of a size makes a mask of gigabytes.
const LIMITS: ImageLimits = ImageLimits::of(1 << 20);

/// Files as they are written, by another program: pixel (x, y) is `3 x + 5 y`, as far as its bits go.
#[test]
fn masks_are_read_as_written() {
    for (name, bytes) in named_corpus("mask_png") {
        if name.starts_with("rgb") {
            assert!(decode_mask(&bytes, LIMITS).unwrap_err().contains("colours"));
            continue;
        }
        let map = decode_mask(&bytes, LIMITS).unwrap();
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        let values = (1_usize << digits.parse::<u32>().unwrap()).min(200);
        assert_eq!(map.size, (7, 13), "{name}");
        for (at, label) in map.labels.iter().enumerate() {
            let (x, y) = (at % 13, at / 13);
            assert_eq!(
                usize::from(*label),
                (3 * x + 5 * y) % values,
                "{name} ({x}, {y})"
            );
        }
    }
}

/// Files that are slightly wrong, with and without checksums that agree: what is read has as many labels as pixels.
#[test]
fn mask_png() {
    let files: Vec<Vec<u8>> = named_corpus("mask_png")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
    let cases = (any::<u8>(), edits(1..4), any::<bool>());
    fuzz(4_000, &cases, |(file, edits, repairs)| {
        let mut bytes = edited(&files, file, &edits);
        if repairs {
            repair(&mut bytes);
        }
        if let Ok(map) = decode_mask(&bytes, LIMITS) {
            assert_eq!(map.labels.len(), map.size.0 * map.size.1);
            assert!(map.labels.len() as u64 <= LIMITS.max_pixels);
        }
    });
}

/// Makes the checksums of the chunks right, so that what follows them is read.
fn repair(bytes: &mut [u8]) {
    let mut at = 8;
    while let Some(head) = bytes.get(at..at + 8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let end = at + 8 + length;
        let Some(content) = bytes.get(at + 4..end) else {
            return;
        };
        let sum = checksum(content).to_be_bytes();
        let Some(place) = bytes.get_mut(end..end + 4) else {
            return;
        };
        place.copy_from_slice(&sum);
        at = end + 4;
    }
}

/// CRC-32, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let of_bit = |sum: u32| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
    let of_byte = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| of_bit(sum));
    !bytes.iter().fold(!0, of_byte)
}
