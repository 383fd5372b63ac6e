//! The annotations of a split in the form of COCO's `instances_*.json`.

use serde::Serialize;

use super::file_name;
use super::scene::Object;
use crate::coco::Category;
use crate::coco::json::Image;
use crate::shapes::ShapesConfig;

/// A whole file. The id of an image is the number in its name, that of a class its value in the masks.
#[derive(Serialize)]
pub(super) struct Annotations {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

/// An object. The ids count from 1, because 0 means "no object" to pycocotools.
#[derive(Serialize)]
struct Annotation {
    id: usize,
    image_id: usize,
    category_id: u8,
    /// `[x, y, width, height]` in pixels.
    bbox: [u32; 4],
    /// Visible pixels.
    area: u32,
    iscrowd: u8,
    segmentation: Segmentation,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Segmentation {
    /// `x, y, x, y, ...` of one part, in pixels.
    Polygon([Vec<f64>; 1]),
    Runs {
        size: (u32, u32),
        counts: Vec<u32>,
    },
    Text {
        size: (u32, u32),
        counts: String,
    },
}

impl Annotations {
    /// Of the objects of all images in order.
    pub(super) fn new(config: &ShapesConfig, objects: impl Iterator<Item = Vec<Object>>) -> Self {
        let side = config.image_size;
        let (mut images, mut annotations) = (Vec::new(), Vec::new());
        for (image_id, objects) in objects.enumerate() {
            images.push(Image {
                id: image_id as u64,
                file_name: file_name(image_id),
                height: side,
                width: side,
            });
            for object in objects {
                let id = annotations.len() + 1;
                annotations.push(Annotation {
                    id,
                    image_id,
                    category_id: object.class,
                    bbox: object.mask.bounding_box(),
                    area: object.mask.area(),
                    iscrowd: u8::from(object.is_group),
                    segmentation: Segmentation::new(id, object),
                });
            }
        }
        let names = (0..).zip(config.class_names()).skip(1);
        let categories = names.map(|(id, name)| Category { id, name }).collect();
        Self {
            images,
            annotations,
            categories,
        }
    }
}

impl Segmentation {
    /// The three forms in turn. A polygon needs an outline, and groups are never compressed in COCO.
    fn new(turn: usize, object: Object) -> Self {
        let size = object.mask.size();
        match (turn % 3, object.outline) {
            (1, Some(corners)) => Self::Polygon([corners]),
            (2, _) if !object.is_group => Self::Text {
                size,
                counts: object.mask.to_text(),
            },
            _ => Self::Runs {
                size,
                counts: object.mask.counts().to_vec(),
            },
        }
    }
}
