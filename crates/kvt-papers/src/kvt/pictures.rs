//! The images of figures 4 and 5, and their files.

use std::sync::Arc;

use image::RgbImage;
use kvt_ops::Key;

use super::inside::Inside;
use crate::{Outcome, ReproduceError};
use kvt_tools::preview;
use kvt_tools::probe::{Labelled, labelled};
use kvt_train::config::Plan;
use kvt_train::data::View;
use kvt_train::data::shapes::{Figure, render};
use kvt_train::error::TrainError;
use kvt_train::plot::{encode_png, png_in_svg};
use kvt_train::splits::{eval_transform, some_batches};

/// An input image of a model.
#[derive(Clone)]
pub(super) struct Sample {
    /// Its name.
    pub(super) name: String,
    /// Normalised pixels of one image.
    pub(super) view: View,
    /// The same image for display.
    pub(super) seen: RgbImage,
    /// Its class, if it is one of the model's classes.
    pub(super) label: Option<usize>,
}

/// Generated images, each of a large shape with some clutter.
pub(super) fn generated(
    plan: &Plan,
    side: usize,
    count: usize,
) -> Result<Vec<Sample>, ReproduceError> {
    let size = (side, side);
    let transform = eval_transform(plan, size).map_err(TrainError::from)?;
    let figures = Figure::ALL.into_iter().take(count);
    figures
        .map(|figure| {
            let key = Key::new(0).named("pictures").named(figure.name());
            let image = render(figure, side, 0.3, 0.0, key);
            let view = View::of(image, &transform, key)
                .map_err(|error| ReproduceError::Draw(error.to_string()))?;
            Ok(Sample {
                name: figure.name().to_owned(),
                seen: preview::picture(&view.pixels, size, &plan.augment),
                view,
                label: None,
            })
        })
        .collect()
}

/// Validation images, evenly spaced in the split.
pub(super) fn validation(
    plan: &Plan,
    inside: &Inside,
    side: usize,
    count: usize,
) -> Result<Vec<Sample>, ReproduceError> {
    let size = (side, side);
    let transform = Arc::new(eval_transform(plan, size).map_err(TrainError::from)?);
    let batches = some_batches(plan, &inside.splits.val, &transform, count);
    let mut samples = Vec::new();
    for batch in batches.map_err(TrainError::from)? {
        let batch = batch.map_err(TrainError::from)?;
        let (labels, views) = (batch.targets, batch.views);
        for view in views {
            let length = view.channels * side * side;
            for (pixels, label) in view.pixels.chunks_exact(length).zip(&labels) {
                let label = *label as usize;
                let class = inside.splits.classes().get(label);
                samples.push(Sample {
                    name: class.cloned().unwrap_or_else(|| label.to_string()),
                    seen: preview::picture(pixels, size, &plan.augment),
                    view: View::whole(pixels.to_vec(), view.channels, size),
                    label: Some(label),
                });
            }
        }
    }
    Ok(samples)
}

/// The result of a figure of two pictures, each in a file: of generated images, which is also the figure itself, and of validation images.
pub(super) fn outcome(
    name: &str,
    pictures: &[Vec<Vec<Labelled>>; 2],
    note: &str,
    csv: String,
    found: String,
) -> Result<Outcome, ReproduceError> {
    let mut made = Outcome {
        csv,
        found,
        ..Outcome::default()
    };
    for (rows, ending) in pictures.iter().zip(["", "-val"]) {
        let picture = labelled(rows, note).map_err(ReproduceError::Draw)?;
        let (width, height) = picture.dimensions();
        let png = encode_png(&picture, width, height).map_err(ReproduceError::Draw)?;
        if made.files.is_empty() {
            made.svg = png_in_svg(&png, (width, height));
        }
        made.files.push((format!("{name}{ending}.png"), png));
    }
    Ok(made)
}
