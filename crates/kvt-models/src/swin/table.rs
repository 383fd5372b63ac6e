//! Tables of relative position biases of another window size.

use burn::tensor::TensorData;

use crate::weights::interpolate::{Tap, interpolate};

/// Resizes a table `[source * source, heads]` to `[side * side, heads]`, as timm's `resize_rel_pos_bias_table` does,
/// which comes from BEiT: near positions keep their resolution, far ones are spread in a geometric progression, with
/// linear interpolation between them.
///
/// `None` if the table does not have this form.
pub(super) fn resample(table: &TensorData, side: usize) -> Option<TensorData> {
    let [places, heads] = *table.shape().as_slice() else {
        return None;
    };
    let source = places.isqrt();
    let odd = |size: usize| size % 2 == 1;
    if heads == 0 || source * source != places || !odd(source) || !odd(side) {
        return None;
    }
    let values = table.as_slice::<f32>().ok()?;
    let taps = taps(source, side);
    let resized = interpolate([&taps, &taps], values, source, heads);
    Some(TensorData::new(resized, [side * side, heads]))
}

/// The inputs of each of the `side` positions `-(side / 2), ..., side / 2`.
fn taps(source: usize, side: usize) -> Vec<Tap> {
    let positions = positions(source, side);
    let half = (side / 2) as f64;
    let targets = (0..side).map(|i| i as f64 - half);
    let tap = |target: f64| {
        // Positions beyond the last have its value.
        let after = positions.partition_point(|position| *position < target);
        let (Some(before), true) = (after.checked_sub(1), after < source) else {
            return Tap {
                first: after.min(source - 1),
                weights: vec![1.0],
            };
        };
        let share = (target - positions[before]) / (positions[after] - positions[before]);
        Tap {
            first: before,
            weights: vec![1.0 - share, share],
        }
    };
    targets.map(tap).collect()
}

/// The places of the `source` entries of a table among the positions of one with `side` entries: the steps from the
/// centre outwards grow by a factor that reaches the border, within limits.
fn positions(source: usize, side: usize) -> Vec<f64> {
    let steps = (source / 2) as i32;
    let (mut low, mut high, mut factor) = (1.01f64, 1.5f64, 1.5);
    while high - low > 1e-6 {
        factor = f64::midpoint(low, high);
        let reach = (1.0 - factor.powi(steps)) / (1.0 - factor);
        if reach > (side / 2) as f64 {
            high = factor;
        } else {
            low = factor;
        }
    }
    let outwards = (0..steps).scan(0.0, |position, step| {
        *position += factor.powi(step);
        Some(*position)
    });
    // PyTorch holds them in single precision.
    let outwards: Vec<f64> = outwards
        .map(|position| f64::from(position as f32))
        .collect();
    let left = outwards.iter().rev().map(|position| -position);
    left.chain([0.0]).chain(outwards.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use safetensors::SafeTensors;
    use serde_json::Value;

    use super::*;
    use crate::weights::read;

    #[test]
    fn resizes_as_timm_does() {
        // Written by `scripts/reference/swin.py` with timm's `resize_rel_pos_bias_table`.
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rel_bias.safetensors");
        let bytes = fs_err::read(&golden).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let config = &header.metadata().as_ref().unwrap()["config"];
        let config: Value = serde_json::from_str(config).unwrap();
        let tensors = read(&golden).unwrap();

        let cases = config.as_object().unwrap();
        assert!(cases.len() >= 3, "{} cases", cases.len());
        for (case, config) in cases {
            let window = config["window"].as_u64().unwrap() as usize;
            let tensor = |name| tensors.get(&format!("{case}.{name}")).unwrap();
            let resized = resample(tensor("input"), 2 * window - 1).unwrap();
            assert_eq!(resized.shape(), tensor("output").shape(), "{case}");
            let expected = tensor("output").try_to_vec::<f32>().unwrap();
            for (value, expected) in resized.try_to_vec::<f32>().unwrap().iter().zip(expected) {
                assert!(
                    (value - expected).abs() < 1e-5,
                    "{case}: {value} != {expected}"
                );
            }
        }
    }

    #[test]
    fn only_tables_of_square_windows_are_resized() {
        let resized = |places, side| {
            let table = TensorData::zeros::<f32, _>([places, 2]);
            resample(&table, side).map(|table| table.shape().to_vec())
        };
        assert_eq!(resized(9, 5), Some(vec![25, 2]));
        // A window of one token has the same bias everywhere.
        assert_eq!(resized(1, 5), Some(vec![25, 2]));
        assert_eq!(resized(25, 1), Some(vec![1, 2]));
        assert_eq!(resized(10, 5), None);
        assert_eq!(resized(16, 5), None);
        assert!(resample(&TensorData::zeros::<f32, _>([9]), 5).is_none());
        assert!(resample(&TensorData::zeros::<f32, _>([9, 0]), 5).is_none());
    }
}
