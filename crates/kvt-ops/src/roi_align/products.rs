//! RoIAlign composed of Burn's operations: for regions of one image, a product with the weights of all their columns and one with
//! those of each region's rows. The gradient consists of the transposed products. Nothing is added in an order that may change.

use std::ops::Range;

use burn::backend::{Backend, TensorMetadata, tensor::FloatTensor};
use burn::tensor::{Shape, Slice, TensorData};

use super::{Bins, Plan};

/// The most regions of a product.
const REGIONS: usize = 128;
/// The most numbers between both products: 200 MiB in f32. It is enough for [`REGIONS`] of 7 x 7 bins on 256 maps of 200 rows.
const NUMBERS: usize = 50 << 20;

/// [`RoiAlignOps::roi_aligned`](super::RoiAlignOps::roi_aligned) of any regions.
pub(super) fn forward<B: Backend>(maps: &FloatTensor<B>, plan: &Plan) -> FloatTensor<B> {
    let [_, channels, height, width] = maps.shape().dims();
    let bins = plan.bins;
    let pooled = |regions: &[Bins]| {
        let count = regions.len();
        let image = regions[0].image;
        let map = part::<B>(maps, image..image + 1);
        let map = B::float_reshape(map, Shape::new([channels * height, width]));
        let [rows, columns] = weights::<B>(maps, regions, plan);
        // [regions, column of bins, channels, height]
        let x = B::float_matmul(columns, B::float_swap_dims(map, 0, 1));
        let x = B::float_reshape(x, Shape::new([count, bins * channels, height]));
        // [regions, column of bins, channels, row of bins]
        let x = B::float_matmul(x, B::float_swap_dims(rows, 1, 2));
        let x = B::float_reshape(x, Shape::new([count, bins, channels, bins]));
        B::float_permute(x, &[0, 2, 3, 1])
    };
    let parts: Vec<_> = plan.parts(channels).map(pooled).collect();
    if parts.is_empty() {
        let nothing = TensorData::new(Vec::<f32>::new(), [0, channels, bins, bins]);
        return B::float_from_data(nothing, &maps.device());
    }
    B::float_cat(parts, 0)
}

/// [`RoiAlignOps::roi_aligned_backward`](super::RoiAlignOps::roi_aligned_backward) of any regions.
pub(super) fn backward<B: Backend>(grad: &FloatTensor<B>, plan: &Plan) -> FloatTensor<B> {
    let [_, channels, _, _] = grad.shape().dims();
    let ([height, width], bins) = (plan.size, plan.bins);
    let shape = Shape::new([1, channels, height, width]);
    let mut of_images = vec![None::<FloatTensor<B>>; plan.batch];
    let mut start = 0;
    for regions in plan.parts(channels) {
        let count = regions.len();
        let x = part::<B>(grad, start..start + count);
        start += count;
        let [rows, columns] = weights::<B>(grad, regions, plan);
        // [regions, column of bins, channels, row of bins]
        let x = B::float_permute(x, &[0, 3, 1, 2]);
        let x = B::float_reshape(x, Shape::new([count, bins * channels, bins]));
        // [regions, column of bins, channels, height]
        let x = B::float_matmul(x, rows);
        let x = B::float_reshape(x, Shape::new([count * bins, channels * height]));
        let x = B::float_matmul(B::float_swap_dims(x, 0, 1), columns);
        let x = B::float_reshape(x, shape.clone());
        let of_image = &mut of_images[regions[0].image];
        *of_image = Some(match of_image.take() {
            Some(sum) => B::float_add(sum, x),
            None => x,
        });
    }
    let zeros = || B::float_zeros(shape.clone(), &grad.device(), grad.dtype().into());
    let parts = of_images.into_iter();
    let parts = parts.map(|of_image| of_image.unwrap_or_else(zeros));
    B::float_cat(parts.collect(), 0)
}

