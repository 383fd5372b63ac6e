//! Images with objects in a file of annotations, as COCO has them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;

use super::objects::Objects;
use super::{Place, Sample, Source, share};
use crate::coco::{Coco, CocoError};
use crate::text::counted;
use crate::{DataConfig, DataError, OnError};

/// Images with a shorter side are not trained on, as in mmdetection.
const LEAST_SIDE: u32 = 32;

/// All images of a split, which is in a folder of this name; with `classes` given, these must be its classes.
///
/// # Errors
/// If the file of annotations is missing or invalid, or images are missing unless `data.on_error` skips them.
pub(super) fn open(
    data: &DataConfig,
    split: &str,
    folder: &str,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    let coco = Coco::read(&data.annotations(split), data.on_error)?;
    if data.val_fraction > 0.0 {
        let reason = "`data.val_fraction` divides folders, not files of annotations: leave it out, and name the files of both splits";
        return Err(DataError::records(coco.path, reason));
    }
    let source = listed(coco, data.path.join(folder))?.with_classes(classes)?;
    if data.on_error == OnError::Fail {
        refuse_missing(&source)?;
    }
    source.not_empty(Some(split))
}

/// All images of a split, for a check: what is invalid or missing is no error.
pub(super) fn survey(data: &DataConfig, split: &str, folder: &str) -> Result<Source, DataError> {
    let coco = Coco::read(&data.annotations(split), OnError::Skip)?;
    listed(coco, data.path.join(folder))
}

/// The images of a file of annotations, in a folder.
fn listed(coco: Coco, root: PathBuf) -> Result<Source, DataError> {
    let samples = coco.images.iter().map(|image| Sample {
        path: root.join(&image.file_name),
        label: 0,
        place: Place::File,
    });
    let samples: Vec<Sample> = samples.collect();
    let notes = shared(&coco, &samples).into_iter().collect();
    let names = coco.categories.iter().map(|class| class.name.clone());
    let source = Source::new(root, names.collect(), samples)?;
    Ok(Source {
        notes,
        objects: Some(Arc::new(Objects {
            images: (0..coco.images.len()).collect(),
            coco: Arc::new(coco),
            trains: false,
        })),
        ..source
    })
}

/// A warning about images that are one file: what one of them has as objects is background in the other.
fn shared(coco: &Coco, samples: &[Sample]) -> Option<String> {
    let mut files = HashSet::new();
    let mut again = samples
        .iter()
        .filter(|sample| !files.insert(sample.path.as_path()));
    let first = again.next()?;
    Some(format!(
        "{} of `{}` with the `file_name` of another image, such as `{}`: each has the objects of its own id alone",
        counted(1 + again.count(), "image"),
        coco.path.display(),
        first.path.display()
    ))
}

/// Without the images that have no object to train on, or a side below [`LEAST_SIDE`].
pub(super) fn for_training(source: Source) -> Result<Source, DataError> {
    let Some(objects) = source.objects.clone() else {
        return Ok(source);
    };
    let (mut without, mut small) = (0, 0);
    let look = |index: usize| {
        let found = u32::try_from(index).ok();
        let found = found.and_then(|index| source.objects(index));
        let (has_objects, is_large) = found.map_or((false, false), |found| {
            let (height, width) = found.image.size;
            let has_objects = found.trained().next().is_some();
            (has_objects, height.min(width) >= LEAST_SIDE)
        });
        without += usize::from(!has_objects);
        small += usize::from(!is_large);
        has_objects && is_large
    };
    let trains: Vec<bool> = (0..source.samples.len()).map(look).collect();
    if !trains.contains(&true) {
        return Err(CocoError::NothingTrains {
            path: objects.coco.path.clone(),
            images: trains.len(),
            without,
            small,
            least: LEAST_SIDE,
        }
        .into());
    }
    let mut chosen = share::chosen(&source, |index| trains.get(index) == Some(&true));
    if let Some(objects) = &mut chosen.objects {
        Arc::make_mut(objects).trains = true;
    }
    Ok(chosen)
}

/// The same images, if one has an object that counts: without one there is no average precision, which an epoch would tell too late.
pub(super) fn for_evaluation(source: Source) -> Result<Source, DataError> {
    let Some(coco) = source.coco().cloned() else {
        return Ok(source);
    };
    let images = source.samples.len();
    let mut all = (0..u32::MAX)
        .take(images)
        .filter_map(|index| source.objects(index));
    if all.any(|found| found.annotations.iter().any(|object| !object.is_crowd)) {
        return Ok(source);
    }
    Err(CocoError::NothingEvaluates {
        path: coco.path.clone(),
        images,
    }
    .into())
}

/// Rejects images whose files are not there: they would be met after hours.
fn refuse_missing(source: &Source) -> Result<(), DataError> {
    // On many threads, since each query of a remote disk is slow.
    let samples = source.samples.par_iter();
    let missing = samples.filter(|sample| !sample.path.is_file());
    let name = |sample: &Sample| source.relative(sample).display().to_string();
    let missing: Vec<String> = missing.map(name).collect();
    let Some(coco) = source.coco().filter(|_| !missing.is_empty()) else {
        return Ok(());
    };
    Err(CocoError::MissingImages {
        path: coco.path.clone(),
        folder: source.root.clone(),
        missing,
    }
    .into())
}

#[cfg(test)]
mod tests;
