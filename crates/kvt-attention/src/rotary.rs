//! Rotary positions: queries and keys that are turned by where their tokens are, so that a score depends on how far
//! apart two tokens are (Su et al. 2021, [*RoFormer*](https://arxiv.org/abs/2104.09864)).

use burn::tensor::{Device, Tensor, TensorData};
use kvt_ops::{in_type, widened};

/// The angles of all tokens. Channel `i` of a head and channel `i + head_dim / 2` are a point of a plane, which is turned
/// (`rotate_half` in timm).
#[derive(Clone, Debug)]
pub struct Rotary {
    /// `[1, 1, token, head_dim]`.
    cos: Tensor<4>,
    /// The same; negative for the first half, whose partners are subtracted.
    sin: Tensor<4>,
}

impl Rotary {
    /// From the angles of the map's tokens in radians, `head_dim / 2` for each, token by token. The `prefix` tokens before the
    /// map are not turned.
    pub fn new(prefix: usize, angles: &[f64], head_dim: usize, device: &Device) -> Self {
        let half = (head_dim / 2).max(1);
        let tokens = prefix + angles.len() / half;
        let table = |before: f32, of: &dyn Fn(f64, bool) -> f64| {
            let mut values = vec![before; prefix * 2 * half];
            for token in angles.chunks_exact(half) {
                for first in [true, false] {
                    values.extend(token.iter().map(|angle| of(*angle, first) as f32));
                }
            }
            Tensor::from_data(TensorData::new(values, [1, 1, tokens, 2 * half]), device)
        };
        Self {
            cos: table(1.0, &|angle, _| angle.cos()),
            sin: table(0.0, &|angle, first| {
                if first { -angle.sin() } else { angle.sin() }
            }),
        }
    }

    /// Queries or keys, turned in f32 and returned in their type.
    ///
    /// # Shapes
    /// `[batch, heads, token, head_dim]` to the same shape.
    ///
    /// # Panics
    /// If there are other tokens or channels than angles.
    pub fn turn(&self, x: Tensor<4>) -> Tensor<4> {
        let (dtype, x) = (x.dtype(), widened(x));
        let half = x.dims()[3] / 2;
        let [first, second] = [0, half].map(|from| x.clone().narrow(3, from, half));
        let partners = Tensor::cat(vec![second, first], 3);
        in_type(x * self.cos.clone() + partners * self.sin.clone(), dtype)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::f64::consts::FRAC_PI_2;

    use super::*;

    /// A class token and a map of two tokens with two planes: by a quarter turn and by nothing, by half a turn and by a quarter.
    #[test]
    fn planes_are_turned_and_the_prefix_is_not() {
        let device = Device::flex();
        let angles = [FRAC_PI_2, 0.0, 2.0 * FRAC_PI_2, FRAC_PI_2];
        let rotary = Rotary::new(1, &angles, 4, &device);
        let x = [[1.0f32, 2.0, 3.0, 4.0]; 3].concat();
        let x = Tensor::from_data(TensorData::new(x, [1, 1, 3, 4]), &device);
        let turned: Vec<f32> = rotary.turn(x).into_data().try_to_vec().unwrap();
        let expected = [
            [1.0, 2.0, 3.0, 4.0],
            [-3.0, 2.0, 1.0, 4.0],
            [-1.0, -4.0, -3.0, 2.0],
        ];
        for (found, expected) in turned.iter().zip(expected.concat()) {
            assert!((found - expected).abs() < 1e-6, "{turned:?}");
        }
    }
}
