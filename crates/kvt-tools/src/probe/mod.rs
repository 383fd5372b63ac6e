//! How well the features of a backbone predict the classes without training it: by nearest neighbours ([`KnnVote`](kvt_train::knn_vote::KnnVote)) and by a linear
//! layer ([`LinearProbe`]); and where its tokens attend ([`attention_maps`]).

mod attention;
mod curve;
mod features;
mod images;
mod labelled;
mod layers;
mod linear;
mod neighbors;
mod overlay;
mod subject;

pub use attention::{HeadMap, NoMap, class_attention, draw_map};
pub use curve::draw_loss;
pub use features::Extractor;
pub use images::Crops;
pub(crate) use images::{cut_images, shuffled};
pub use labelled::{Labelled, labelled, readable};
pub use layers::{LayerMaps, Layers, Looking, attention_maps};
pub use linear::{LinearEpoch, LinearProbe, LinearRecipe, linear};
pub use neighbors::draw_neighbors;
pub use overlay::{Drawn, NOTE, glow, parts};
pub use subject::Subject;

#[cfg(test)]
mod tests;
