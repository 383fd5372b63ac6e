//! Sums over the values of each channel: f32 within a plane, however large, or some rows, and f64 over planes and groups of rows.
//! The order depends on the shape alone.

use burn::tensor::Shape;
use rayon::prelude::*;

use super::BLOCK;
use crate::cpu::wide::wide;

/// Values that are summed side by side.
const LANES: usize = 32;
/// Rows that are summed in f32.
const ROWS: usize = 64;
/// Parts of the sums over rows.
const PARTS: usize = 16;

/// Values `[outer, channels, inner]`: planes of `inner` values, or, if that is 1, rows of `channels` values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub outer: usize,
    pub channels: usize,
    pub inner: usize,
}

impl Layout {
    pub(super) fn of(shape: &Shape) -> Self {
        let [outer, channels, inner] = shape.dims();
        Self {
            outer,
            channels,
            inner,
        }
    }

    /// Values of a channel.
    pub(super) fn samples(self) -> usize {
        self.outer * self.inner
    }

    /// Values of a row or plane, and their number.
    fn units(self) -> (usize, usize) {
        if self.inner == 1 {
            (self.channels, self.outer)
        } else {
            (self.inner, self.outer * self.channels)
        }
    }

    /// Values of a block of whole rows or planes.
    pub(super) fn block(self) -> usize {
        let (unit, _) = self.units();
        (BLOCK / unit).max(1) * unit
    }

    /// The number of the first row or plane of each block.
    pub(super) fn blocks(self) -> impl IndexedParallelIterator<Item = usize> {
        let (unit, count) = self.units();
        let each = self.block() / unit;
        (0..count.div_ceil(each))
            .into_par_iter()
            .map(move |block| block * each)
    }

    /// The first value of row or plane number `first`.
    pub(super) fn start(self, first: usize) -> usize {
        first * self.units().0
    }

    /// The planes of a channel.
    fn planes(self, values: &[f32], channel: usize) -> impl Iterator<Item = &[f32]> {
        (0..self.outer).map(move |i| {
            let start = (i * self.channels + channel) * self.inner;
            &values[start..start + self.inner]
        })
    }

    /// Values of each of the parts into which rows are cut.
    fn part(self) -> usize {
        self.outer.div_ceil(PARTS) * self.channels
    }
}

/// The mean and the biased variance of each channel.
pub(super) fn moments(x: &[f32], layout: Layout) -> (Vec<f32>, Vec<f32>) {
    if layout.inner > 1 {
        let of_channel = |channel| {
            let mut all = Moments::default();
            for plane in layout.planes(x, channel) {
                all.merge(moments_of(plane));
            }
            all.mean_and_variance()
        };
        return (0..layout.channels).into_par_iter().map(of_channel).unzip();
    }
    let parts: Vec<Vec<Moments>> = x
        .par_chunks(layout.part())
        .map(|rows| {
            let mut all = vec![Moments::default(); layout.channels];
            for rows in rows.chunks(ROWS * layout.channels) {
                merge_rows(&mut all, rows);
            }
            all
        })
        .collect();
    let mut all = vec![Moments::default(); layout.channels];
    for part in parts {
        for (all, part) in all.iter_mut().zip(part) {
            all.merge(part);
        }
    }
    all.into_iter().map(Moments::mean_and_variance).unzip()
}

/// The sums of `grad` and of `grad (x - mean)` over each channel.
pub(super) fn centred_products(
    x: &[f32],
    mean: &[f32],
    grad: &[f32],
    layout: Layout,
) -> (Vec<f32>, Vec<f32>) {
    if layout.inner > 1 {
        let of_channel = |channel| {
            let mean: f32 = mean[channel];
            let (mut sum, mut product) = (0.0, 0.0);
            let planes = layout.planes(x, channel).zip(layout.planes(grad, channel));
            for (x, grad) in planes {
                sum += sum_of(grad);
                product += product_of(x, mean, grad);
            }
            (sum as f32, product as f32)
        };
        return (0..layout.channels).into_par_iter().map(of_channel).unzip();
    }
    let parts: Vec<[Vec<f64>; 2]> = x
        .par_chunks(layout.part())
        .zip(grad.par_chunks(layout.part()))
        .map(|(x, grad)| {
            let mut all = [0, 1].map(|_| vec![0.0; layout.channels]);
            let length = ROWS * layout.channels;
            for (x, grad) in x.chunks(length).zip(grad.chunks(length)) {
                add_rows(&mut all, x, mean, grad);
            }
            all
        })
        .collect();
    let [sums, products] = [0, 1].map(|which| {
        let of = |channel: usize| parts.iter().map(|part| part[which][channel]).sum::<f64>() as f32;
        (0..layout.channels).map(of).collect()
    });
    (sums, products)
}

