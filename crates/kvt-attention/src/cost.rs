//! What attention costs, for one image.

use std::iter::Sum;
use std::ops::{Add, Mul};

/// Multiply-accumulate operations for one image.
///
/// Attention counts both products in full whatever the number of neighbours: k-NN attention needs
/// every score to choose from, and the papers count its second product as dense too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Macs {
    /// Linear layers and convolutions.
    pub linear: u64,
    /// The products of queries with keys and of weights with values.
    pub attention: u64,
}

/// What a mechanism costs at its place, for one image, without the projections around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Trainable parameters.
    pub params: usize,
    /// Multiply-accumulate operations.
    pub macs: Macs,
    /// Keys that decide a query's output.
    pub kept: usize,
}

impl Cost {
    /// Of a mechanism without parameters that makes products with queries, keys or values alone.
    pub(crate) fn of_products(operations: usize, kept: usize) -> Self {
        Self {
            params: 0,
            macs: Macs::attention(operations),
            kept,
        }
    }
}

impl Macs {
    /// Operations of linear layers and convolutions.
    pub fn linear(operations: usize) -> Self {
        Self {
            linear: operations as u64,
            attention: 0,
        }
    }

    /// Operations of products with queries, keys or values.
    pub fn attention(operations: usize) -> Self {
        Self {
            linear: 0,
            attention: operations as u64,
        }
    }

    /// All operations.
    pub fn total(self) -> u64 {
        self.linear.saturating_add(self.attention)
    }
}

impl Add for Macs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            linear: self.linear.saturating_add(other.linear),
            attention: self.attention.saturating_add(other.attention),
        }
    }
}

impl Sum for Macs {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl Mul<usize> for Macs {
    type Output = Self;

    fn mul(self, times: usize) -> Self {
        Self {
            linear: self.linear.saturating_mul(times as u64),
            attention: self.attention.saturating_mul(times as u64),
        }
    }
}
