//! Decodes the part of a JPEG that a transform uses, at 1/2, 1/4 or 1/8 of its size if that is enough.
//!
//! The coded data is one stream, which must be read up to the last row of the part. The transform, the colour conversion
//! and the rest of the stream are saved. Supports sequential JPEGs with three colours in one scan, as from cameras and
//! in ImageNet; all others are left to the decoder of whole images.

mod bits;
mod header;
mod transform;

use std::panic::catch_unwind;

use image::RgbImage;
use image::metadata::Orientation;
use pulp::{Arch, Simd, WithSimd};

use self::bits::Bits;
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
    let all = |(width, height)| {
        Some(Look {
            crop: Crop {
                left: 0,
                top: 0,
                width,
                height,
            },
            size: (width, height),
        })
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
    if u64::from(header.width) * u64::from(header.height) > limits.max_pixels {
        return None;
    }
    let look = look((header.width, header.height))?;
    let (crop, wanted) = (look.crop, look.size);
    let is_enough = |by: &u32| crop.width / by >= wanted.0 && crop.height / by >= wanted.1;
    let by = [8, 4, 2].into_iter().find(is_enough).unwrap_or(1);
    let blocks = Blocks { header, crop, by };
    // The loops are vectorised for the current processor.
    let blocks = std::panic::AssertUnwindSafe(blocks);
    let found = catch_unwind(|| Arch::new().dispatch(blocks.0)).ok()??;
    found.part(crop, by)
}

/// The blocks that overlap a crop, at 1 / `by` of their size.
struct Blocks<'a> {
    header: Header<'a>,
    crop: Crop,
    by: u32,
}

/// Pixels, and the column and row of the first one in the reduced image.
struct Found {
    image: RgbImage,
    left: u32,
    top: u32,
}

impl Found {
    fn part(self, crop: Crop, by: u32) -> Option<Part> {
        let by = f64::from(by);
        let along = |at: u32, length: u32, origin: u32, side: u32| {
            let offset = f64::from(at) / by - f64::from(origin);
            // The last pixel can represent fewer pixels of the image than the others, so the part is limited to what was decoded.
            (
                offset,
                (f64::from(length) / by).min(f64::from(side) - offset),
            )
        };
        let (width, height) = self.image.dimensions();
        Some(Part {
            across: along(crop.left, crop.width, self.left, width),
            down: along(crop.top, crop.height, self.top, height),
            image: self.image,
        })
    }
}

impl WithSimd for Blocks<'_> {
    type Output = Option<Found>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<Found> {
        self.decode()
    }
}

/// A colour plane of the part, in rows.
struct Plane {
    component: Component,
    /// Side of a block in pixels.
    side: usize,
    width: usize,
    pixels: Vec<u8>,
    mean: i32,
}

struct Bases {
    eight: Basis<8>,
    four: Basis<4>,
    two: Basis<2>,
    one: Basis<1>,
}

