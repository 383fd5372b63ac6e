//! Mixes the pixels of a batch on the device, by what `draw.rs` drew. `mod.rs` says who mixes the targets.

use burn::tensor::{Device, Tensor, TensorData};

use super::{Blend, Mixing, Rect};
use crate::augment::Normalization;

impl Mixing {
    /// Whether no image is mixed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.0.iter().all(|blend| *blend == Blend::Keep)
    }

    /// The weight of each image's own target, `[images]`; the rest is its partner's.
    #[must_use]
    pub fn own_shares(&self, images: usize, size: (usize, usize)) -> Vec<f64> {
        let blends = self.0.iter().cycle().take(images);
        blends.map(|blend| blend.own_share(size)).collect()
    }

    /// The mixed images, `[images, channels, height, width]`.
    ///
    /// Each is `own * image + partner_share * partner`, where the weights of CutMix are 1 and 0, or 0 and 1 within the
    /// rectangle, whose pixels are exact copies.
    #[must_use]
    pub fn images(&self, images: Tensor<4>) -> Tensor<4> {
        let [_, _, height, width] = images.dims();
        let [own, partner] = weights(&self.0, (height, width), &images.device());
        let partners = images.clone().flip([0]);
        images * own + partners * partner
    }

    /// Mixes normalised images as timm's collate function does: the 8-bit pixels are mixed and rounded, halves to even,
    /// then normalised again.
    #[must_use]
    pub fn pixels(&self, images: Tensor<4>, normalization: &Normalization) -> Tensor<4> {
        let pixels = normalization.undo(images);
        normalization.apply(self.images(pixels).round())
    }
}

/// The weights of images and of their partners: `[n, 1, 1, 1]`, or with CutMix `[n, 1, height, width]`. A single draw
/// applies to any number of images.
fn weights(blends: &[Blend], (height, width): (usize, usize), device: &Device) -> [Tensor<4>; 2] {
    let count = blends.len();
    let of = |values: Vec<f32>, shape: [usize; 4]| {
        Tensor::<4>::from_data(TensorData::new(values, shape), device)
    };
    let scalars = |value: &dyn Fn(f64) -> f64| {
        let values = blends.iter().map(|blend| match blend {
            Blend::Mixup { own } => value(*own) as f32,
            Blend::Keep | Blend::CutMix { .. } => value(1.0) as f32,
        });
        of(values.collect(), [count, 1, 1, 1])
    };
    let (own, partner) = (scalars(&|own| own), scalars(&|own| 1.0 - own));
    let rects = || {
        blends.iter().map(|blend| match blend {
            Blend::CutMix { rect } => *rect,
            Blend::Keep | Blend::Mixup { .. } => Rect::default(),
        })
    };
    if rects().all(|rect| rect.area() == 0) {
        return [own, partner];
    }
    // 1 for the rows or columns of the rectangle.
    let inside = |start: usize, len: usize, side: usize| {
        (0..side).map(move |at| f32::from((start..start + len).contains(&at)))
    };
    let rows = rects().flat_map(|rect| inside(rect.top, rect.height, height));
    let columns = rects().flat_map(|rect| inside(rect.left, rect.width, width));
    let rows = of(rows.collect(), [count, 1, height, 1]);
    let columns = of(columns.collect(), [count, 1, 1, width]);
    let within = rows * columns;
    [own - within.clone(), partner + within]
}
