//! The k-NN classifier on features ([`KnnVote`]): what DINO is judged by while it trains, and half of `kvt probe`.

mod rows;
mod vote;

pub use rows::{Rows, collect, read};
pub(crate) use vote::normalized;
pub use vote::{KnnAccuracy, KnnVote, Neighbor, nearest};
