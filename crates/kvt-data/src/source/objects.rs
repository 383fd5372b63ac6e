//! Images with objects: what an annotation file says about the samples of a source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use image::RgbImage;

use super::Source;
use super::share::of_chosen;
use crate::coco::{Annotation, Coco, CocoImage, LeftOut};
use crate::text::counted;
use crate::{DecodeError, ImageLimits};

/// The annotations of a source's images.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    pub(super) coco: Arc<Coco>,
    /// The place of each sample in [`Coco::images`].
    pub(super) images: Vec<usize>,
    /// Whether images without an object that is trained on are left out.
    pub(super) trains: bool,
}

/// An image and its objects, as the file of annotations has them.
#[derive(Debug, Clone, Copy)]
pub struct ImageObjects<'a> {
    /// The image.
    pub image: &'a CocoImage,
    /// All of its annotations, in the order of the file: crowds and what is not trained on too.
    pub annotations: &'a [Annotation],
}

impl<'a> ImageObjects<'a> {
    /// The objects that are trained on.
    pub fn trained(self) -> impl Iterator<Item = &'a Annotation> {
        let size = self.image.size;
        let is_trained = move |object: &&Annotation| object.left_out(size).is_none();
        self.annotations.iter().filter(is_trained)
    }
}

impl Objects {
    fn of(&self, sample: usize) -> Option<ImageObjects<'_>> {
        let place = *self.images.get(sample)?;
        Some(ImageObjects {
            image: self.coco.images.get(place)?,
            annotations: self.coco.annotations(place),
        })
    }

    fn all(&self) -> impl Iterator<Item = ImageObjects<'_>> {
        (0..self.images.len()).filter_map(|sample| self.of(sample))
    }

    pub(super) fn class_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.coco.categories.len()];
        for image in self.all() {
            let labels = image.trained().map(|object| object.label);
            for label in labels.collect::<BTreeSet<usize>>() {
                if let Some(count) = counts.get_mut(label) {
                    *count += 1;
                }
            }
        }
        counts
    }

    /// What is left out of training, in words.
    pub(super) fn warnings(&self) -> Vec<String> {
        let path = self.coco.path.display();
        let mut warnings = Vec::new();
        if let Some(first) = self.coco.bad.first() {
            warnings.push(format!(
                "{} of `{path}` left out as invalid; the first one, {}: {}",
                counted(self.coco.bad.len(), "annotation"),
                first.id,
                first.fault
            ));
        }
        if !self.trains {
            return warnings;
        }
        let mut left: BTreeMap<LeftOut, usize> = BTreeMap::new();
        let mut objects = 0;
        // Those of the whole file: images that lose all their objects are not among the samples.
        for (place, image) in self.coco.images.iter().enumerate() {
            let annotations = self.coco.annotations(place);
            objects += annotations.len();
            let reasons = annotations.iter();
            for reason in reasons.filter_map(|object| object.left_out(image.size)) {
                *left.entry(reason).or_default() += 1;
            }
        }
        // Crowds are part of the format, and nobody's mistake.
        left.remove(&LeftOut::Crowd);
        if !left.is_empty() {
            let parts = left
                .iter()
                .map(|(reason, count)| format!("{count} {}", reason.words()));
            warnings.push(format!(
                "of {objects} objects in `{path}`, some are not trained on: {}",
                parts.collect::<Vec<_>>().join(", ")
            ));
        }
        warnings
    }

    /// The annotations of the chosen samples.
    pub(super) fn chosen(&self, is_chosen: impl Fn(usize) -> bool) -> Self {
        Self {
            coco: Arc::clone(&self.coco),
            images: of_chosen(&self.images, is_chosen),
            trains: self.trains,
        }
    }
}

impl Source {
    /// The annotation file, where images have objects. It may have more images than the source.
    pub fn coco(&self) -> Option<&Arc<Coco>> {
        Some(&self.objects.as_ref()?.coco)
    }

    /// The objects of all images in order, where images have objects.
    pub fn all_objects(&self) -> impl Iterator<Item = ImageObjects<'_>> {
        self.objects.iter().flat_map(|objects| objects.all())
    }

    /// The objects of an image, where images have objects.
    pub(super) fn objects(&self, index: u32) -> Option<ImageObjects<'_>> {
        self.objects.as_ref()?.of(index as usize)
    }

    /// Whether each image is wider than high, by sample, as its annotations say; `None` where images have no objects.
    pub fn orientations(&self) -> Option<Vec<bool>> {
        let sizes = self.objects.as_ref()?.all().map(|found| found.image.size);
        Some(sizes.map(|(height, width)| width > height).collect())
    }

    /// The image of a sample, and its objects. The image has the size that its annotations say, for which it may be turned by its
    /// orientation.
    ///
    /// # Errors
    /// [`DecodeError`] with the path of the image, and a reason that names the file of annotations where the two differ.
    pub fn annotated(
        &self,
        index: u32,
        limits: ImageLimits,
    ) -> Result<(RgbImage, ImageObjects<'_>), DecodeError> {
        let sample = self.sample(index)?;
        let bad = |reason| sample.error(reason);
        let found = self.coco().zip(self.objects(index));
        let (coco, found) = found.ok_or_else(|| bad("the image has no annotations".to_owned()))?;
        let (height, width) = found.image.size;
        let image = self.image_of_size(index, (width, height), limits, &coco.path);
        Ok((image.map_err(bad)?, found))
    }
}
