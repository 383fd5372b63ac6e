//! The loss scale for training in f16: multiplies the loss, and thereby gradients that would be too small for 16 bits.
//!
//! PyTorch's `GradScaler` with its defaults: the scale starts at 65,536, is halved when gradients are not finite, and doubled
//! after 2,000 consecutive updates with finite gradients. It is always a power of two, so that it does not cause rounding.

use kvt_models::Precision;
use serde::{Deserialize, Serialize};

/// The initial scale.
const START: f64 = 65_536.0;
/// Number of consecutive updates after which the scale is doubled.
const INTERVAL: u32 = 2_000;

/// A scale that adapts to the gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    scale: f64,
    /// Number of updates since the last change of the scale.
    good_updates: u32,
}

impl LossScale {
    /// The scale of a run before its first update; `None` if gradients have the range of f32.
    #[must_use]
    pub fn of(precision: Precision) -> Option<Self> {
        (precision == Precision::F16).then_some(Self {
            scale: START,
            good_updates: 0,
        })
    }

    /// The factor of the loss.
    #[must_use]
    pub fn factor(self) -> f64 {
        self.scale
    }

    /// The scale after a successful update.
    #[must_use]
    pub fn after_update(self) -> Self {
        match self.good_updates + 1 {
            INTERVAL => Self {
                scale: self.scale * 2.0,
                good_updates: 0,
            },
            good_updates => Self {
                good_updates,
                ..self
            },
        }
    }

    /// The scale after gradients were not finite. `None` at a scale of 1: then the scale is not the cause.
    #[must_use]
    pub fn after_overflow(self) -> Option<Self> {
        (self.scale > 1.0).then_some(Self {
            scale: self.scale / 2.0,
            good_updates: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn updates(scale: LossScale, count: usize) -> LossScale {
        (0..count).fold(scale, |scale, _| scale.after_update())
    }

    #[test]
    fn only_f16_is_scaled() {
        assert_eq!(LossScale::of(Precision::F32), None);
        assert_eq!(LossScale::of(Precision::Bf16), None);
        assert_eq!(LossScale::of(Precision::F16).unwrap().factor(), 65_536.0);
    }

    /// Computed by hand: 1,999 updates, an overflow, 2,000 updates, 2,000 more.
    #[test]
    fn the_scale_is_halved_and_doubled_as_pytorchs() {
        let scale = updates(LossScale::of(Precision::F16).unwrap(), 1999);
        assert_eq!(scale.factor(), 65_536.0);
        assert_eq!(scale.after_update().factor(), 131_072.0);
        // The overflow also resets the count of consecutive updates.
        let scale = scale.after_overflow().unwrap();
        assert_eq!(scale.factor(), 32_768.0);
        let scale = updates(scale, 1999);
        assert_eq!(scale.factor(), 32_768.0);
        let scale = scale.after_update();
        assert_eq!(scale.factor(), 65_536.0);
        assert_eq!(updates(scale, 2000).factor(), 131_072.0);
    }

    /// 65,536 is 2^16.
    #[test]
    fn a_scale_of_one_is_the_last() {
        let mut scale = LossScale::of(Precision::F16).unwrap();
        for _ in 0..16 {
            scale = scale.after_overflow().unwrap();
        }
        assert_eq!(scale.factor(), 1.0);
        assert_eq!(scale.after_overflow(), None);
    }

    #[test]
    fn it_comes_back_from_a_checkpoint() {
        let scale = updates(LossScale::of(Precision::F16).unwrap(), 7);
        let text = serde_json::to_string(&scale).unwrap();
        assert_eq!(text, r#"{"scale":65536.0,"good_updates":7}"#);
        assert_eq!(serde_json::from_str::<LossScale>(&text).unwrap(), scale);
    }
}
