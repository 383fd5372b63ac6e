//! The pairs of a block: each row with each key that it keeps.

use std::ops::Range;

use crate::attention::fused::blocks::bits::BITS;
use crate::cpu::buffer::grown;

/// Pairs in the order of their rows, then of their keys.
#[derive(Default)]
pub(super) struct Pairs {
    /// Where the pairs of each row end.
    ends: Vec<u32>,
    /// The next pair of each row, and one number more.
    next: Vec<u32>,
    /// For each key of a word, the rows that keep it, and the numbers of their pairs with it.
    of_keys: Vec<[u32; 2]>,
}

impl Pairs {
    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    /// Adds a row that keeps `keys` keys.
    pub(super) fn add_row(&mut self, keys: usize) {
        self.ends.push((self.len() + keys) as u32);
    }

    pub(super) fn rows(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// The numbers of a row's pairs.
    pub(super) fn of_row(&self, row: usize) -> Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[row] as usize
    }

    /// Calls `visit` with each key that a row keeps, in ascending order, and for each row that keeps it the row and the number of their pair.
    /// The words of a row's set of keys follow each other, those of the rows start `stride` apart.
    #[inline(always)]
    pub(super) fn for_each_key(
        &mut self,
        words: usize,
        (sets, stride): (&[u32], usize),
        mut visit: impl FnMut(usize, &[[u32; 2]]),
    ) {
        let height = self.rows();
        self.next.clear();
        self.next.push(0);
        self.next.extend_from_slice(&self.ends);
        let next = &mut self.next[..height];
        let of_keys = grown(&mut self.of_keys, BITS * height);
        for word in 0..words {
            let mut counts = [0; BITS];
            let sets = sets[word..].iter().step_by(stride);
            for ((row, next), &set) in (0_u32..).zip(&mut *next).zip(sets) {
                let mut left = set;
                while left != 0 {
                    let key = left.trailing_zeros() as usize;
                    left &= left - 1;
                    of_keys[key * height + counts[key]] = [row, *next];
                    counts[key] += 1;
                    *next += 1;
                }
            }
            for (key, count) in counts.into_iter().enumerate() {
                if count > 0 {
                    visit(word * BITS + key, &of_keys[key * height..][..count]);
                }
            }
        }
    }
}
