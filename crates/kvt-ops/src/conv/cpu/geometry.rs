//! The division of a convolution into matrix products, and the matrices of each.

use std::ops::Range;

use burn::tensor::Shape;

use crate::conv::Settings;
use crate::cpu::buffer::grown;
use crate::cpu::gemm::Matrix;
use crate::cpu::windows::Windows;

/// Values of the columns of a product, chosen so that they stay in the cache.
const COLUMN_VALUES: usize = 1 << 17;
/// Minimum number of columns in a product, if there are as many: each product reads the weight again.
const COLUMNS: usize = 256;

/// The sizes of a convolution, and its division into products, which depends only on the shapes.
pub(super) struct Geometry {
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Input channels per group.
    pub(super) inputs: usize,
    /// Output channels per group.
    pub(super) outputs: usize,
    pub(super) windows: Windows,
    /// Images per block, which one thread computes: several if they are small.
    pub(super) images: usize,
    /// Rows of positions per product: all if a block has several images.
    pub(super) rows: usize,
}

/// Rows of positions for a group of channels in some images: the columns of a product.
#[derive(Clone)]
pub(super) struct Strip {
    pub(super) images: Range<usize>,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
}

/// Buffers that are reused for many products.
#[derive(Default)]
pub(super) struct Scratch {
    /// Windows as columns, or their gradient.
    pub(super) columns: Vec<f32>,
    /// Outputs, or their gradient, of several images.
    pub(super) outputs: Vec<f32>,
}

impl Geometry {
    pub(super) fn new(x: &Shape, weight: &Shape, settings: Settings) -> Self {
        let [batch, _, height, width] = x.dims();
        let [outputs, inputs, _, _] = weight.dims();
        let windows = settings.window.windows([height, width]);
        let positions = windows.positions();
        // At least two blocks, of equal size as far as possible.
        let images = (COLUMNS / positions).clamp(1, batch.div_ceil(2).max(1));
        let images = batch.div_ceil(batch.div_ceil(images).max(1)).max(1);
        let mut geometry = Self {
            batch,
            groups: settings.groups,
            inputs,
            outputs: outputs / settings.groups,
            windows,
            images,
            rows: windows.rows,
        };
        if images == 1 && !geometry.single_pixels() {
            let columns = (COLUMN_VALUES / geometry.lines()).max(COLUMNS);
            let bands = positions.div_ceil(columns).min(windows.rows);
            geometry.rows = windows.rows.div_ceil(bands);
        }
        geometry
    }

    pub(super) fn output_shape(&self) -> Shape {
        let [rows, columns] = [self.windows.rows, self.windows.columns];
        Shape::new([self.batch, self.groups * self.outputs, rows, columns])
    }

    /// Whether the columns of an image are just its pixels.
    pub(super) fn single_pixels(&self) -> bool {
        self.windows.area() == 1 && self.windows.stride == 1 && self.windows.padding == 0
    }

    /// Inputs per output value: the rows of the column matrix.
    pub(super) fn lines(&self) -> usize {
        self.inputs * self.windows.area()
    }

    /// Input values per image, over all groups.
    pub(super) fn input(&self) -> usize {
        self.groups * self.inputs * self.windows.pixels()
    }

    /// Output values per image, over all groups.
    pub(super) fn output(&self) -> usize {
        self.groups * self.outputs * self.windows.positions()
    }

    pub(super) fn blocks(&self) -> usize {
        self.batch.div_ceil(self.images)
    }

    /// The images of a block.
    pub(super) fn block(&self, number: usize) -> Range<usize> {
        let first = number * self.images;
        first..(first + self.images).min(self.batch)
    }

    /// The products of all groups in a block.
    pub(super) fn strips(&self, block: usize) -> impl Iterator<Item = Strip> {
        (0..self.groups).flat_map(move |group| self.strips_of(block, group))
    }

    /// The products of a group in a block.
    pub(super) fn strips_of(&self, block: usize, group: usize) -> impl Iterator<Item = Strip> {
        let (images, step, end) = (self.block(block), self.rows, self.windows.rows);
        (0..end).step_by(step).map(move |row| Strip {
            images: images.clone(),
            group,
            rows: row..(row + step).min(end),
        })
    }

    /// The weight of a group: `[outputs, lines]`.
    pub(super) fn weight<'a>(&self, weight: &'a [f32], group: usize) -> Matrix<'a> {
        let (outputs, lines) = (self.outputs, self.lines());
        Matrix::new(&weight[group * outputs * lines..], [outputs, lines], lines)
    }

    /// The offset of a group of `channels` channels of `size` values in the images.
    pub(super) fn group_start(
        &self,
        image: usize,
        group: usize,
        channels: usize,
        size: usize,
    ) -> usize {
        (image * self.groups + group) * channels * size
    }

    /// The windows of a strip: `[lines, columns]`, image after image.
    pub(super) fn columns<'a>(
        &self,
        buffer: &'a mut Vec<f32>,
        images: &'a [f32],
        strip: &Strip,
    ) -> Matrix<'a> {
        let (pixels, area) = (self.windows.pixels(), self.windows.area());
        let Strip {
            images: range,
            group,
            rows,
        } = strip;
        if self.single_pixels() && range.len() == 1 {
            let start = self.group_start(range.start, *group, self.inputs, pixels);
            return Matrix::new(&images[start..], [self.inputs, pixels], pixels);
        }
        let each = rows.len() * self.windows.columns;
        let count = range.len() * each;
        let columns = grown(buffer, self.lines() * count);
        for (number, image) in range.clone().enumerate() {
            let start = self.group_start(image, *group, self.inputs, pixels);
            let channels = images[start..start + self.inputs * pixels].chunks_exact(pixels);
            for (channel, image) in channels.enumerate() {
                let out = &mut columns[channel * area * count + number * each..];
                self.windows.unfold(rows, image, out, count);
            }
        }
        Matrix::new(columns, [self.lines(), count], count)
    }

    /// The gradient of a strip's outputs: `[outputs, columns]`, image after image.
    pub(super) fn gradient<'a>(
        &self,
        buffer: &'a mut Vec<f32>,
        grads: &'a [f32],
        strip: &Strip,
    ) -> Matrix<'a> {
        let positions = self.windows.positions();
        let start = |image| self.group_start(image, strip.group, self.outputs, positions);
        if strip.images.len() == 1 {
            let first = strip.rows.start * self.windows.columns;
            let shape = [self.outputs, strip.rows.len() * self.windows.columns];
            return Matrix::new(
                &grads[start(strip.images.start) + first..],
                shape,
                positions,
            );
        }
        let count = strip.images.len() * positions;
        let gathered = grown(buffer, self.outputs * count);
        for (number, image) in strip.images.clone().enumerate() {
            let from = &grads[start(image)..start(image) + self.outputs * positions];
            let to = gathered.chunks_exact_mut(count);
            for (to, from) in to.zip(from.chunks_exact(positions)) {
                to[number * positions..(number + 1) * positions].copy_from_slice(from);
            }
        }
        Matrix::new(gathered, [self.outputs, count], count)
    }
}