impl Blocks<'_> {
    #[inline(always)]
    fn decode(&self) -> Option<Found> {
        let (header, window, by) = (&self.header, self.crop, self.by);
        let most = |of: fn(&Component) -> usize| header.components.iter().map(of).max();
        let most = (most(|c| c.blocks.0)?, most(|c| c.blocks.1)?);
        let (unit_width, unit_height) = (8 * most.0, 8 * most.1);
        let units = (
            (header.width as usize).div_ceil(unit_width),
            (header.height as usize).div_ceil(unit_height),
        );
        let first = (
            window.left as usize / unit_width,
            window.top as usize / unit_height,
        );
        let end = (
            ((window.left + window.width) as usize)
                .div_ceil(unit_width)
                .min(units.0),
            ((window.top + window.height) as usize)
                .div_ceil(unit_height)
                .min(units.1),
        );
        let count = (end.0.checked_sub(first.0)?, end.1.checked_sub(first.1)?);
        let side = 8 / by as usize;
        let mut planes = header.components.map(|component| {
            // A colour plane with fewer blocks is reduced less.
            let ratio = (most.0 / component.blocks.0, most.1 / component.blocks.1);
            let side = match ratio {
                (2, 2) if side <= 4 => 2 * side,
                _ => side,
            };
            let width = count.0 * component.blocks.0 * side;
            Plane {
                component,
                side,
                width,
                pixels: vec![0; width * count.1 * component.blocks.1 * side],
                mean: 0,
            }
        });
        let bases = Bases {
            eight: Basis::new(),
            four: Basis::new(),
            two: Basis::new(),
            one: Basis::new(),
        };
        let mut bits = Bits::new(header.data);
        let mut until_restart = header.restart;
        for row in 0..end.1 {
            for column in 0..units.0 {
                if header.restart > 0 {
                    if until_restart == 0 {
                        bits.restart()?;
                        planes.iter_mut().for_each(|plane| plane.mean = 0);
                        until_restart = header.restart;
                    }
                    until_restart -= 1;
                }
                let inside = row >= first.1 && (first.0..end.0).contains(&column);
                let at = inside.then(|| (column - first.0, row - first.1));
                for plane in &mut planes {
                    plane.unit(header, &mut bits, &bases, at)?;
                }
            }
            if bits.overrun() {
                return None;
            }
        }
        let (left, top) = (first.0 * unit_width, first.1 * unit_height);
        let by = by as usize;
        let whole = (
            (header.width as usize).div_ceil(by),
            (header.height as usize).div_ceil(by),
        );
        let (left, top) = (left / by, top / by);
        let width = (count.0 * unit_width / by).min(whole.0 - left);
        let height = (count.1 * unit_height / by).min(whole.1 - top);
        let repeats = header.width <= u32::from(jpeg::NARROW);
        let rgb = colours(&planes, most, side, repeats, width, height);
        Some(Found {
            image: RgbImage::from_raw(width as u32, height as u32, rgb)?,
            left: left as u32,
            top: top as u32,
        })
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
        let Component {
            blocks,
            table,
            dc,
            ac,
            ..
        } = self.component;
        let steps = header.tables.get(table)?.as_ref()?;
        let dc = header.dc.get(dc)?.as_ref()?;
        let ac = header.ac.get(ac)?.as_ref()?;
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

/// Converts three planes to pixels; planes with fewer blocks are enlarged with the weights 3 to 1 of the two nearest
/// pixels, or with `repeats`, if they have half the width, by repetition.
#[inline(always)]
fn colours(
    planes: &[Plane; 3],
    most: (usize, usize),
    side: usize,
    repeats: bool,
    width: usize,
    height: usize,
) -> Vec<u8> {
    let mut rgb = vec![0; 3 * width * height];
    let padded = planes[0].width.max(width) + 2;
    let mut rows: [Vec<u8>; 3] = [const { Vec::new() }; 3];
    for row in &mut rows {
        row.resize(padded, 0);
    }
    let mut mixed = vec![0_u16; padded];
    for (y, out) in rgb.chunks_exact_mut(3 * width).enumerate() {
        for (plane, row) in planes.iter().zip(&mut rows) {
            let full = (
                plane.component.blocks.0 * plane.side == most.0 * side,
                plane.component.blocks.1 * plane.side == most.1 * side,
            );
            let line = |y: usize| {
                let last = plane.pixels.len() / plane.width - 1;
                let y = y.min(last);
                &plane.pixels[y * plane.width..(y + 1) * plane.width]
            };
            if full == (true, true) {
                row[..width].copy_from_slice(&line(y)[..width]);
                continue;
            }
            if repeats && !full.0 {
                let near = line(if full.1 { y } else { y / 2 });
                for (x, pixel) in row[..width].iter_mut().enumerate() {
                    *pixel = near[x / 2];
                }
                continue;
            }
            let mixed = &mut mixed[..plane.width];
            if full.1 {
                for (mixed, near) in mixed.iter_mut().zip(line(y)) {
                    *mixed = 4 * u16::from(*near);
                }
            } else {
                let near = line(y / 2);
                let far = line(if y % 2 == 0 {
                    (y / 2).saturating_sub(1)
                } else {
                    y / 2 + 1
                });
                for ((mixed, near), far) in mixed.iter_mut().zip(near).zip(far) {
                    *mixed = 3 * u16::from(*near) + u16::from(*far);
                }
            }
            if full.0 {
                for (row, mixed) in row.iter_mut().zip(mixed.iter()) {
                    *row = ((mixed + 2) / 4) as u8;
                }
            } else {
                let last = mixed.len() - 1;
                for (x, pair) in row.chunks_exact_mut(2).take(mixed.len()).enumerate() {
                    let near = 3 * mixed[x];
                    pair[0] = ((near + mixed[x.saturating_sub(1)] + 8) / 16) as u8;
                    pair[1] = ((near + mixed[(x + 1).min(last)] + 7) / 16) as u8;
                }
            }
        }
        let [luma, cb, cr] = &rows;
        let (out, rest) = out.as_chunks_mut::<48>();
        let (luma, luma_rest) = luma[..width].as_chunks::<16>();
        let (cb, cb_rest) = cb[..width].as_chunks::<16>();
        let (cr, cr_rest) = cr[..width].as_chunks::<16>();
        for (out, ((y, cb), cr)) in out.iter_mut().zip(luma.iter().zip(cb).zip(cr)) {
            *out = pixels(y, cb, cr);
        }
        // The rest of the row, padded.
        let fill = |rest: &[u8]| {
            let mut filled = [0; 16];
            filled[..rest.len()].copy_from_slice(rest);
            filled
        };
        let last = pixels(&fill(luma_rest), &fill(cb_rest), &fill(cr_rest));
        rest.copy_from_slice(&last[..rest.len()]);
    }
    rgb
}

/// Sixteen pixels.
#[inline(always)]
fn pixels(y: &[u8; 16], cb: &[u8; 16], cr: &[u8; 16]) -> [u8; 48] {
    let mut channels = [[0_u8; 16]; 3];
    let [red, green, blue] = &mut channels;
    for x in 0..16 {
        [red[x], green[x], blue[x]] = rgb(y[x], cb[x], cr[x]);
    }
    let mut pixels = [0; 48];
    for x in 0..16 {
        pixels[3 * x] = red[x];
        pixels[3 * x + 1] = green[x];
        pixels[3 * x + 2] = blue[x];
    }
    pixels
}

/// The colour of a luminance and two chrominance values (JFIF).
#[inline(always)]
pub(super) fn rgb(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    // 16 fractional bits, rounded.
    let y = (i32::from(y) << 16) + (1 << 15);
    let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
    let level = |value: i32| (value >> 16).clamp(0, 255) as u8;
    [
        level(y + 91_881 * cr),
        level(y - 22_554 * cb - 46_802 * cr),
        level(y + 116_130 * cb),
    ]
}

#[cfg(test)]
mod tests;