/// The sum over each channel of planes.
pub(crate) fn channel_sums(x: &[f32], layout: Layout) -> Vec<f32> {
    let of_channel = |channel| layout.planes(x, channel).map(sum_of).sum::<f64>() as f32;
    (0..layout.channels)
        .into_par_iter()
        .map(of_channel)
        .collect()
}

/// A number of values, their mean, and the sum of the squares of their differences from it.
#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn mean_and_variance(self) -> (f32, f32) {
        (self.mean as f32, (self.squares / self.count) as f32)
    }

    /// Adds those of further values (Chan et al., 1979): no large squares are subtracted from each other.
    #[inline(always)]
    fn merge(&mut self, other: Self) {
        let count = self.count + other.count;
        let difference = other.mean - self.mean;
        self.mean += difference * other.count / count;
        self.squares += other.squares + difference * difference * self.count * other.count / count;
        self.count = count;
    }
}

/// The sum of a term over pairs of values, in [`LANES`] sums of f32.
#[inline(always)]
fn total(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += term(*a, *b);
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane += term(*a, *b);
    }
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

wide! {
    /// The moments of a plane, in two passes: most planes stay in the cache for the second.
    fn moments_of<'a>(values: &'a [f32]) -> Moments {
        let count = values.len() as f64;
        let mean = total(values, values, |x, _| x) / count;
        let centre = mean as f32;
        let squares = total(values, values, |x, _| (x - centre) * (x - centre));
        Moments {
            count,
            mean,
            squares,
        }
    }

    fn sum_of<'a>(values: &'a [f32]) -> f64 {
        total(values, values, |x, _| x)
    }

    /// The sum of `grad (x - mean)`.
    fn product_of<'a>(x: &'a [f32], mean: f32, grad: &'a [f32]) -> f64 {
        total(x, grad, |x, grad| grad * (x - mean))
    }

    /// Adds the moments of at most [`ROWS`] rows.
    fn merge_rows<'a>(all: &'a mut [Moments], rows: &'a [f32]) {
        let channels = all.len();
        let count = (rows.len() / channels) as f64;
        let (mut means, mut squares) = (vec![0.0f32; channels], vec![0.0f32; channels]);
        for row in rows.chunks_exact(channels) {
            for (mean, x) in means.iter_mut().zip(row) {
                *mean += x;
            }
        }
        let share = 1.0 / count as f32;
        for mean in &mut means {
            *mean *= share;
        }
        for row in rows.chunks_exact(channels) {
            for ((squares, mean), x) in squares.iter_mut().zip(&means).zip(row) {
                *squares += (x - mean) * (x - mean);
            }
        }
        for ((all, mean), squares) in all.iter_mut().zip(means).zip(squares) {
            let [mean, squares] = [mean, squares].map(f64::from);
            all.merge(Moments {
                count,
                mean,
                squares,
            });
        }
    }

    /// Adds the sums of `grad` and of `grad (x - mean)` over at most [`ROWS`] rows.
    fn add_rows<'a>(all: &'a mut [Vec<f64>; 2], x: &'a [f32], mean: &'a [f32], grad: &'a [f32]) {
        let channels = mean.len();
        let [mut sum, mut product] = [0, 1].map(|_| vec![0.0f32; channels]);
        for (x, grad) in x.chunks_exact(channels).zip(grad.chunks_exact(channels)) {
            let of_channels = sum.iter_mut().zip(product.iter_mut()).zip(mean);
            for (((sum, product), mean), (x, grad)) in of_channels.zip(x.iter().zip(grad)) {
                *sum += grad;
                *product += grad * (x - mean);
            }
        }
        for (totals, parts) in all.iter_mut().zip([sum, product]) {
            for (total, part) in totals.iter_mut().zip(parts) {
                *total += f64::from(part);
            }
        }
    }
}
