//! JPEGs, as a whole and only what a crop shows of them: two decoders, which must agree.

use std::cell::Cell;

use image::RgbImage;
use kvt_train::augment::{Crop, Look, Part};
use kvt_train::data::{ClassOrder, ImageLimits, Picture, Source, decode_bytes};
use proptest::prelude::*;

use crate::corpus::named_corpus;
use crate::edit::{edited, edits};
use crate::runner::fuzz;

/// So few that no edit of a size makes an image of gigabytes.
const LIMITS: ImageLimits = ImageLimits::of(1 << 20);
/// Levels by which the pixels of both decoders may differ: they transform and convert colours with other roundings.
const ROUNDINGS: u8 = 4;
/// Pixels from the edge of a part at which the colours depend on what lies beyond it, where they are stored at half the size.
const EDGE: u32 = 2;

/// A crop of an image, and how small it is wanted, in numbers that become places within it.
type Wanted = ([u16; 4], u32);

/// A source of any kind of image: what is decoded is given to it.
fn source() -> Source {
    let dir = tempfile::tempdir().unwrap();
    let class = dir.path().join("class");
    fs_err::create_dir(&class).unwrap();
    fs_err::write(class.join("0.jpg"), b"").unwrap();
    Source::open(dir.path(), ClassOrder::Byte).unwrap()
}

fn look_at((width, height): (u32, u32), (places, by): Wanted) -> Look {
    let [left, top, across, down] = places.map(u32::from);
    let (left, top) = (left % width, top % height);
    let crop = Crop {
        left,
        top,
        width: 1 + across % (width - left),
        height: 1 + down % (height - top),
    };
    Look {
        crop,
        size: ((crop.width / by).max(1), (crop.height / by).max(1)),
    }
}

/// How many times smaller the part is decoded: as small as it may be and still be large enough.
fn smaller(look: Look) -> u32 {
    let (crop, size) = (look.crop, look.size);
    let is_enough = |by: &u32| crop.width / by >= size.0 && crop.height / by >= size.1;
    [8, 4, 2].into_iter().find(is_enough).unwrap_or(1)
}

/// Decodes what is wanted, checks that it lies where it says, and returns it with its place in the image made smaller.
fn part(source: &Source, bytes: &[u8], wanted: Wanted) -> Option<(Part, u32, [u32; 2])> {
    let asked = Cell::new(None);
    let look = |size| {
        let look = look_at(size, wanted);
        asked.set(Some((size, look)));
        Some(look)
    };
    let Ok(Picture::Part(part)) = source.look(bytes, LIMITS, Some(&look)) else {
        return None;
    };
    let ((width, height), look) = asked.get().unwrap();
    let (crop, by) = (look.crop, smaller(look));
    let sides = part.image.dimensions();
    let place = |at: u32, length: u32, (offset, extent): (f64, f64), side: u32, whole: u32| {
        let scale = f64::from(by);
        let origin = f64::from(at) / scale - offset;
        assert!(origin >= 0.0 && origin.fract() == 0.0, "{part:?}");
        // The part holds the crop, and no more of the image than there is.
        assert!(offset >= 0.0 && extent > 0.0, "{part:?}");
        assert!(offset + extent <= f64::from(side), "{part:?}");
        assert!(extent >= f64::from(length) / scale - 1.0, "{part:?}");
        assert!(origin as u32 + side <= whole.div_ceil(by), "{part:?}");
        // One unit of blocks more on each side at most.
        assert!(side <= length.div_ceil(by) + 2 * 16, "{part:?}");
        origin as u32
    };
    let left = place(crop.left, crop.width, part.across, sides.0, width);
    let top = place(crop.top, crop.height, part.down, sides.1, height);
    Some((part, by, [left, top]))
}

/// The worst difference of a part at full size from the whole image, away from those edges of the part that are none of the
/// image.
fn difference(part: &Part, [left, top]: [u32; 2], whole: &RgbImage, edge: u32) -> u8 {
    let (width, height) = part.image.dimensions();
    let is_inner = |at: u32, from: u32, side: u32, all: u32| {
        (from == 0 || at >= edge) && (from + side == all || at + edge < side)
    };
    let pixels = part.image.enumerate_pixels().filter(|(x, y, _)| {
        is_inner(*x, left, width, whole.width()) && is_inner(*y, top, height, whole.height())
    });
    let levels = pixels.flat_map(|(x, y, pixel)| {
        let other = whole.get_pixel(left + x, top + y);
        [0, 1, 2].map(|channel| pixel.0[channel].abs_diff(other.0[channel]))
    });
    levels.max().unwrap_or_default()
}

fn wanted() -> impl Strategy<Value = Wanted> {
    (any::<[u16; 4]>(), prop::sample::select(vec![1, 2, 4, 8]))
}

/// Files as they are written: the same pixels, whatever the crop.
#[test]
fn jpeg_parts() {
    let files = named_corpus("jpeg");
    let source = source();
    let decoded: Vec<RgbImage> = files
        .iter()
        .map(|(_, bytes)| decode_bytes(bytes, LIMITS).unwrap().image)
        .collect();
    fuzz(1_000, &(any::<u8>(), wanted()), |(file, wanted)| {
        let file = usize::from(file) % files.len();
        let (name, bytes) = &files[file];
        let is_read = !name.contains("progressive") && !name.contains("grey");
        let found = part(&source, bytes, wanted);
        assert_eq!(found.is_some(), is_read, "{name}");
        let Some((part, 1, origin)) = found else {
            return;
        };
        let edge = match name.starts_with("444") {
            true => 0,
            false => EDGE,
        };
        let worst = difference(&part, origin, &decoded[file], edge);
        assert!(worst <= ROUNDINGS, "{name}: {worst}");
    });
}

/// Files that are slightly wrong. Where both decoders find an image, it is the same one but for few.
#[test]
fn jpeg_edits() {
    let files: Vec<Vec<u8>> = named_corpus("jpeg")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
    let source = source();
    let cases = (any::<u8>(), edits(1..4), wanted());
    let (compared, others) = (Cell::new(0_u32), Cell::new(0_u32));
    fuzz(4_000, &cases, |(file, edits, wanted)| {
        let bytes = edited(&files, file, &edits);
        let found = part(&source, &bytes, wanted);
        let whole = decode_bytes(&bytes, LIMITS);
        if let (Some((part, 1, origin)), Ok(whole)) = (&found, &whole) {
            let worst = difference(part, *origin, &whole.image, EDGE);
            compared.set(compared.get() + 1);
            others.set(others.get() + u32::from(worst > ROUNDINGS));
        }
    });
    let (compared, others) = (compared.get(), others.get());
    // What no encoder writes may become other pixels.
    assert!(
        compared > 100 && 100 * others <= compared,
        "{others} of {compared}"
    );
}
