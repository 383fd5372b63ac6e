//! What COCO's annotation files are made of.

mod iou;
pub mod rle;
