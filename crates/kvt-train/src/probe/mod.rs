//! How much the features of a backbone say of the classes, without training it: by the nearest neighbours of an image
//! ([`KnnVote`]) and by a linear layer ([`LinearProbe`]); and where its class token looks ([`class_attention`]).

mod attention;
mod features;
mod knn;
mod linear;
mod picture;
mod rows;

pub use attention::{HeadMap, NoMap, class_attention, draw_map, draw_maps};
pub use features::Extractor;
pub use knn::{KnnAccuracy, KnnVote, Neighbor, nearest};
pub use linear::{LinearEpoch, LinearProbe, LinearRecipe, linear};
pub use picture::{Tile, sheet};
pub use rows::{Rows, collect};

#[cfg(test)]
mod tests;