/// A range of the first of four dimensions.
fn part<B: Backend>(x: &FloatTensor<B>, range: Range<usize>) -> FloatTensor<B> {
    let [_, second, third, fourth] = x.shape().dims();
    let [second, third, fourth] = [second, third, fourth].map(|size| Slice::from(0..size));
    B::float_slice(x.clone(), &[Slice::from(range), second, third, fourth])
}

/// The weights of the rows `[regions, bins, height]` and of the columns `[regions * bins, width]`, on the device of `like`.
fn weights<B: Backend>(
    like: &FloatTensor<B>,
    regions: &[Bins],
    plan: &Plan,
) -> [FloatTensor<B>; 2] {
    let ([height, width], count) = (plan.size, regions.len());
    let upload = |axis: usize, size: usize, shape: Shape| {
        let mut matrix = vec![0.0f32; count * plan.bins * size];
        let bins = regions.iter().flat_map(|region| &region.axes[axis]);
        for (row, bin) in matrix.chunks_exact_mut(size).zip(bins) {
            row[bin.inputs()].copy_from_slice(&bin.weights);
        }
        B::float_from_data(TensorData::new(matrix, shape), &like.device())
    };
    [
        upload(0, height, Shape::new([count, plan.bins, height])),
        upload(1, width, Shape::new([count * plan.bins, width])),
    ]
}

impl Plan {
    /// The regions of each product: successive ones of one image.
    fn parts(&self, channels: usize) -> impl Iterator<Item = &[Bins]> {
        let [height, _] = self.size;
        let of_a_region = channels * height * self.bins;
        let most = (NUMBERS / of_a_region.max(1)).clamp(1, REGIONS);
        let of_images = self.regions.chunk_by(|a, b| a.image == b.image);
        of_images.flat_map(move |regions| regions.chunks(most))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use burn::backend::Flex;

    use super::super::{Region, RoiAlignOps};
    use super::*;
    use crate::cpu::buffer::{tensor, values_of};

    const SHAPE: [usize; 4] = [3, 2, 9, 11];

    /// More regions of one image than a product has, then changing images.
    fn plan() -> Plan {
        let region = |number: usize| {
            let [x, y] = [5, 7].map(|step| (number * step % 13) as f32 - 2.0);
            let image = if number < 150 { 0 } else { number % 3 / 2 * 2 };
            let corners = [x, y, x + (number % 9) as f32, y + 2.5];
            Region { image, corners }
        };
        let regions: Vec<_> = (0..160).map(region).collect();
        Plan::new(SHAPE, &regions, 3, 0.75)
    }

    fn numbers(shape: [usize; 4]) -> FloatTensor<Flex> {
        let count: usize = shape.iter().product();
        let numbers = (0..count).map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0);
        tensor(numbers.collect(), Shape::new(shape))
    }

    fn assert_same(found: &FloatTensor<Flex>, expected: &FloatTensor<Flex>) {
        assert_eq!(found.shape(), expected.shape());
        let [found, expected] = [found, expected].map(|x| x.to_contiguous());
        for (found, expected) in values_of(&found).iter().zip(values_of(&expected)) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    #[test]
    fn products_are_the_same_as_loops() {
        let plan = Arc::new(plan());
        let maps = numbers(SHAPE);
        let expected = Flex::roi_aligned(maps.clone(), plan.clone());
        assert_same(&forward::<Flex>(&maps, &plan), &expected);
        let grad = numbers([160, SHAPE[1], 3, 3]);
        let expected = Flex::roi_aligned_backward(grad.clone(), plan.clone());
        assert_same(&backward::<Flex>(&grad, &plan), &expected);
    }

    #[test]
    fn a_product_has_regions_of_one_image() {
        let plan = plan();
        let lengths: Vec<_> = plan.parts(2).map(<[Bins]>::len).collect();
        // 150, 151 and 152 are of the images 0, 0 and 2, and so on.
        assert_eq!(lengths, [128, 24, 1, 2, 1, 2, 1, 1]);
        // Two regions have more numbers than there may be.
        let channels = NUMBERS / (9 * 3);
        assert!(plan.parts(channels).all(|regions| regions.len() == 1));
    }
}
