//! Any kind of attention, from q, k and v to the output, with the backward pass.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kvt_attention::{AttentionConfig, AttentionError, BurnInit, Mechanism, Mixer, Phase, Place};
use kvt_ops::Key;
use serde::{Deserialize, Serialize};

use super::attention::with_gradients;
use super::timing::{Rounds, Timing, time};
use super::{AttentionInput, AttentionShape, BenchError, peak_of};

/// The case to measure: a kind of attention with its settings, at a number of tokens.
#[derive(Clone, Debug)]
pub struct KindCase {
    /// The sizes.
    pub shape: AttentionShape,
    /// The kind, with settings of one stage.
    pub attention: AttentionConfig,
}

/// The times of a case, measured in a separate process. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindTimes {
    /// Only the output, without autodiff, as in evaluation.
    pub forward: Timing,
    /// Output and the gradients of q, k, v and of all parameters, as in training: with new random numbers each time.
    pub forward_backward: Timing,
}

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
    pub times: Option<KindTimes>,
    /// Memory that forward and backward used in addition to the inputs, in a fresh process that ran only a small problem before.
    pub peak_bytes: Option<u64>,
    /// Why something was not measured.
    pub note: Option<String>,
}

/// What is run: the mechanism, its inputs, and its position in a model.
struct Running {
    mixer: Mixer,
    inputs: [Tensor<4>; 3],
    place: Place,
}

impl KindCase {
    /// A self-attention of one or several images. The tokens form a square map, after a class token if their number is
    /// one more than a square; otherwise a sequence.
    pub fn place(&self) -> Place {
        let [_, heads, tokens, head_dim] = self.shape.sizes();
        let square = |count: usize| Some(count.isqrt()).filter(|side| side * side == count);
        let (prefix, side) = match (square(tokens), square(tokens.saturating_sub(1))) {
            (Some(side), _) => (0, Some(side)),
            (None, Some(side)) => (1, Some(side)),
            (None, None) => (0, None),
        };
        Place {
            prefix,
            grid: side.map(|side| [side; 2]),
            ..Place::new(tokens, heads * head_dim, heads)
        }
    }

    /// Rejects settings that cannot be used at this size.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), AttentionError> {
        self.attention.validate_at(&self.place())
    }

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

    fn start(&self, device: &Device) -> Result<Running, BenchError> {
        self.check()?;
        let place = self.place();
        let device = device.clone().autodiff();
        Ok(Running {
            mixer: self.attention.init(&place, &BurnInit::new(&device)),
            inputs: AttentionInput::Normal.tensors(self.shape, &device),
            place,
        })
    }

    /// The times of this case, without other cases in between.
    ///
    /// # Errors
    /// If it cannot be used at this size, or the device fails.
    pub fn times(&self, device: &Device, rounds: Rounds) -> Result<KindTimes, BenchError> {
        let running = self.start(device)?;
        let mixer = running.mixer.valid();
        let (mut forward, mut both) = (Vec::new(), Vec::new());
        for round in 0..rounds.warmup + rounds.timed {
            let [q, k, v] = running.inputs.clone().map(Tensor::inner);
            let context = running.place.context(Phase::Eval);
            let ahead = time(device, || Ok(mixer.attend(q, k, v, context)))?;
            let there_and_back = time(device, || running.forward_backward(round))?;
            if round >= rounds.warmup {
                forward.push(ahead);
                both.push(there_and_back);
            }
        }
        Ok(KindTimes {
            forward: Timing::of(forward),
            forward_backward: Timing::of(both),
        })
    }

    /// The memory of one forward and backward pass in this process.
    ///
    /// # Errors
    /// If it cannot be used at this size, or the device fails.
    pub fn peak_bytes(&self, device: &Device) -> Result<Option<u64>, BenchError> {
        let small = Self {
            shape: self.shape.small(),
            ..self.clone()
        };
        // Not every kind can be used with so few tokens.
        if small.check().is_ok() {
            small.start(device)?.forward_backward(0)?;
        }
        let running = self.start(device)?;
        peak_of(device, || running.forward_backward(0))
    }
}

impl Running {
    fn forward_backward(&self, round: usize) -> Result<Vec<Tensor<4>>, BenchError> {
        let phase = Phase::Train(Key::new(0).child(round as u64));
        with_gradients(&self.inputs, |[q, k, v]| {
            Ok(self.mixer.attend(q, k, v, self.place.context(phase)))
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn case(tokens: usize, attention: AttentionConfig) -> KindCase {
        KindCase {
            shape: AttentionShape {
                batch: 1,
                heads: 2,
                tokens,
                head_dim: 8,
            },
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
        for attention in AttentionConfig::defaults() {
            let case = case(65, attention);
            let record = case.record();
            match case.times(&device, rounds) {
                Ok(times) => {
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
