//! Repeated timing, with the device idle before and after.

use std::time::Instant;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

use super::BenchError;

/// The number of runs.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Runs before the first timed one: caches, autotuning, allocator.
    pub warmup: usize,
    /// Timed runs, at least 1.
    pub timed: usize,
}

impl Rounds {
    /// Times all cases in turn, round by round: `measure` gives the milliseconds of the things that are timed of one. `progress` is
    /// called with the number of completed rounds.
    ///
    /// # Errors
    /// What `measure` returns.
    pub fn in_turn<C, const N: usize>(
        self,
        cases: &mut [C],
        mut progress: impl FnMut(usize),
        mut measure: impl FnMut(&mut C) -> Result<[f64; N], BenchError>,
    ) -> Result<Vec<[Timing; N]>, BenchError> {
        let mut times = vec![[const { Vec::new() }; N]; cases.len()];
        for round in 0..self.warmup + self.timed {
            for (case, times) in cases.iter_mut().zip(&mut times) {
                let measured = measure(case)?;
                if round >= self.warmup {
                    let times = times.iter_mut().zip(measured);
                    times.for_each(|(times, one)| times.push(one));
                }
            }
            progress(round + 1);
        }
        let times = times.into_iter().map(|times| times.map(Timing::of));
        Ok(times.collect())
    }
}

/// Milliseconds of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The median.
    pub median: f64,
    /// The first quartile.
    pub low: f64,
    /// The third quartile.
    pub high: f64,
}

impl Timing {
    /// Summarises the runs; all NaN if there are none.
    pub(super) fn of(mut runs: Vec<f64>) -> Self {
        runs.sort_by(f64::total_cmp);
        // The run at a fraction of the way from the first to the last, interpolated if necessary.
        let at = |share: f64| {
            let place = share * runs.len().saturating_sub(1) as f64;
            let run = |i: usize| runs.get(i).copied().unwrap_or(f64::NAN);
            let (below, part) = (run(place as usize), place.fract());
            below + (run((place as usize + 1).min(runs.len().saturating_sub(1))) - below) * part
        };
        Self {
            median: at(0.5),
            low: at(0.25),
            high: at(0.75),
        }
    }
}

/// Milliseconds that `work` takes on a device, from idle to idle. Its result is dropped after the clock has stopped.
pub fn time<T>(
    device: &Device,
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<f64, BenchError> {
    device.sync().map_err(BenchError::Device)?;
    let start = Instant::now();
    let result = work()?;
    device.sync().map_err(BenchError::Device)?;
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    drop(result);
    Ok(elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_a_few_runs() {
        let timing = Timing::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(
            timing,
            Timing {
                median: 3.0,
                low: 2.0,
                high: 4.0
            }
        );
        assert_eq!(Timing::of(vec![2.0, 1.0]).median, 1.5);
        assert_eq!(Timing::of(vec![7.0]).high, 7.0);
        assert!(Timing::of(Vec::new()).median.is_nan());
    }
}
