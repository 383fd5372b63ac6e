//! Decodes the part of a JPEG that a transform uses, at 1/2, 1/4 or 1/8 of its size if that is enough.
//!
//! The coded data is one stream, which must be read up to the last row of the part. The transform, the colour conversion
//! and the rest of the stream are saved. Supports sequential JPEGs with three colours in one scan, as from cameras and
//! in ImageNet; all others are left to the decoder of whole images.

mod bits;
mod colours;
mod header;
mod transform;

use std::panic::catch_unwind;

use image::RgbImage;
use image::metadata::Orientation;
use pulp::{Arch, Simd, WithSimd};

use self::bits::Bits;
use self::colours::colours;
pub(super) use self::colours::rgb;
use self::header::{Component, Header};
use self::transform::{Basis, ZIGZAG};
use super::{jpeg, orientation};
use crate::augment::{Crop, Look, Part};
use crate::file::ImageLimits;

/// The part that `look` returns for an image of (width, height). `None` if it returns none, and for everything left to the decoder of
/// whole images: other formats, other kinds of JPEG, images that must be rotated, and damaged images.
pub(crate) fn decode(
    bytes: &[u8],
    limits: ImageLimits,
    look: impl FnOnce((u32, u32)) -> Option<Look>,
) -> Option<Part> {
    let segments = jpeg::Segments::read(bytes)?;
    // As in `decode_bytes`: a panic while reading hostile bytes means a bad file.
    match catch_unwind(|| orientation::of_jpeg(&segments)).ok()? {
        Orientation::NoTransforms => part(bytes, &segments, limits, look),
        _ => None,
    }
}

/// All pixels, as stored.
pub(super) fn whole(
    bytes: &[u8],
    segments: &jpeg::Segments<'_>,
    limits: ImageLimits,
) -> Option<RgbImage> {
    let all = |size| {
        let crop = Crop::whole(size);
        Some(Look { crop, size })
    };
    Some(part(bytes, segments, limits, all)?.image)
}

fn part(
    bytes: &[u8],
    segments: &jpeg::Segments<'_>,
    limits: ImageLimits,
    look: impl FnOnce((u32, u32)) -> Option<Look>,
) -> Option<Part> {
    if !segments.is_ycbcr() {
        return None;
    }
    let header = catch_unwind(|| Header::read(bytes)).ok()??;
    limits.check_pixels(header.width, header.height).ok()?;
    let look = look((header.width, header.height))?;
    let (crop, wanted) = (look.crop, look.size);
    let is_enough = |by: &u32| crop.width / by >= wanted.0 && crop.height / by >= wanted.1;
    let by = [8, 4, 2].into_iter().find(is_enough).unwrap_or(1);
    let blocks = Blocks { header, crop, by };
    // The loops are vectorised for the current processor.
    let blocks = std::panic::AssertUnwindSafe(blocks);
    catch_unwind(|| Arch::new().dispatch(blocks.0)).ok()?
}

/// The blocks that overlap a crop, at 1 / `by` of their size.
struct Blocks<'a> {
    header: Header<'a>,
    crop: Crop,
    by: u32,
}

impl WithSimd for Blocks<'_> {
    type Output = Option<Part>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<Part> {
        self.decode()
    }
}

/// A colour plane of the part, in rows.
struct Plane {
    component: Component,
    /// Side of a block in pixels.
    side: usize,
    width: usize,
    /// Whether it has as many columns and rows as the part.
    is_full: (bool, bool),
    pixels: Vec<u8>,
    mean: i32,
}

struct Bases {
    eight: Basis<8>,
    four: Basis<4>,
    two: Basis<2>,
    one: Basis<1>,
}

/// The units along one side of the image, and which of them a crop overlaps. A unit is the blocks of all planes at one place.
struct Units {
    /// Pixels of the image along a unit.
    size: usize,
    all: usize,
    first: usize,
    count: usize,
}

impl Units {
    /// Units of so many blocks, of an image of `length` pixels, for the pixels from `start` to `end`.
    fn new(blocks: usize, length: u32, start: u32, end: u32) -> Option<Self> {
        let size = 8 * blocks;
        let all = (length as usize).div_ceil(size);
        let first = start as usize / size;
        let count = (end as usize).div_ceil(size).min(all).checked_sub(first)?;
        Some(Self {
            size,
            all,
            first,
            count,
        })
    }

    /// The place of a unit among those that the crop overlaps.
    fn place(&self, number: usize) -> Option<usize> {
        let place = number.checked_sub(self.first)?;
        (place < self.count).then_some(place)
    }

    /// The first pixel of these units and their number of pixels, in the image of `length` pixels reduced `by` so many times.
    fn reduced(&self, length: u32, by: usize) -> (usize, usize) {
        let first = self.first * self.size / by;
        let rest = (length as usize).div_ceil(by) - first;
        (first, (self.count * self.size / by).min(rest))
    }
}

