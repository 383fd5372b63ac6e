//! A single process.

use std::sync::Arc;

use super::{Local, World, WorldError};

/// A single process: its values already are the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone;

/// A single process as a world.
pub fn alone() -> Arc<dyn World> {
    Arc::new(Alone)
}

impl World for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn local(&self) -> Local {
        Local { rank: 0, size: 1 }
    }

    fn sum(&self, _values: &mut [f64]) -> Result<(), WorldError> {
        Ok(())
    }

    fn sum_f32(&self, _values: &mut [f32]) -> Result<(), WorldError> {
        Ok(())
    }

    fn sum_buckets(
        &self,
        lengths: &[usize],
        fill: &mut dyn FnMut(usize, &mut [f32]),
    ) -> Result<Vec<Vec<f32>>, WorldError> {
        let mut bucket = |(number, &length): (usize, &usize)| {
            let mut bucket = vec![0.0; length];
            fill(number, &mut bucket);
            bucket
        };
        Ok(lengths.iter().enumerate().map(&mut bucket).collect())
    }

    fn broadcast(&self, _from: usize, _bytes: &mut [u8]) -> Result<(), WorldError> {
        Ok(())
    }

    fn first(&self, count: usize) -> Result<Option<Arc<dyn World>>, WorldError> {
        Ok((count > 0).then(alone))
    }
}
