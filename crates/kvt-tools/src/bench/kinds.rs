//! The measurement of any kind of attention.

use serde::Serialize;

use super::{AttentionCase, AttentionShape, AttentionTimes};

/// The line of a case in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindMeasurement {
    /// The kind, as in a configuration.
    pub kind: &'static str,
    /// The sizes.
    #[serde(flatten)]
    pub shape: AttentionShape,
    /// Parameters of the mechanism; `None` if it cannot be used at this size.
    pub params: Option<usize>,
    /// Multiply-accumulate operations per image in the forward pass; `None` if it cannot be used at this size.
    pub macs: Option<u64>,
    /// The times; `None` if it cannot be used at this size, or its process failed.
    pub times: Option<AttentionTimes>,
    /// Memory that forward and backward used in addition to the inputs, in a fresh process that ran only a small problem before.
    pub peak_bytes: Option<u64>,
    /// Why something was not measured.
    pub note: Option<String>,
}

impl AttentionCase {
    /// The line of a case before it is measured, or with the reason why it cannot be used.
    pub fn record(&self) -> KindMeasurement {
        let refused = self.check().err();
        let cost = || self.attention.cost(&self.place());
        let cost = refused.is_none().then(cost);
        KindMeasurement {
            kind: self.attention.kind(),
            shape: self.shape,
            params: cost.as_ref().map(|cost| cost.params),
            macs: cost.as_ref().map(|cost| cost.macs.total()),
            times: None,
            peak_bytes: None,
            note: refused.map(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use burn::tensor::Device;
    use kvt_attention::AttentionConfig;

    use super::super::{AttentionInput, Rounds, attention};
    use super::*;

    fn case(tokens: usize, attention: AttentionConfig) -> AttentionCase {
        AttentionCase {
            shape: AttentionShape {
                batch: 1,
                heads: 2,
                tokens,
                head_dim: 8,
            },
            input: AttentionInput::Normal,
            attention,
        }
    }

    #[test]
    fn tokens_form_a_square_with_or_without_a_class_token() {
        let place = |tokens| {
            let place = case(tokens, AttentionConfig::dense()).place();
            assert_eq!((place.queries, place.heads, place.head_dim), (tokens, 2, 8));
            (place.prefix, place.grid)
        };
        assert_eq!(place(197), (1, Some([14; 2])));
        assert_eq!(place(1024), (0, Some([32; 2])));
        assert_eq!(place(1), (0, Some([1; 2])));
        assert_eq!(place(12), (0, None));
    }

    /// A kind that cannot be used at a size says so; all others have times and the costs of their settings.
    #[test]
    fn every_kind_is_measured_or_says_why_not() {
        let device = Device::flex();
        let rounds = Rounds {
            warmup: 0,
            timed: 2,
        };
        for kind in AttentionConfig::defaults() {
            let case = case(65, kind);
            let record = case.record();
            match attention(std::slice::from_ref(&case), &device, rounds, |_| ()) {
                Ok(times) => {
                    let times = times[0];
                    assert!(times.forward.median > 0.0 && times.forward_backward.median > 0.0);
                    assert!(
                        record.note.is_none() && record.macs > Some(0),
                        "{}",
                        record.kind
                    );
                    assert!(case.peak_bytes(&device).is_ok());
                }
                Err(error) => {
                    assert_eq!(record.note.unwrap(), error.to_string());
                    assert_eq!((record.params, record.macs), (None, None));
                }
            }
        }
        // Two products of 2 * 65 * 65 * 8 operations.
        let dense = self::case(65, AttentionConfig::dense()).record();
        let macs = 2 * 2 * 65 * 65 * 8;
        assert_eq!((dense.params, dense.macs), (Some(0), Some(macs)));
    }
}