impl Blocks<'_> {
    #[inline(always)]
    fn decode(&self) -> Option<Part> {
        let (header, crop, by) = (&self.header, self.crop, self.by as usize);
        let most = |of: fn(&Component) -> usize| header.components.iter().map(of).max();
        let most = (most(|c| c.blocks.0)?, most(|c| c.blocks.1)?);
        let (right, bottom) = (crop.left + crop.width, crop.top + crop.height);
        let columns = Units::new(most.0, header.width, crop.left, right)?;
        let rows = Units::new(most.1, header.height, crop.top, bottom)?;
        let full_side = 8 / by;
        let mut planes = header.components.map(|component| {
            let blocks = component.blocks;
            // A colour plane with fewer blocks is reduced less.
            let side = match (most.0 / blocks.0, most.1 / blocks.1) {
                (2, 2) if full_side <= 4 => 2 * full_side,
                _ => full_side,
            };
            let width = columns.count * blocks.0 * side;
            Plane {
                component,
                side,
                width,
                is_full: (
                    blocks.0 * side == most.0 * full_side,
                    blocks.1 * side == most.1 * full_side,
                ),
                pixels: vec![0; width * rows.count * blocks.1 * side],
                mean: 0,
            }
        });
        self.read(&columns, &rows, &mut planes)?;
        let (left, width) = columns.reduced(header.width, by);
        let (top, height) = rows.reduced(header.height, by);
        let repeats = header.width <= u32::from(jpeg::NARROW);
        let rgb = colours(&planes, repeats, width, height);
        // The last pixel can represent fewer pixels of the image than the others, so the part is limited to what was decoded.
        let along = |start: u32, length: u32, first: usize, decoded: usize| {
            let offset = f64::from(start) / by as f64 - first as f64;
            let rest = decoded as f64 - offset;
            (offset, (f64::from(length) / by as f64).min(rest))
        };
        Some(Part {
            image: RgbImage::from_raw(width as u32, height as u32, rgb)?,
            across: along(crop.left, crop.width, left, width),
            down: along(crop.top, crop.height, top, height),
        })
    }

    /// Reads the stream up to the last row of the crop.
    #[inline(always)]
    fn read(&self, columns: &Units, rows: &Units, planes: &mut [Plane; 3]) -> Option<()> {
        let header = &self.header;
        let bases = Bases {
            eight: Basis::new(),
            four: Basis::new(),
            two: Basis::new(),
            one: Basis::new(),
        };
        let mut bits = Bits::new(header.data);
        let mut until_restart = header.restart;
        for row in 0..rows.first + rows.count {
            for column in 0..columns.all {
                if header.restart > 0 {
                    if until_restart == 0 {
                        bits.restart()?;
                        planes.iter_mut().for_each(|plane| plane.mean = 0);
                        until_restart = header.restart;
                    }
                    until_restart -= 1;
                }
                let at = columns.place(column).zip(rows.place(row));
                for plane in planes.iter_mut() {
                    plane.unit(header, &mut bits, &bases, at)?;
                }
            }
            if bits.overrun() {
                return None;
            }
        }
        Some(())
    }
}

impl Plane {
    /// Reads the blocks of a unit and keeps their pixels if the unit belongs to the part, at position `at` (column, row).
    #[inline(always)]
    fn unit(
        &mut self,
        header: &Header<'_>,
        bits: &mut Bits<'_>,
        bases: &Bases,
        at: Option<(usize, usize)>,
    ) -> Option<()> {
        let component = self.component;
        let blocks = component.blocks;
        let steps = header.tables.get(component.table)?.as_ref()?;
        let dc = header.dc.get(component.dc)?.as_ref()?;
        let ac = header.ac.get(component.ac)?.as_ref()?;
        for block_row in 0..blocks.1 {
            for block_column in 0..blocks.0 {
                self.mean = self.mean.wrapping_add(dc.difference(bits)?);
                let Some((column, row)) = at else {
                    ac.coefficients(bits, |_, _| {})?;
                    continue;
                };
                let mut coefficients = [0.0_f32; 64];
                coefficients[0] = self.mean as f32 * steps[0];
                let mut last = 0;
                ac.coefficients(bits, |place, value| {
                    last = place & 63;
                    coefficients[usize::from(ZIGZAG[last] & 63)] = value as f32 * steps[last];
                })?;
                let (x, y) = (column * blocks.0 + block_column, row * blocks.1 + block_row);
                let start = (y * self.width + x) * self.side;
                let out = self.pixels.get_mut(start..)?;
                match self.side {
                    8 => bases.eight.pixels(&coefficients, last, out, self.width)?,
                    4 => bases.four.pixels(&coefficients, last, out, self.width)?,
                    2 => bases.two.pixels(&coefficients, last, out, self.width)?,
                    _ => bases.one.pixels(&coefficients, last, out, self.width)?,
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
