//! A single process.

use std::sync::Arc;

use super::{World, WorldError};

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

    fn sum(&self, _values: &mut [f64]) -> Result<(), WorldError> {
        Ok(())
    }

    fn sum_f32(&self, _values: &mut [f32]) -> Result<(), WorldError> {
        Ok(())
    }

    fn broadcast(&self, _from: usize, _bytes: &mut [u8]) -> Result<(), WorldError> {
        Ok(())
    }

    fn first(&self, count: usize) -> Result<Option<Arc<dyn World>>, WorldError> {
        Ok((count > 0).then(alone))
    }
}
