//! Detection: boxes and masks of objects.

mod ap;

pub use ap::{ApError, AveragePrecision, Found, Shapes, Truth, average_precision};
