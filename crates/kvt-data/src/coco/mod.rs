//! COCO's annotation files: their JSON, and the masks in it.

mod annotations;
mod error;
mod iou;
pub(crate) mod json;
mod left_out;
pub mod polygon;
mod results;
pub mod rle;
mod segmentation;

pub use annotations::{Annotation, BadAnnotation, Category, Coco, CocoImage};
pub use error::Fault;
pub use left_out::LeftOut;
pub use polygon::Polygon;
pub use results::{CocoResult, read_results};
pub use rle::Rle;
pub use segmentation::Segmentation;
