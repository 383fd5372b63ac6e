//! What [`super::attend`] refuses.

use burn::tensor::{DType, Tensor};

use super::{Attention, Dropout, Score};
use crate::NeighborsError;

/// Shapes or settings that do not fit together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AttentionError {
    /// Two tensors disagree.
    #[error(
        "`{name}` has shape {actual:?}, expected {expected:?} ([batch, heads, tokens, head_dim])"
    )]
    Shape {
        /// Which tensor.
        name: &'static str,
        /// Its shape.
        actual: [usize; 4],
        /// What the others ask for.
        expected: [usize; 4],
    },
    /// A bias or mask that cannot be broadcast to the scores.
    #[error(
        "`{name}` has shape {actual:?}, which does not broadcast to {scores:?} ([batch, heads, query, key])"
    )]
    Broadcast {
        /// Which tensor.
        name: &'static str,
        /// Its shape.
        actual: [usize; 4],
        /// The shape of the scores.
        scores: [usize; 4],
    },
    /// A tensor of another type.
    #[error("`{name}` is {actual:?}, expected {expected:?} as `q`: cast it first")]
    Type {
        /// Which tensor.
        name: &'static str,
        /// Its type.
        actual: DType,
        /// The type of q.
        expected: DType,
    },
    /// A type that is more exact than what attention computes in.
    #[error("`q` is {0:?}, but attention is computed in f32: cast `q`, `k` and `v` to f32")]
    Precision(DType),
    /// A setting out of its range.
    #[error("{0}")]
    Setting(&'static str),
    /// A number of neighbours that makes no sense.
    #[error(transparent)]
    Neighbors(#[from] NeighborsError),
}

/// Refuses what does not fit together.
pub(super) fn check(
    q: &Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    score: &Score,
    attention: &Attention,
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
        if actual.iter().zip(scores).all(|(&a, s)| a == 1 || a == s) {
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
    if dropout.is_some_and(|d| !(0.0..1.0).contains(&d.probability)) {
        return Err(AttentionError::Setting(
            "attention dropout must be in [0, 1)",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use kvt_ops::Key;

    #[test]
    fn a_probability_of_dropout_is_below_one() {
        let x = Tensor::<4>::ones([1, 1, 2, 3], &Device::flex());
        let refused = |probability| {
            let dropout = Dropout {
                probability,
                key: Key::new(1),
            };
            let attention = Attention::dense();
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
