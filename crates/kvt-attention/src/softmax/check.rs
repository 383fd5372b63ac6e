//! What [`super::attend`] refuses.

use burn::tensor::{DType, Tensor};

use super::SoftmaxAttention;
use crate::error::check_dropout;
use crate::{AttentionError, Dropout, Score};

/// Refuses what does not fit together.
pub(super) fn check(
    q: &Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    score: &Score,
    attention: &SoftmaxAttention,
    dropout: Option<Dropout>,
) -> Result<(), AttentionError> {
    let [batch, heads, queries, head_dim] = q.dims();
    let [_, _, keys, _] = k.dims();
    let expect = |name, actual: [usize; 4], expected: [usize; 4]| {
        if actual == expected {
            Ok(())
        } else {
            Err(AttentionError::Shape {
                name,
                actual,
                expected,
            })
        }
    };
    expect("k", k.dims(), [batch, heads, keys, head_dim])?;
    expect("v", v.dims(), [batch, heads, keys, v.dims()[3]])?;
    let others = [
        ("k", Some(k)),
        ("v", Some(v)),
        ("bias", score.bias.as_ref()),
    ];
    for (name, x) in others.into_iter().filter_map(|(name, x)| Some((name, x?))) {
        if x.dtype() != q.dtype() {
            return Err(AttentionError::Type {
                name,
                actual: x.dtype(),
                expected: q.dtype(),
            });
        }
    }
    if q.dtype() == DType::F64 {
        return Err(AttentionError::Precision(q.dtype()));
    }
    let scores = [batch, heads, queries, keys];
    let broadcast = |name, actual: [usize; 4]| {
        // The heads of one window, or one of several windows.
        let divides = actual[1] > 0 && heads.is_multiple_of(actual[1]);
        let fits = |axis: usize| {
            let (a, s) = (actual[axis], scores[axis]);
            a == 1 || a == s || (axis == 1 && divides)
        };
        if (0..4).all(fits) {
            Ok(())
        } else {
            Err(AttentionError::Broadcast {
                name,
                actual,
                scores,
            })
        }
    };
    if let Some(bias) = &score.bias {
        broadcast("bias", bias.dims())?;
    }
    if let Some(mask) = &score.mask {
        broadcast("mask", mask.dims())?;
    }
    attention.validate()?;
    dropout.map_or(Ok(()), |dropout| check_dropout(dropout.probability))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use kvt_ops::Key;

    use super::*;

    #[test]
    fn a_probability_of_dropout_is_below_one() {
        let x = Tensor::<4>::ones([1, 1, 2, 3], &Device::flex());
        let refused = |probability| {
            let dropout = Dropout {
                probability,
                key: Key::new(1),
            };
            let attention = SoftmaxAttention::dense();
            check(&x, &x, &x, &Score::default(), &attention, Some(dropout)).is_err()
        };
        for probability in [0.0, 0.5, 0.999] {
            assert!(!refused(probability), "{probability}");
        }
        for probability in [-0.1, 1.0, 2.0, f64::NAN] {
            assert!(refused(probability), "{probability}");
        }
    }
}
