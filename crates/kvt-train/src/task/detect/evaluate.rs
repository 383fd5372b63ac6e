//! The evaluation of detection: image by image, since padding to a common size would change what windows and sub-sampled keys see.
//! `train` and `eval` use it.

use std::collections::BTreeSet;

use burn::tensor::Device;
use kvt_data::augment::Objects;
use kvt_models::dense::mask_rcnn::MaskRcnn;
use serde_json::{Value, json};

use super::ap::Instance;
use super::found::{OfImage, find_objects};
use super::score::{Scores, truths};
use crate::data::{Batch, DataError, Source};
use crate::error::TrainError;
use crate::task::evaluate::see_all;
use crate::world::World;

/// What is found in the images of a split, and how good it is.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectEvaluation {
    /// Average precision, and how many images and detections there are.
    pub scores: Scores,
    found: Vec<OfImage>,
    /// The ids of the classes in the file of annotations, in label order.
    categories: Vec<u64>,
}

impl DetectEvaluation {
    /// The detections in COCO's format of results, image by image, best first.
    pub fn results(&self) -> impl Iterator<Item = Value> {
        let all = self.found.iter();
        let all = all.flat_map(|of| of.found.iter().map(move |one| (of.id, one)));
        all.map(move |(image, one)| {
            let mut all = one.json();
            all.insert("image_id".to_owned(), json!(image));
            let category = self.categories.get(one.label);
            all.insert("category_id".to_owned(), json!(category));
            Value::from(all)
        })
    }
}

/// Evaluates a network on all batches of a loader of a source, if it could start, of one image each: all processes get what all have
/// found. `progress` is called with the number of completed images.
///
/// # Errors
/// If a batch cannot be loaded, no image can be read, no image has an object, or the device fails: in all processes.
///
/// # Panics
/// If the network has more classes than the source and finds an object of such a class, or if a batch is not of one image.
pub fn evaluate_objects(
    network: &MaskRcnn,
    batches: Result<impl Iterator<Item = Result<Batch<Objects>, DataError>>, DataError>,
    source: &Source,
    device: &Device,
    world: &dyn World,
    progress: impl FnMut(usize),
) -> Result<DetectEvaluation, TrainError> {
    let mut found = Vec::new();
    see_all(world, batches, progress, |batch: Batch<Objects>| {
        for (image, target) in batch.views.into_iter().zip(&batch.targets) {
            found.push(OfImage {
                id: target.image_id,
                found: find_objects(network, image, target.size, target.original, device)?,
            });
        }
        Ok(found.len())
    })?;
    if !world.is_alone() {
        // Shares are consecutive: in the order of the ranks, images are in the order of a single process.
        found = world.collect(&found)?;
    }
    if found.is_empty() {
        return Err(TrainError::NothingEvaluated);
    }
    let seen: BTreeSet<u64> = found.iter().map(|image| image.id).collect();
    // An image that could not be read says nothing about the network.
    let images = source.all_objects();
    let images = images.filter(|of| seen.contains(&of.image.id));
    let truths = truths(images, true);
    let compared = found.iter().flat_map(|of| {
        of.found.iter().map(move |one| Instance {
            image: of.id,
            class: one.label,
            bbox: one.bbox,
            area: None,
            is_crowd: false,
            score: one.score,
            mask: Some(one.mask.clone()),
        })
    });
    let compared: Vec<Instance> = compared.collect();
    let classes = source.classes.clone();
    let scores = Scores::of(found.len(), classes, &truths, &compared, true);
    if scores.boxes.ap.is_none() {
        return Err(TrainError::NoObjects(found.len()));
    }
    let categories = source.coco().into_iter().flat_map(|coco| &coco.categories);
    Ok(DetectEvaluation {
        scores,
        categories: categories.map(|class| class.id).collect(),
        found,
    })
}
