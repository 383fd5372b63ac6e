//! What can be wrong with an annotation file.

use std::path::PathBuf;

use super::rle::RleError;
use crate::text::quoted;

/// An annotation file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CocoError {
    /// It cannot be opened.
    #[error(
        "could not open the annotations `{}`: {reason}; `data.train_annotations` and `data.val_annotations` name these files",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// It cannot be read, or is not such a file.
    #[error(
        "`{}` is not a file of annotations as COCO has it (`images`, `annotations`, `categories`): {reason}", path.display()
    )]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        reason: String,
    },
    /// Two entries with one id.
    #[error("`{}` has two {what} with the id {id}: write the file again with ids of their own", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// Of what there are two: `images`, `annotations` or `categories`.
        what: &'static str,
        /// Their id.
        id: u64,
    },
    /// An annotation of an image or a category that the file does not have.
    #[error(
        "`{}`: annotation {annotation} is of {what} {id}, which is not in the file: leave it out, or add the {what}",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The annotation's id.
        annotation: u64,
        /// `image` or `category`.
        what: &'static str,
        /// The missing id.
        id: u64,
    },
    /// An image that no file can have.
    #[error("`{}`: image {id}: {reason}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// The image's id.
        id: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// An invalid annotation.
    #[error("`{}`: annotation {id}: {fault}; `data.on_error = \"skip\"` leaves it out", path.display())]
    Annotation {
        /// The file.
        path: PathBuf,
        /// The annotation's id.
        id: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A file without categories.
    #[error("`{}` has no categories: they are the classes", .0.display())]
    NoCategories(PathBuf),
    /// Detections that cannot be read, or do not belong to the annotations.
    #[error("`{}` is not a file of detections as COCO has it: {reason}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Image files that are not in the folder.
    #[error(
        "{} of the images of `{}` are not in `{}`: {}; `data.path` and the split name this folder, `data.on_error = \"skip\"` passes over \
         what is missing",
        missing.len(), path.display(), folder.display(), quoted(missing)
    )]
    Missing {
        /// The annotation file.
        path: PathBuf,
        /// The folder of the images.
        folder: PathBuf,
        /// The names of the missing files.
        missing: Vec<String>,
    },
    /// No image to train on.
    #[error(
        "`{}` has no image to train on: of {images}, {without} have no object that is trained on, and {small} have a side below \
         {least} px; `kvt data check` tells why",
        path.display()
    )]
    NothingTrains {
        /// The annotation file.
        path: PathBuf,
        /// Number of its images.
        images: usize,
        /// Those without an object.
        without: usize,
        /// Those that are too small.
        small: usize,
        /// The least side in pixels.
        least: u32,
    },
    /// No object to evaluate by.
    #[error(
        "`{}` has no object that counts in any of its {images} images: an evaluation needs one that is no crowd; `kvt data check` tells more",
        path.display()
    )]
    NothingEvaluates {
        /// The annotation file.
        path: PathBuf,
        /// Number of its images.
        images: usize,
    },
}

/// What is wrong with an annotation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A box that is no list of four numbers.
    #[error("`bbox` has {numbers} numbers: expected `[x, y, width, height]`")]
    Box {
        /// How many numbers it has.
        numbers: usize,
    },
    /// A polygon that is no list of three or more corners.
    #[error("a polygon of {numbers} numbers: expected `x, y` of three corners or more")]
    Corners {
        /// How many numbers it has.
        numbers: usize,
    },
    /// A number where a polygon is expected.
    #[error(
        "`segmentation` is a list of numbers: expected a list of polygons, `[[x, y, x, y, x, y]]`"
    )]
    Flat,
    /// A coordinate that is far outside of any image.
    #[error("`{value:?}` is no coordinate of an image in pixels")]
    Coordinate {
        /// The coordinate.
        value: f64,
    },
    /// An outline that is longer than that of any object.
    #[error("the outline of a polygon is too long to be that of an object")]
    Outline,
    /// A run that is no number of pixels.
    #[error("run {position} of `counts` is `{value}`: expected a whole number of pixels")]
    Count {
        /// Its place, from 0.
        position: usize,
        /// Its value.
        value: f64,
    },
    /// Runs without a part of their description.
    #[error(
        "`segmentation` has no `{0}`: runs are `{{\"size\": [height, width], \"counts\": ...}}`"
    )]
    Lacks(&'static str),
    /// A mask of another size than the image.
    #[error("its mask has `{} x {}` pixels, the image `{} x {}` (height x width)", found.0, found.1, image.0, image.1)]
    Size {
        /// Height and width of the mask.
        found: (u32, u32),
        /// Height and width of the image.
        image: (u32, u32),
    },
    /// Runs that are no mask of the image.
    #[error(transparent)]
    Runs(#[from] RleError),
}
