//! From one image of a source to its views and its target.

use std::sync::Arc;

use kvt_ops::Key;

use crate::augment::{AugmentError, Transform};
use crate::batch::Image;
use crate::{DataError, ImageLimits, Picture, Sample, Source};

/// Prepares an image for a task, on a worker thread. The result depends only on the image and the key.
pub trait Prepare<T>: Send + Sync {
    /// The views of a sample, and its target; `key` is that of all random draws.
    ///
    /// # Errors
    /// [`DataError::Decode`] if the sample is bad: `data.on_error` says what follows. Others if a setting does not fit the image.
    fn prepare(&self, source: &Source, index: u32, key: Key) -> Result<Example<T>, DataError>;

    /// Number of views of each image.
    fn views(&self) -> usize {
        1
    }
}

/// A prepared image.
#[derive(Debug, Clone, PartialEq)]
pub struct Example<T> {
    /// Its views.
    pub views: Vec<Image>,
    /// What a model is to say about it.
    pub target: T,
}

/// Views by transforms, with a target that follows from the sample alone: classification, and self-supervised training.
#[derive(Clone)]
pub struct Views<T = u32> {
    /// The transform of each view.
    pub transforms: Vec<Arc<Transform>>,
    /// The target of an image.
    pub target: fn(&Sample) -> T,
    /// Images that exceed them are unreadable.
    pub limits: ImageLimits,
    /// Whether only the part that the view uses may be decoded, at a smaller size; requires a single view.
    pub parts: bool,
}

impl<T> Prepare<T> for Views<T> {
    fn prepare(&self, source: &Source, index: u32, key: Key) -> Result<Example<T>, DataError> {
        let sample = source.sample(index)?;
        let look = |size| self.transforms.first()?.looks_at(size, key);
        let look = self.parts.then_some(&look as &dyn Fn(_) -> _);
        let picture = source.decode(index, self.limits, look)?;
        let views = self.augment(picture, key);
        Ok(Example {
            views: views.map_err(|error| error.at(&sample.path))?,
            target: (self.target)(sample),
        })
    }

    fn views(&self) -> usize {
        self.transforms.len()
    }
}

impl<T> Views<T> {
    /// The views of a decoded image. The first one uses the image's own key, the others numbered children of it.
    fn augment(&self, picture: Picture, key: Key) -> Result<Vec<Image>, AugmentError> {
        let Some((first, others)) = self.transforms.split_first() else {
            return Ok(Vec::new());
        };
        let image = match picture {
            Picture::Whole(image) => image,
            // Requested by the only view.
            Picture::Part(part) => return Ok(vec![first.apply_part(&part, key)?]),
        };
        let views = (1..).zip(others);
        let views = views.map(|(number, view)| view.apply(image.clone(), view_key(key, number)));
        let others: Vec<Image> = views.collect::<Result<_, _>>()?;
        // Last, so that a single view does not need a copy of the image.
        let mut views = vec![first.apply(image, key)?];
        views.extend(others);
        Ok(views)
    }
}

/// The key of a view of an image, from the key of the image.
pub fn view_key(image: Key, view: usize) -> Key {
    match view {
        0 => image,
        view => image.named("view").child(view as u64),
    }
}
