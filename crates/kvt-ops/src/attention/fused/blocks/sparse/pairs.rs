//! The pairs of a block: each key with each row that keeps it.

use std::ops::Range;

use crate::attention::fused::blocks::bits::{self, BITS};
use crate::cpu::buffer::grown;

/// Pairs in the order of their keys, then of their rows.
#[derive(Default)]
pub(super) struct Pairs {
    /// The row of each pair, and what other blocks left behind them.
    rows: Vec<u32>,
    /// The keys that a row keeps, and where the pairs of each end.
    keys: Vec<(usize, usize)>,
    /// The sets of keys of some rows, as sets of rows: a square of bits for each `BITS` rows.
    squares: Vec<[u32; BITS]>,
}

impl Pairs {
    /// Those of so many rows. The words of a row's set of keys follow each other, those of the rows start `stride` apart.
    #[inline(always)]
    pub(super) fn fill(&mut self, height: usize, words: usize, (sets, stride): (&[u32], usize)) {
        let count = (0..height).map(|row| bits::count(&sets[row * stride..][..words]));
        let rows = grown(&mut self.rows, count.sum());
        self.keys.clear();
        let squares = grown(&mut self.squares, height.div_ceil(BITS));
        let mut end = 0;
        for word in 0..words {
            for (square, first) in squares.iter_mut().zip((0..).step_by(BITS)) {
                *square = [0; BITS];
                for (line, row) in square.iter_mut().zip(first..height) {
                    *line = sets[row * stride + word];
                }
                transpose(square);
            }
            for key in 0..BITS {
                let start = end;
                for (square, first) in squares.iter().zip((0..).step_by(BITS)) {
                    let mut left = square[key];
                    while left != 0 {
                        rows[end] = first + left.trailing_zeros();
                        end += 1;
                        left &= left - 1;
                    }
                }
                if end > start {
                    self.keys.push((word * BITS + key, end));
                }
            }
        }
    }

    /// The row of each pair.
    pub(super) fn rows(&self) -> &[u32] {
        let len = self.keys.last().map_or(0, |(_, end)| *end);
        &self.rows[..len]
    }

    /// The keys that a row keeps, in ascending order, and the numbers of their pairs.
    pub(super) fn keys(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let starts = std::iter::once(0).chain(self.keys.iter().map(|(_, end)| *end));
        let keys = self.keys.iter().zip(starts);
        keys.map(|((key, end), start)| (*key, start..*end))
    }
}

/// Exchanges rows and columns of a square of bits: halves of halves, down to single bits.
#[inline(always)]
fn transpose(square: &mut [u32; BITS]) {
    let (mut distance, mut mask) = (BITS / 2, u32::MAX >> (BITS / 2));
    while distance > 0 {
        for pairs in square.chunks_exact_mut(2 * distance) {
            let (upper, lower) = pairs.split_at_mut(distance);
            for (upper, lower) in upper.iter_mut().zip(lower) {
                let exchanged = (*upper >> distance ^ *lower) & mask;
                *upper ^= exchanged << distance;
                *lower ^= exchanged;
            }
        }
        distance /= 2;
        mask ^= mask << distance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_square_is_exchanged() {
        for place in 0..BITS * BITS {
            let (row, column) = (place / BITS, place % BITS);
            let mut square = [0; BITS];
            square[row] = 1 << column;
            transpose(&mut square);
            let mut expected = [0; BITS];
            expected[column] = 1 << row;
            assert_eq!(square, expected, "{row} {column}");
        }
    }

    /// More rows than a word has bits, words between the sets that are not theirs, and keys that nobody keeps.
    #[test]
    fn pairs_come_in_the_order_of_their_keys() {
        let (height, words, stride) = (40, 2, 3);
        let keeps = |row: usize, key: usize| key != 33 && (row * 7 + key * 5) % 11 < 2;
        let mut sets = vec![u32::MAX; height * stride];
        for row in 0..height {
            for word in 0..words {
                let keys = (0..BITS).filter(|bit| keeps(row, word * BITS + bit));
                sets[row * stride + word] = keys.map(|bit| 1 << bit).sum();
            }
        }
        let mut pairs = Pairs::default();
        // What a larger block leaves behind is not read.
        pairs.fill(height, stride, (&vec![u32::MAX; height * stride], stride));
        pairs.fill(height, words, (&sets, stride));
        let mut actual = Vec::new();
        for (key, range) in pairs.keys() {
            let rows = pairs.rows()[range].iter();
            actual.extend(rows.map(|&row| (key, row as usize)));
        }
        let all = (0..words * BITS).flat_map(|key| (0..height).map(move |row| (key, row)));
        let expected: Vec<_> = all.filter(|&(key, row)| keeps(row, key)).collect();
        assert_eq!(actual, expected);
    }
}
