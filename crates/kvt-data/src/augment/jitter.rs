//! Random brightness, contrast, saturation and hue.

use kvt_ops::Key;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::auto::Op;

/// torchvision's `ColorJitter`: each factor uniform around 1, the hue around 0, the four in random order. Adjustments with
/// an empty range are skipped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColorJitter {
    /// Brightness is multiplied by 1 - this (at least 0) to 1 + this.
    pub brightness: f64,
    /// The same for contrast.
    pub contrast: f64,
    /// The same for saturation.
    pub saturation: f64,
    /// The hue is shifted by up to this fraction of the colour circle in either direction, at most 0.5.
    pub hue: f64,
}

impl ColorJitter {
    /// timm's `color_jitter` with one number: the same range for all except the hue, which does not change.
    pub fn uniform(strength: f64) -> Self {
        Self {
            brightness: strength,
            contrast: strength,
            saturation: strength,
            hue: 0.0,
        }
    }

    /// The adjustments for one image, in order.
    pub fn draw(&self, key: Key) -> Vec<Op> {
        let mut rng = key.rng();
        let mut share = || rng.random::<f64>();
        let mut factor = |range: f64| {
            let low = (1.0 - range).max(0.0);
            low + (1.0 + range - low) * share()
        };
        let drawn = [
            Op::Brightness(factor(self.brightness)),
            Op::Contrast(factor(self.contrast)),
            Op::Color(factor(self.saturation)),
            Op::Hue(self.hue * (2.0 * share() - 1.0)),
        ];
        let ranges = [self.brightness, self.contrast, self.saturation, self.hue];
        let drawn = ranges.into_iter().zip(drawn);
        let active = drawn.filter(|(range, _)| *range > 0.0);
        let mut order: Vec<Op> = active.map(|(_, adjustment)| adjustment).collect();
        order.shuffle(&mut rng);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(adjustment: Op) -> (usize, f64) {
        match adjustment {
            Op::Brightness(factor) => (0, factor),
            Op::Contrast(factor) => (1, factor),
            Op::Color(factor) => (2, factor),
            Op::Hue(turns) => (3, turns),
            other => unreachable!("{other:?}"),
        }
    }

    /// All orders are equally likely, and all factors uniform in their range.
    #[test]
    fn factors_are_uniform_and_orders_equally_likely() {
        let jitter = ColorJitter {
            brightness: 0.4,
            contrast: 1.5,
            saturation: 0.2,
            hue: 0.1,
        };
        let ends = [(0.6, 1.4), (0.0, 2.5), (0.8, 1.2), (-0.1, 0.1)];
        let (n, mut sums, mut squares) = (4000, [0.0; 4], [0.0; 4]);
        let mut orders = std::collections::BTreeMap::new();
        for seed in 0..n {
            let drawn = jitter.draw(Key::new(seed));
            let order: Vec<usize> = drawn.iter().map(|one| of(*one).0).collect();
            *orders.entry(order).or_insert(0_u32) += 1;
            for (at, value) in drawn.into_iter().map(of) {
                let (low, high) = ends[at];
                let share = (value - low) / (high - low);
                assert!((0.0..=1.0).contains(&share), "{at}: {value}");
                sums[at] += share;
                squares[at] += share * share;
            }
        }
        for (sum, squares) in sums.into_iter().zip(squares) {
            let mean = sum / n as f64;
            // For a uniform number: 1/2 and 1/12, each with five standard errors.
            assert!((mean - 0.5).abs() < 0.023, "{mean}");
            let variance = squares / n as f64 - mean * mean;
            assert!((variance - 1.0 / 12.0).abs() < 0.006, "{variance}");
        }
        // 24 orders, 166.7 times each, standard deviation 12.6.
        assert_eq!(orders.len(), 24);
        assert!(
            orders.values().all(|count| count.abs_diff(167) < 64),
            "{orders:?}"
        );
    }

    #[test]
    fn one_number_leaves_the_hue_alone() {
        for seed in 0..20 {
            let mut drawn: Vec<usize> = ColorJitter::uniform(0.3)
                .draw(Key::new(seed))
                .into_iter()
                .map(|one| of(one).0)
                .collect();
            drawn.sort_unstable();
            assert_eq!(drawn, [0, 1, 2]);
        }
        assert_eq!(ColorJitter::uniform(0.0).draw(Key::new(0)), []);
    }
}
