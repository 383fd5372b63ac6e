//! Tensors in host memory, with as much of Burn's interface as is used.

use std::cell::UnsafeCell;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Device;

/// Numbers that somebody else may write, by their address.
#[derive(Clone, Debug)]
pub struct Tensor<const D: usize>(Arc<Numbers>);

#[derive(Debug)]
struct Numbers(Box<[UnsafeCell<f32>]>);

// SAFETY: the stand-in writes them before `poll` says that it is done, and they are read afterwards.
unsafe impl Send for Numbers {}
// SAFETY: as above.
unsafe impl Sync for Numbers {}

impl<const D: usize> Tensor<D> {
    pub fn full(shape: [usize; D], value: f32) -> Self {
        let numbers = (0..shape[0]).map(|_| UnsafeCell::new(value));
        Self(Arc::new(Numbers(numbers.collect())))
    }

    pub fn zeros(shape: [usize; D], _: &Device) -> Self {
        Self::full(shape, 0.0)
    }

    pub fn empty(shape: [usize; D], _: &Device) -> Self {
        Self::full(shape, f32::NAN)
    }

    pub fn dims(&self) -> [usize; D] {
        [self.0.0.len(); D]
    }

    pub fn device(&self) -> Device {
        Device
    }

    pub fn address(&self) -> u64 {
        self.0.0.as_ptr() as u64
    }

    pub fn values(&self) -> Vec<f32> {
        // SAFETY: nobody writes them any more.
        self.0
            .0
            .iter()
            .map(|number| unsafe { *number.get() })
            .collect()
    }
}
