//! Run-length encoding of masks, as pycocotools has it.
//!
//! Pixels are counted column by column, from the top of the left one. Runs of pixels outside and inside of the mask take turns; the
//! first is outside, and may be empty.

mod union;

use serde::{Deserialize, Serialize};

use super::Fault;

/// Bits of a number in one character.
const GROUP: u32 = 5;
/// More characters of this number follow.
const MORE: u8 = 1 << GROUP;
/// The character of a group of zeros.
const ZERO: u8 = 48;
/// A difference of two runs of at most 32 bits, with its sign, has no more groups.
const GROUPS: u32 = 7;

/// A mask as runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rle {
    pub(super) size: (u32, u32),
    pub(super) counts: Vec<u32>,
}

impl Rle {
    /// Runs of an image of `(height, width)` pixels.
    ///
    /// # Errors
    /// If they do not count as many pixels as the image has, or these are 2^32 or more.
    pub fn new(size: (u32, u32), counts: Vec<u32>) -> Result<Self, Fault> {
        let (height, width) = size;
        let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        if height.checked_mul(width).map(u64::from) != Some(total) {
            return Err(Fault::Total {
                total,
                height,
                width,
            });
        }
        Ok(Self { size, counts })
    }

    /// Encodes the mask of an image of `(height, width)` pixels, which are fewer than 2^32. `inside` gets row and column.
    ///
    /// # Panics
    /// If there are more pixels, in a build that checks for overflow.
    pub fn encode(size: (u32, u32), mut inside: impl FnMut(u32, u32) -> bool) -> Self {
        let mut counts = Vec::new();
        let (mut run, mut is_inside) = (0, false);
        for column in 0..size.1 {
            for row in 0..size.0 {
                if inside(row, column) != is_inside {
                    counts.push(run);
                    (run, is_inside) = (0, !is_inside);
                }
                run += 1;
            }
        }
        counts.push(run);
        Self { size, counts }
    }

    /// Reads the compressed form.
    ///
    /// # Errors
    /// If the text is not one that [`Rle::to_text`] could have written for an image of this size.
    pub fn from_text(size: (u32, u32), text: &str) -> Result<Self, Fault> {
        // No more runs than pixels and an empty one, and no longer ones, so that no text takes the machine's memory.
        let (most, mut total) = (u64::from(size.0.saturating_mul(size.1)), 0);
        let mut counts: Vec<u32> = Vec::new();
        let (mut number, mut groups) = (0_i64, 0);
        for (position, byte) in text.bytes().enumerate() {
            let group = byte.wrapping_sub(ZERO);
            if group >= 2 * MORE {
                return Err(Fault::Character(position));
            }
            let refuse = Fault::Number(counts.len());
            number |= i64::from(group & (MORE - 1)) << (GROUP * groups);
            groups += 1;
            if group & MORE != 0 {
                if groups == GROUPS {
                    return Err(refuse);
                }
                continue;
            }
            if group & (MORE >> 1) != 0 {
                number -= 1 << (GROUP * groups);
            }
            number += before(&counts);
            let Ok(count) = u32::try_from(number) else {
                return Err(refuse);
            };
            total += u64::from(count);
            if total > most || counts.len() as u64 > most {
                return Err(refuse);
            }
            counts.push(count);
            (number, groups) = (0, 0);
        }
        if groups > 0 {
            return Err(Fault::Number(counts.len()));
        }
        Self::new(size, counts)
    }

    /// The compressed form: each run from the fourth on as the difference from the run two before it, in groups of five bits,
    /// the lowest first.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (position, &count) in self.counts.iter().enumerate() {
            let written = self.counts.get(..position).unwrap_or_default();
            let mut number = i64::from(count) - before(written);
            loop {
                let group = (number & i64::from(MORE - 1)) as u8;
                number >>= GROUP;
                // The highest bit of the last group is the sign.
                let last = if group & (MORE >> 1) == 0 { 0 } else { -1 };
                let more = if number == last { 0 } else { MORE };
                text.push(char::from((group | more) + ZERO));
                if more == 0 {
                    break;
                }
            }
        }
        text
    }

    /// The mask row by row, `height * width` pixels.
    pub fn decode(&self) -> Vec<bool> {
        let (height, width) = (self.size.0 as usize, self.size.1 as usize);
        let mut mask = vec![false; height * width];
        for pixel in self.spans().flat_map(|(start, count)| start..start + count) {
            let (row, column) = (pixel as usize % height, pixel as usize / height);
            if let Some(inside) = mask.get_mut(row * width + column) {
                *inside = true;
            }
        }
        mask
    }

    /// The height and width of the image.
    pub fn size(&self) -> (u32, u32) {
        self.size
    }

    /// The runs: outside, inside, outside, ...
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// The number of pixels inside.
    pub fn area(&self) -> u32 {
        self.spans().map(|(_, count)| count).sum()
    }

    /// The smallest box around the pixels inside, `[x, y, width, height]`; zeros if there are none.
    pub fn bounding_box(&self) -> [u32; 4] {
        let height = self.size.0;
        let mut ends: Option<[u32; 4]> = None;
        for (start, count) in self.spans() {
            let last = start + count - 1;
            let (left, right) = (start / height, last / height);
            let (top, bottom) = if left == right {
                (start % height, last % height)
            } else {
                (0, height - 1)
            };
            let [x0, y0, x1, y1] = ends.unwrap_or([left, top, right, bottom]);
            ends = Some([x0.min(left), y0.min(top), x1.max(right), y1.max(bottom)]);
        }
        ends.map_or([0; 4], |[x0, y0, x1, y1]| {
            [x0, y0, x1 - x0 + 1, y1 - y0 + 1]
        })
    }

    /// Start and length of each run inside that is not empty.
    pub(super) fn spans(&self) -> impl Iterator<Item = (u32, u32)> {
        let runs = self.counts.iter().scan(0, |start, &count| {
            let run = (*start, count);
            *start += count;
            Some(run)
        });
        runs.skip(1).step_by(2).filter(|&(_, count)| count > 0)
    }
}

/// The run that the next one is stored relative to; 0 for the first three.
fn before(counts: &[u32]) -> i64 {
    match counts {
        [_, .., run, _] => i64::from(*run),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
