//! Annotations: COCO's JSON, and the text of its compressed masks.

use std::path::Path;

use kvt_train::data::OnError;
use kvt_train::data::coco::{Coco, Rle};
use proptest::prelude::*;

use crate::corpus::corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

/// Images of more pixels are not decoded: their file is not there either.
const MOST_PIXELS: u32 = 1 << 16;

fn read(bytes: &[u8], on_error: OnError) -> Option<Coco> {
    Coco::parse(bytes, Path::new("file.json"), on_error).ok()
}

/// What is read has masks of the size of their image.
fn check(coco: &Coco) {
    for (place, image) in coco.images.iter().enumerate() {
        for object in coco.annotations(place) {
            assert!(object.label < coco.categories.len());
            object.left_out(image.size);
            let mask = object.mask(image.size);
            assert_eq!(mask.is_none(), object.segmentation.is_none());
            if let Some(mask) = mask {
                check_mask(&mask, image.size);
            }
        }
    }
}

fn check_mask(mask: &Rle, (height, width): (u32, u32)) {
    assert_eq!(mask.size(), (height, width));
    let pixels = u64::from(height) * u64::from(width);
    let runs = mask.counts().iter().map(|count| u64::from(*count));
    assert_eq!(runs.sum::<u64>(), pixels);
    assert_eq!(
        Rle::from_text((height, width), &mask.to_text()).as_ref(),
        Ok(mask)
    );
    let [x, y, w, h] = mask.bounding_box();
    assert!(x + w <= width && y + h <= height);
    if pixels <= u64::from(MOST_PIXELS) {
        let inside = mask.decode().iter().filter(|inside| **inside).count();
        assert_eq!(inside, mask.area() as usize);
    }
}

/// Files that are slightly wrong, and with what is invalid left out.
#[test]
fn coco_json() {
    let files = corpus("coco_json");
    for file in &files {
        let coco = read(file, OnError::Fail).unwrap();
        assert!(coco.annotations(0).len() > 1 && coco.bad.is_empty());
        check(&coco);
    }
    let cases = (any::<u8>(), edits(1..4));
    fuzz(4_000, &cases, |(file, edits)| {
        let bytes = edited(&files, file, &edits);
        let strict = read(&bytes, OnError::Fail);
        let lenient = read(&bytes, OnError::Skip);
        // What is valid is the same in both.
        if let Some(strict) = strict {
            assert_eq!(lenient.as_ref(), Some(&strict));
        }
        if let Some(lenient) = lenient {
            check(&lenient);
        }
    });
}

/// Texts that are slightly wrong, for images of any size.
#[test]
fn rle_string() {
    let files = corpus("rle_string");
    for file in &files {
        let text = std::str::from_utf8(file).unwrap().trim_end();
        check_mask(&Rle::from_text((20, 30), text).unwrap(), (20, 30));
    }
    let cases = (
        any::<u8>(),
        edits(0..4),
        0_u32..80,
        0_u32..80,
        any::<bool>(),
    );
    fuzz(10_000, &cases, |(file, edits, height, width, is_own)| {
        let bytes = edited(&files, file, &edits);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        // That of the corpus.
        let size = if is_own { (20, 30) } else { (height, width) };
        if let Ok(mask) = Rle::from_text(size, text) {
            check_mask(&mask, size);
        }
    });
}
