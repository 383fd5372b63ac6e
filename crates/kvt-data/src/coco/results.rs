//! Detections in COCO's format of results, `[{"image_id": .., "category_id": .., "bbox": .., "score": ..}, ..]`.

use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

use super::rle::Rle;
use super::{Coco, segmentation};
use crate::{DataError, regular};

/// A detection.
#[derive(Debug, Clone, PartialEq)]
pub struct CocoResult {
    /// The id of its image.
    pub image: u64,
    /// Its class: a place in [`Coco::categories`].
    pub label: usize,
    /// `[x, y, width, height]` in pixels: that of the file, else that around the mask.
    pub bbox: [f64; 4],
    /// How sure it is.
    pub score: f64,
    /// Its pixels, if it has any.
    pub mask: Option<Rle>,
}

#[derive(Deserialize)]
struct Row {
    image_id: u64,
    category_id: u64,
    bbox: Option<[f64; 4]>,
    score: f64,
    #[serde(default)]
    segmentation: segmentation::Read,
}

/// The detections of a file for the images of annotations, in the order of the file.
///
/// # Errors
/// If it cannot be read, or a detection is of an image or a category that the annotations do not have, has neither box nor mask,
/// or a mask of another size than its image.
pub fn read_results(path: &Path, coco: &Coco) -> Result<Vec<CocoResult>, DataError> {
    let refused = |reason: String| {
        let reason = format!("this is not a file of detections as COCO has it: {reason}");
        DataError::records(path, reason)
    };
    let file = regular::open(path).map_err(|error| refused(error.to_string()))?;
    let rows: Vec<Row> = serde_json::from_reader(BufReader::new(file))
        .map_err(|error| refused(error.to_string()))?;
    let rows = rows.into_iter().enumerate();
    rows.map(|(number, row)| {
        row.found(coco)
            .map_err(|reason| refused(format!("detection {number}: {reason}")))
    })
    .collect()
}

impl Row {
    fn found(self, coco: &Coco) -> Result<CocoResult, String> {
        let unknown = |what: &str, id: u64| format!("the annotations have no {what} {id}");
        let id = self.image_id;
        let place = coco.images.binary_search_by_key(&id, |image| image.id);
        let of = place.ok().and_then(|at| coco.images.get(at));
        let of = of.ok_or_else(|| unknown("image", id))?;
        let id = self.category_id;
        let label = coco.categories.binary_search_by_key(&id, |class| class.id);
        let label = label.map_err(|_| unknown("category", id))?;
        let mask = self.segmentation.0.and_then(|form| form.mask(of.size));
        let mask = mask.map_err(|fault| fault.to_string())?;
        let around = mask.as_ref().map(|mask| mask.bounding_box().map(f64::from));
        let bbox = self.bbox.or(around);
        Ok(CocoResult {
            image: of.id,
            label,
            bbox: bbox.ok_or("it has neither `bbox` nor `segmentation`")?,
            score: self.score,
            mask,
        })
    }
}
