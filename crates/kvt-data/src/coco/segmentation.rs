//! The mask of an object in the three forms that COCO has for it.

use serde::Deserialize;

use super::Fault;
use super::polygon::Polygon;
use super::rle::Rle;

/// Where an object is, in little memory: pixels are only computed when they are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segmentation {
    /// Nowhere but in its box.
    None,
    /// The parts of the object.
    Polygons(Box<[Polygon]>),
    /// Runs of pixels outside and inside.
    Runs {
        /// Height and width of the image.
        size: (u32, u32),
        /// The runs.
        counts: Box<[u32]>,
    },
    /// The same, compressed.
    Text {
        /// Height and width of the image.
        size: (u32, u32),
        /// The text.
        counts: Box<str>,
    },
}

impl Segmentation {
    /// Whether there is only a box.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// The pixels of an image of `(height, width)`; `None` if there is only a box.
    ///
    /// # Errors
    /// If the runs are of another image, or do not cover it.
    ///
    /// # Panics
    /// As [`Polygon::mask`].
    pub fn mask(&self, image: (u32, u32)) -> Result<Option<Rle>, Fault> {
        match self {
            Self::None => Ok(None),
            Self::Polygons(parts) => {
                let parts: Vec<Rle> = parts.iter().map(|part| part.mask(image)).collect();
                let parts = parts.split_first();
                Ok(parts.map(|(first, rest)| first.union(rest)))
            }
            &(Self::Runs { size: found, .. } | Self::Text { size: found, .. })
                if found != image =>
            {
                Err(Fault::Size { found, image })
            }
            Self::Runs { counts, .. } => Rle::new(image, counts.to_vec()).map(Some),
            Self::Text { counts, .. } => Rle::from_text(image, counts).map(Some),
        }
    }
}

/// A segmentation as the file has it. What is wrong with it is said once the annotation's id is known.
#[derive(Deserialize)]
#[serde(from = "Option<Form>")]
pub(super) struct Read(pub(super) Result<Segmentation, Fault>);

/// The forms in JSON.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected polygons, or runs with `size` and `counts`"
)]
enum Form {
    Polygons(Vec<Vec<f64>>),
    Numbers(Vec<f64>),
    Runs {
        size: Option<(u32, u32)>,
        counts: Option<Vec<f64>>,
    },
    Text {
        size: Option<(u32, u32)>,
        counts: Box<str>,
    },
}

impl Default for Read {
    fn default() -> Self {
        Self(Ok(Segmentation::None))
    }
}

impl From<Option<Form>> for Read {
    fn from(form: Option<Form>) -> Self {
        let lacks = |key| Err(Fault::Lacks(key));
        Self(match form {
            Some(Form::Polygons(parts)) if !parts.is_empty() => {
                let parts = parts.iter().map(|part| Polygon::new(part));
                let parts: Result<Box<[Polygon]>, Fault> = parts.collect();
                parts.map(Segmentation::Polygons)
            }
            Some(Form::Numbers(numbers)) if !numbers.is_empty() => Err(Fault::Flat(numbers[0])),
            Some(Form::Runs { size, counts }) => match (size, counts) {
                (None, _) => lacks("size"),
                (_, None) => lacks("counts"),
                (Some(size), Some(counts)) => {
                    let counts: Result<Box<[u32]>, Fault> =
                        counts.into_iter().enumerate().map(whole).collect();
                    counts.map(|counts| Segmentation::Runs { size, counts })
                }
            },
            Some(Form::Text { size, counts }) => match size {
                None => lacks("size"),
                Some(size) => Ok(Segmentation::Text { size, counts }),
            },
            _ => Ok(Segmentation::None),
        })
    }
}

/// A run, with its place.
fn whole((position, value): (usize, f64)) -> Result<u32, Fault> {
    let count = value as u32;
    if f64::from(count) == value {
        Ok(count)
    } else {
        Err(Fault::Count { position, value })
    }
}
