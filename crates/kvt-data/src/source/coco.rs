//! Images with objects in a file of annotations, as COCO has them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;

use super::objects::Objects;
use super::{Place, Sample, Source, share};
use crate::coco::Coco;
use crate::text::{counted, quoted};
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
    // Whether each has an object, and is large enough.
    let looks = source.all_objects().map(|found| {
        let (height, width) = found.image.size;
        let is_large = height.min(width) >= LEAST_SIDE;
        (found.trained().next().is_some(), is_large)
    });
    let looks: Vec<(bool, bool)> = looks.collect();
    if !looks.contains(&(true, true)) {
        let without = looks.iter().filter(|look| !look.0).count();
        let small = looks.iter().filter(|look| !look.1).count();
        let reason = format!(
            "it has no image to train on: of {}, {without} have no object that is trained on, and {small} have a side below \
             {LEAST_SIDE} px; `kvt data check` tells why",
            looks.len()
        );
        return Err(DataError::records(&objects.coco.path, reason));
    }
    let mut chosen = share::chosen(&source, |index| looks.get(index) == Some(&(true, true)));
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
    let counts = source
        .all_objects()
        .flat_map(|found| found.annotations)
        .any(|object| !object.is_crowd);
    if counts {
        return Ok(source);
    }
    let reason = format!(
        "it has no object that counts in any of its {} images: an evaluation needs one that is no crowd; `kvt data check` tells more",
        source.samples.len()
    );
    Err(DataError::records(&coco.path, reason))
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
    let reason = format!(
        "{} of the images are not in `{}`: {}; `data.path` and the split name this folder, `data.on_error = \"skip\"` passes over \
         what is missing",
        missing.len(),
        source.root.display(),
        quoted(&missing)
    );
    Err(DataError::records(&coco.path, reason))
}

#[cfg(test)]
mod tests;
