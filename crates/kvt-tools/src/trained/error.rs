//! Why a model cannot be judged.

use std::path::PathBuf;

use kvt_train::error::TrainError;

/// A model, images or classes with which nothing can be judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainedError {
    /// An error of the configuration, the weights, the images or the device.
    #[error(transparent)]
    Train(Box<TrainError>),
    /// A run without classes.
    #[error(
        "run `{}` has learned features, not classes: `kvt probe --run {}` judges them", .0.display(), .0.display()
    )]
    NoClasses(PathBuf),
    /// A network of which only some verbs have a use: its task, and what it does.
    #[error(
        "`task = \"{0}\"` {1}: `kvt eval`, `kvt predict` and `kvt report` take it, this verb does not"
    )]
    NotOfImages(&'static str, &'static str),
    /// A picture that cannot be drawn.
    #[error("could not draw a picture: {0}")]
    Draw(String),
    /// Weights of a classifier where a network for segmentation or detection is evaluated.
    #[error("`{}` are the weights of a classifier: they have no heads for pixels or objects, with which to evaluate; train them with `init.weights`", .0.display())]
    NoHeads(PathBuf),
    /// Images of another folder for a run of segmentation or detection: what it does, and what its images have.
    #[error(
        "run `{}` {}: it is judged on the images and {} of its own `[data]`, not on those of `--data`", .0.display(), .1, .2
    )]
    DenseFolder(PathBuf, &'static str, &'static str),
    /// A folder of images for a model of several labels for each image.
    #[error(
        "`{}`: a folder for each class gives an image one label, but the model gives it any number: it is judged on the images of its own `[data]`", .0.display()
    )]
    FolderOfLabels(PathBuf),
    /// The average of a DINO run.
    #[error(
        "`--ema`: a DINO run keeps no such average; the default is its teacher, and `--raw` selects the student"
    )]
    NoAverage,
    /// A configuration without weights.
    #[error("no weights: {0}")]
    NoWeights(&'static str),
    /// A model that timm does not have.
    #[error(
        "timm has no `{0}` of this family, size and attention: it has ViT, Swin, PiT, TNT, Visformer, Twins-SVT and VOLO in the sizes \
         of `kvt models list`, with dense attention; `kvt export` takes every model"
    )]
    NotInTimm(String),
    /// A file with the names of other classes.
    #[error("`{}` names {names} classes, but the model has {classes}", .path.display())]
    Names {
        /// The file.
        path: PathBuf,
        /// How many classes it names.
        names: usize,
        /// How many classes the model has.
        classes: usize,
    },
    /// A model whose classes have no names.
    #[error(
        "`--only-present`: the names of the model's classes are not known; give them with `--classes FILE`"
    )]
    NoNames,
    /// A class that the model does not have.
    #[error("there is no class `{class}`: the model has {known}")]
    NoSuchClass {
        /// The class.
        class: String,
        /// The classes that there are, in words.
        known: String,
    },
    /// No class to choose among.
    #[error("`--only` names no class")]
    NoClass,
    /// No image is left.
    #[error("`{}` has no image of the classes of `--only`", .0.display())]
    NoImage(PathBuf),
    /// All images were trained on.
    #[error(
        "all {images} images of `{}` are training images ({by}), which say nothing about new ones: leave out `--data` for the \
         validation images; `kvt eval --split train` evaluates the training images",
        .root.display()
    )]
    AllTrained {
        /// Their number.
        images: usize,
        /// Their folder.
        root: PathBuf,
        /// The keys that name the training images.
        by: &'static str,
    },
    /// The images of a run that cannot be read.
    #[error(
        "the images of run `{}` cannot be read: {problem}; say where they are with `--data DIR` or `--set data.path=DIR`, or leave \
         out `--eval` and `--samples`",
        .run.display()
    )]
    Images {
        /// The run.
        run: PathBuf,
        /// The error and its causes.
        problem: String,
    },
    /// Outputs that are not finite.
    #[error(
        "the loss over {images} images is {loss}: the logits are not finite; take other weights"
    )]
    Loss {
        /// The number of images.
        images: usize,
        /// The loss.
        loss: f64,
    },
    /// Some outputs that are not finite.
    #[error("the logits of {broken} of {images} images are not finite: take other weights")]
    Logits {
        /// The number of images whose logits are not finite.
        broken: usize,
        /// The number of images.
        images: usize,
    },
    /// An output that is not finite.
    #[error("the logits of `{}` are not finite: take other weights", .0.display())]
    LogitsOf(PathBuf),
    /// A file without images.
    #[error("`{}` has no tensor `images`", .0.display())]
    NoTensor(PathBuf),
    /// A file with other images.
    #[error("`images` in `{}` has shape {found:?}, expected [n, channels, height, width]", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The shape.
        found: Vec<usize>,
    },
}

/// Whatever can stop training.
impl<E: Into<TrainError>> From<E> for TrainedError {
    fn from(error: E) -> Self {
        Self::Train(Box::new(error.into()))
    }
}
