//! The draws for a micro-batch: which images are mixed, and how.

use kvt_ops::Key;
use rand::{Rng, RngExt};
use rand_distr::{Beta, Distribution};

use super::{MixConfig, MixMode};

/// A rectangle of an image, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    /// First row.
    pub top: usize,
    /// First column.
    pub left: usize,
    /// Number of rows; can be 0.
    pub height: usize,
    /// Number of columns; can be 0.
    pub width: usize,
}

/// How an image is mixed with its partner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blend {
    /// Not mixed.
    Keep,
    /// `own * image + (1 - own) * partner`.
    Mixup {
        /// The weight of the image itself, in [0, 1].
        own: f64,
    },
    /// The pixels within the rectangle are those of the partner.
    CutMix {
        /// The rectangle.
        rect: Rect,
    },
}

impl Blend {
    /// The weight of the image's own target. For CutMix it follows the exchanged area, which the image's borders can
    /// reduce (timm's `correct_lam`).
    #[must_use]
    pub fn own_share(self, (height, width): (usize, usize)) -> f64 {
        match self {
            Self::Keep => 1.0,
            Self::Mixup { own } => own,
            Self::CutMix { rect } => {
                1.0 - (rect.height * rect.width) as f64 / (height * width) as f64
            }
        }
    }
}

/// The draws for a micro-batch: one for all images, or one for each. The partner of image `i` of `n` is image `n - 1 - i`.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixing(pub Vec<Blend>);

/// Draws for `images` images of `size` (height, width) from the key of their micro-batch.
///
/// With an odd number of images, the middle one is its own partner. With `pair` it is not mixed; otherwise it is mixed
/// with itself, which changes it at most by rounding. timm rejects odd batches.
#[must_use]
pub fn draw(config: &MixConfig, images: usize, size: (usize, usize), key: Key) -> Mixing {
    let draw = |number: usize| blend(config, size, &mut key.child(number as u64).rng());
    Mixing(match config.mode {
        MixMode::Batch => vec![blend(config, size, &mut key.rng())],
        MixMode::Elem => (0..images).map(draw).collect(),
        MixMode::Pair => {
            let half: Vec<Blend> = (0..images / 2).map(draw).collect();
            let middle = (images % 2 == 1).then_some(Blend::Keep);
            let back = half.iter().rev().copied();
            half.iter().copied().chain(middle).chain(back).collect()
        }
    })
}

/// One draw: whether to mix, mixup or CutMix, and the weight of the image itself.
fn blend(config: &MixConfig, size: (usize, usize), rng: &mut impl Rng) -> Blend {
    if rng.random::<f64>() >= config.prob {
        return Blend::Keep;
    }
    let is_cutmix = match (config.mixup > 0.0, config.has_cutmix()) {
        (false, false) => return Blend::Keep,
        (true, true) => rng.random::<f64>() < config.switch_prob,
        (_, has_cutmix) => has_cutmix,
    };
    let alpha = match (is_cutmix, config.cutmix_minmax) {
        (true, Some(minmax)) => {
            let rect = rect_of_sides(size, minmax, rng);
            return Blend::CutMix { rect };
        }
        (true, None) => config.cutmix,
        (false, _) => config.mixup,
    };
    // The alpha is positive, so the distribution exists.
    let own = Beta::new(alpha, alpha).map_or(1.0, |beta| beta.sample(rng));
    if own == 1.0 {
        return Blend::Keep;
    }
    if is_cutmix {
        Blend::CutMix {
            rect: rect_of_area(size, own, false, rng),
        }
    } else {
        Blend::Mixup { own }
    }
}

/// A rectangle with the image's aspect ratio and the fraction `1 - own` of its area, around a uniform centre; see [`rect_around`].
pub(super) fn rect_of_area(
    size: (usize, usize),
    own: f64,
    is_even: bool,
    rng: &mut impl Rng,
) -> Rect {
    let mut place = |side: usize| rng.random_range(0..side.max(1) as u64) as usize;
    let centre = (place(size.0), place(size.1));
    rect_around(centre, size, own, is_even)
}

/// The rectangle with the image's aspect ratio and the fraction `1 - own` of its area around a centre (row, column),
/// cropped at the borders. Before that, with `is_even`, as much of it is before the centre as from it on.
pub(super) fn rect_around(
    centre: (usize, usize),
    size: (usize, usize),
    own: f64,
    is_even: bool,
) -> Rect {
    let ratio = (1.0 - own).sqrt();
    let interval = |centre: usize, side: usize| {
        let cut = (side as f64 * ratio) as usize;
        let cut = if is_even { cut / 2 * 2 } else { cut };
        let start = centre.saturating_sub(cut / 2);
        let end = (centre + cut.div_ceil(2)).min(side);
        (start, end - start)
    };
    let (top, height) = interval(centre.0, size.0);
    let (left, width) = interval(centre.1, size.1);
    Rect {
        top,
        left,
        height,
        width,
    }
}

/// A rectangle whose sides are drawn between two fractions of the image's sides, anywhere within the image.
fn rect_of_sides(size: (usize, usize), minmax: [f64; 2], rng: &mut impl Rng) -> Rect {
    let mut length = |side: usize| {
        let [least, most] = minmax.map(|share| (side as f64 * share) as u64);
        // numpy's upper end is exclusive; if the two are equal, there is one length.
        rng.random_range(least..most.max(least + 1))
            .min(side as u64) as usize
    };
    let (height, width) = (length(size.0), length(size.1));
    let mut start = |side: usize, cut: usize| rng.random_range(0..=(side - cut) as u64) as usize;
    Rect {
        top: start(size.0, height),
        left: start(size.1, width),
        height,
        width,
    }
}
