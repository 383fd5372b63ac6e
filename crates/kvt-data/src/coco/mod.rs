//! What COCO's annotation files are made of.

pub mod rle;
