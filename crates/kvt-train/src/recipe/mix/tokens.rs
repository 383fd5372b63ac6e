//! MixToken: the tokens of a rectangle come from another image, right after images are embedded as tokens.
//!
//! Jiang et al., [*All Tokens Matter*](https://arxiv.org/abs/2104.10858), with the distributions of the official
//! [VOLO](https://github.com/sail-sg/volo) (`models/volo.py`).

use burn::tensor::Tensor;
use kvt_ops::Key;
use rand::RngExt;
use rand_distr::{Beta, Distribution};

use super::draw::rect_of_area;
use super::{MixConfig, Rect};

/// Draws a rectangle of a map of `size` (rows, columns) for a micro-batch; its area is 0 if nothing is mixed. Unlike CutMix's, it has as
/// many tokens before its centre as from it on.
#[must_use]
pub fn draw_tokens(config: &MixConfig, size: (usize, usize), key: Key) -> Rect {
    let mut rng = key.rng();
    let mixes = config.mixes_tokens() && rng.random::<f64>() < config.prob;
    // The alpha is positive, so the distribution exists.
    let beta = Beta::new(config.mix_token, config.mix_token).ok();
    let own = beta
        .filter(|_| mixes)
        .map_or(1.0, |beta| beta.sample(&mut rng));
    rect_of_area(size, own, true, &mut rng)
}

impl Rect {
    /// Number of positions within the rectangle.
    #[must_use]
    pub fn area(&self) -> usize {
        self.height * self.width
    }

    /// The same part of a map with `scale` times as many positions along each side.
    #[must_use]
    pub fn scaled(self, scale: usize) -> Self {
        Self {
            top: self.top * scale,
            left: self.left * scale,
            height: self.height * scale,
            width: self.width * scale,
        }
    }

    /// Replaces the tokens within the rectangle of a map of `[rows, columns]` by those of the partner: for image `i` of `n`,
    /// image `n - 1 - i`. This operation is its own inverse.
    ///
    /// # Shapes
    /// `[batch, rows * columns, width]` to the same shape.
    #[must_use]
    pub fn exchange(self, tokens: Tensor<3>, [rows, columns]: [usize; 2]) -> Tensor<3> {
        if self.area() == 0 {
            return tokens;
        }
        let shape @ [batch, _, width] = tokens.dims();
        let map = tokens.reshape([batch, rows, columns, width]);
        let place = [
            0..batch,
            self.top..self.top + self.height,
            self.left..self.left + self.width,
            0..width,
        ];
        let partners = map.clone().slice(place.clone()).flip([0]);
        map.slice_assign(place, partners).reshape(shape)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use burn::tensor::{Device, TensorData};

    use super::super::draw::rect_around;
    use super::*;

    fn config() -> MixConfig {
        MixConfig {
            mix_token: 1.0,
            ..MixConfig::default()
        }
    }

    /// Computed by hand from the official `rand_bbox`: on 14 x 14 tokens, the fraction 1/2 has sides of 9, with 4 before the
    /// centre and 4 from it on.
    #[test]
    fn a_rectangle_is_the_originals() {
        let rect = |centre, own| {
            let Rect {
                top,
                left,
                height,
                width,
            } = rect_around(centre, (14, 14), own, true);
            [top, height, left, width]
        };
        assert_eq!(rect((7, 7), 0.5), [3, 8, 3, 8]);
        assert_eq!(rect((0, 13), 0.5), [0, 4, 9, 5]);
        assert_eq!(rect((7, 2), 0.0), [0, 14, 0, 9]);
        assert_eq!(rect((5, 5), 1.0), [5, 0, 5, 0]);
        // Half of one token per side rounds to 0.
        assert_eq!(rect((5, 5), 0.99), [5, 0, 5, 0]);
    }

    /// Rows and columns have different lengths; the key determines the draws; a rate of 0 disables mixing.
    #[test]
    fn draws_follow_the_key() {
        let size = (14, 20);
        let draw = |config: &MixConfig, key| draw_tokens(config, size, Key::new(key));
        let draws: Vec<Rect> = (0..400).map(|key| draw(&config(), key)).collect();
        assert_eq!(draws[7], draw(&config(), 7));
        let within = |r: &Rect| r.top + r.height <= 14 && r.left + r.width <= 20;
        assert!(draws.iter().all(within));
        assert!(draws.iter().any(|r| r.height == 12) && draws.iter().any(|r| r.width > 14));
        // A simulation of the original's draws gives 0.277 of the map, with a standard error of 0.009.
        let mean = draws.iter().map(Rect::area).sum::<usize>() as f64 / 400.0 / 280.0;
        assert!((mean - 0.277).abs() < 0.05, "{mean}");
        let never = MixConfig {
            prob: 0.0,
            ..config()
        };
        assert!((0..50).all(|key| draw(&never, key).area() == 0));
        assert!((0..50).all(|key| draw(&MixConfig::default(), key).area() == 0));
    }

    /// Token by token, on a non-square map, in a batch of three.
    #[test]
    fn tokens_within_come_from_the_partner() {
        let (rows, columns, width) = (4, 6, 2);
        let rect = Rect {
            top: 1,
            left: 1,
            height: 1,
            width: 2,
        };
        let rect = rect.scaled(2);
        let numbers: Vec<f32> = (0..3 * rows * columns * width).map(|i| i as f32).collect();
        let tokens = TensorData::new(numbers.clone(), [3, rows * columns, width]);
        let tokens = Tensor::<3>::from_data(tokens, &Device::flex());
        let mixed = rect.exchange(tokens, [rows, columns]);
        let found: Vec<f32> = mixed.clone().into_data().try_to_vec().unwrap();
        let mut moved = 0;
        for (place, found) in found.iter().enumerate() {
            let image = place / (rows * columns * width);
            let token = place / width % (rows * columns);
            let within = (2..4).contains(&(token / columns)) && (2..6).contains(&(token % columns));
            let from = if within { 2 - image } else { image };
            moved += usize::from(from != image);
            assert_eq!(*found, numbers[place + from * 48 - image * 48], "{place}");
        }
        // For two images, since the middle one is its own partner: two rows, four columns, two numbers.
        assert_eq!(moved, 2 * 2 * 4 * 2);
        let back: Vec<f32> = rect
            .exchange(mixed, [rows, columns])
            .into_data()
            .try_to_vec()
            .unwrap();
        assert_eq!(back, numbers);
    }
}
