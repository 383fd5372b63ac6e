//! Saved logits of a teacher.

use std::collections::BTreeMap;

use burn::tensor::{DType, Device, Tensor, TensorData, f16};
use kvt_models::weights::StateDict;

use super::{TeacherError, same_classes};
use crate::data::{Source, listing_of};

/// The tensor with the logits.
pub const LOGITS: &str = "logits";
/// The tensor with the labels of the images, if the file contains one.
pub const LABELS: &str = "labels";

/// The metadata with the class names, a list in JSON.
const CLASSES: &str = "classes";
/// The metadata with the [hash](listing_of) of the images, in hexadecimal digits.
const LISTING: &str = "listing";

/// The metadata of a file with the logits of these images: what they are, since rows have no names.
///
/// # Errors
/// None in practice: names are strings.
pub fn origin(source: &Source) -> serde_json::Result<BTreeMap<String, String>> {
    let classes = serde_json::to_string(&source.classes)?;
    let listing = format!("{:016x}", listing_of(source));
    let named = [(CLASSES, classes), (LISTING, listing)];
    Ok(named.map(|(name, text)| (name.to_owned(), text)).into())
}

/// Checks that the metadata of a file is that of logits of these images. `false` if it does not say so, as in a file of another
/// program.
pub(super) fn is_of(
    metadata: &BTreeMap<String, String>,
    source: &Source,
) -> Result<bool, TeacherError> {
    let classes = metadata.get(CLASSES);
    let classes: Option<Vec<String>> = classes.and_then(|text| serde_json::from_str(text).ok());
    if let Some(classes) = &classes {
        same_classes(classes, &source.classes)?;
    }
    let listing = metadata.get(LISTING);
    match listing {
        Some(listing) if *listing != format!("{:016x}", listing_of(source)) => {
            Err(TeacherError::Images)
        }
        _ => Ok(classes.is_some() && listing.is_some()),
    }
}

/// The logits of all training images, in host memory.
#[derive(Clone, Debug)]
pub struct SavedLogits {
    rows: Rows,
    classes: usize,
}

/// The rows, in the type of the file: for ImageNet they take gigabytes.
#[derive(Clone, Debug)]
enum Rows {
    Half(Vec<f16>),
    Single(Vec<f32>),
}

impl SavedLogits {
    /// Reads the tensors of a file, for training images with these labels.
    ///
    /// # Errors
    /// If there are no logits, or they are not for these images.
    pub fn new(file: &StateDict, labels: &[u32], classes: usize) -> Result<Self, TeacherError> {
        let data = file.get(LOGITS).ok_or(TeacherError::NoLogits)?;
        let shape = data.shape().to_vec();
        if shape != [labels.len(), classes] || !data.dtype().is_float() {
            return Err(TeacherError::Shape {
                found: shape,
                images: labels.len(),
                classes,
            });
        }
        if let Some(Ok(known)) = file.get(LABELS).map(|known| known.try_to_vec::<i64>()) {
            let mut pairs = known.into_iter().zip(labels).enumerate();
            let other =
                |(_, (teacher, student)): &(usize, (i64, &u32))| *teacher != i64::from(**student);
            if let Some((image, (teacher, &student))) = pairs.find(other) {
                return Err(TeacherError::Labels {
                    image,
                    teacher,
                    student,
                });
            }
        }
        let rows = match data.dtype() {
            DType::F16 => data.try_to_vec().map(Rows::Half),
            _ => data.clone().convert::<f32>().try_to_vec().map(Rows::Single),
        };
        // The type was checked above.
        let Ok(rows) = rows else {
            return Err(TeacherError::NoLogits);
        };
        let logits = Self { rows, classes };
        let broken = |&image: &usize| logits.row(image).any(|logit| !logit.is_finite());
        match (0..labels.len()).find(broken) {
            Some(image) => Err(TeacherError::NotFinite(image)),
            None => Ok(logits),
        }
    }

    /// The logits of these images, `[images, classes]`.
    pub(super) fn rows(&self, indices: &[u32], device: &Device) -> Tensor<2> {
        let numbers = indices.iter().flat_map(|&index| self.row(index as usize));
        let rows: Vec<f32> = numbers.collect();
        Tensor::from_data(TensorData::new(rows, [indices.len(), self.classes]), device)
    }

    fn row(&self, image: usize) -> impl Iterator<Item = f32> {
        let place = image * self.classes..(image + 1) * self.classes;
        let (half, single) = match &self.rows {
            Rows::Half(rows) => (rows.get(place), None),
            Rows::Single(rows) => (None, rows.get(place)),
        };
        let half = half.into_iter().flatten().map(|logit| logit.to_f32());
        half.chain(single.into_iter().flatten().copied())
    }
}
