//! `[data]`: the images, and how they are read.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shapes::{CLASSES, Layout, ShapesConfig};
use super::{Balance, ClassOrder, IGNORED, ImageLimits};
use crate::schema::section;

section! {
    /// Images and how they are read.
    pub struct DataConfig {
        /// An image folder, tar shards, Parquet files, CIFAR's own files, generated shapes, images with masks, or COCO's images and objects.
        pub kind: DataKind = DataKind::Folder;
        /// Folder of the data, relative to the working directory; for shapes, where they are generated.
        pub path: PathBuf = PathBuf::new(),
            "minLength" = 1, "x-default" = "`data/shapes` for shapes, else required", "x-resume" = "free";
        /// Sub-folder of the training images, or the split's name in files' names. `train` also finds `training`.
        pub train: String = "train".to_owned(), "minLength" = 1;
        /// Sub-folder of the validation images, or the split's name in files' names. `val` also finds `valid`, `validation` and
        /// `dev`, but never test images: they would choose the best checkpoint.
        pub val: String = "val".to_owned(), "minLength" = 1;
        /// Share of each class that validates, for data without a split: classes or shards are in `path` itself. Which images
        /// these are follows from their names, not from the seed. 0 takes the folders `train` and `val`.
        pub val_fraction: f64 = 0.0, "x-range" = "[0, 1)";
        /// Number of training images to use; each class keeps its share. The choice follows from the names of the images, not
        /// from the seed. 0 takes all.
        pub subset: usize = 0, "x-range" = "[0, 4294967295]";
        /// Table of labels in `path`, a CSV file with the columns `path`, relative to its own folder, `label`, and `split` if wanted, in place of
        /// class folders; only for a folder. Without a column `split` the first folder of an image below `path` is its split.
        pub labels: String = String::new(), "x-default" = "none: folders are classes";
        /// Whether an image has any number of labels. No key: the task says so.
        #[serde(skip)]
        pub label_sets: bool = false;
        /// Column of the labels, whole numbers or names, of Parquet files alone. With `task = "multi-label"` texts such as `cat|dog`, or
        /// there is no such column: then each beside the images is a class, with 0 and 1 or false and true.
        pub label_column: String = "label".to_owned(), "minLength" = 1;
        /// Folder of the images, `<path>/<images>/<train>/**`; only for masks, as all keys up to `map`.
        pub images: String = "images".to_owned(), "minLength" = 1;
        /// Folder of the masks, PNGs whose grey values or palette indices are classes: that of an image has the same name in
        /// the same sub-folder of `<path>/<masks>/<train>`.
        pub masks: String = "masks".to_owned(), "minLength" = 1;
        /// Ending of the images' names before the dot, if it differs from that of the masks: `_leftImg8bit` in Cityscapes. Files with
        /// other endings are passed over.
        pub image_suffix: String = String::new();
        /// The same for the masks: `_gtFine_labelTrainIds` in Cityscapes.
        pub mask_suffix: String = String::new();
        /// Folder of lists, if splits are not folders: `<path>/<list>/<train>.txt` has the name of an image, without ending, on
        /// each line. `ImageSets/Segmentation` in PASCAL VOC. Empty: splits are folders.
        pub list: String = String::new();
        /// File with the names of the classes, one on each line or in the column `Name` of a table as in ADE20K's
        /// `objectInfo150.txt`; or their number. With `labels` too.
        pub classes: Option<ClassNames> = None, "x-default" = "from `map` or `labels`, else required for masks";
        /// Whether 0 in a mask is the first class, or no class: in ADE20K it is `ignored`, and class 0 is 1 in the masks.
        pub zero: ZeroMeans = ZeroMeans::Class;
        /// The value of pixels that are not trained on and not evaluated.
        pub ignore: u8 = IGNORED;
        /// Pairs of a value in the masks and its class, where values are not classes themselves; 255 is no class. Then all other
        /// values are ignored, and `zero` and `ignore` are not used.
        pub map: Vec<[u8; 2]> = Vec::new();
        /// File of the training annotations, relative to the folder of the data; only for `coco`, as `val_annotations` and `group_orientation`.
        /// Empty: `annotations/instances_<train>.json`.
        pub train_annotations: String = String::new();
        /// The same for the validation annotations. Empty: `annotations/instances_<val>.json`.
        pub val_annotations: String = String::new();
        /// Whether a training batch has either only images that are wider than high, or only others, so that little of it is
        /// padding. A batch that is not full gets more images of its kind: none is dropped.
        pub group_orientation: bool = true;
        /// Order of the class folders, which numbers the classes.
        pub class_order: ClassOrder = ClassOrder::Byte;
        /// Whether each epoch goes through the training images in a new random order.
        pub shuffle: bool = true;
        /// Whether training leaves out the last batch of an epoch when it is not full.
        pub drop_last: bool = true;
        /// Whether an epoch has each image once, or as many drawn with replacement, so that small classes come more often: `sqrt` a class as
        /// often as the square root of its size, `uniform` each class equally often. Only with `shuffle` and without `repeats`.
        pub balance: Balance = Balance::None;
        /// How often an epoch's list has each image, each copy augmented in another way (repeated augmentation). The epoch
        /// does not become longer: it sees fewer different images.
        pub repeats: usize = 1, "x-range" = "[1, 64]";
        /// The processes of an original recipe that are imitated: the copies of an image go to this many micro-batches in
        /// turn, and `train.accumulate` is a multiple of it. Only with `data.repeats` above 1.
        pub replicas: usize = 1, "x-range" = "[1, 64]";
        /// Threads that decode and augment; `"auto"` is the number of cores, at most 8, and 0 works on the training
        /// thread. The result does not depend on it.
        pub workers: Workers = Workers::Auto, "x-range" = "[0, 1024]", "x-resume" = "free";
        /// Batches that wait in the queue.
        pub prefetch: usize = 4, "x-range" = "[1, 1024]", "x-resume" = "free";
        /// MiB of memory for decoded images, so that they are decoded once: as many images as it holds, the first ones met.
        /// For small images; those of 224 px take 147 KiB each, CIFAR's 3 KiB.
        pub cache: u64 = 0, "x-range" = "[0, 1048576]", "x-resume" = "free";
        /// Whether training decodes only the part of a JPEG that the random crop shows, at 1/2, 1/4 or 1/8 of its size where that
        /// is enough. An evaluation decodes everything.
        pub decode: DecodeMode = DecodeMode::Exact;
        /// What to do with an image that cannot be read.
        pub on_error: OnError = OnError::Fail, "x-resume" = "free";
        /// How many unreadable images an epoch may skip; only with `on_error = "skip"`.
        pub max_skipped: usize = 100, "x-resume" = "free";
        /// Most pixels of an image (width times height). A larger one cannot be read, nor can a file of more than 4
        /// bytes per pixel of it and 64 MiB, so that no file takes the machine's memory. Images
        /// that `[dense]` or `[multiscale]` enlarges may not have more, either. The default is Pillow's.
        pub max_pixels: u64 = ImageLimits::default().max_pixels, "x-range" = "[1, inf)", "x-resume" = "free";
        /// Whether the sizes of the image files are noted in checkpoints and compared on resume, so that other contents
        /// under the same names are noticed.
        pub check_sizes: bool = true, "x-resume" = "free";
        /// The generated data set. Ignored unless `data.kind = "shapes"`.
        pub shapes: Option<ShapesConfig> = None;
    }
}

impl DataConfig {
    /// Whether each image has a mask of classes.
    pub fn is_masks(&self) -> bool {
        let is_dense = |shapes: &ShapesConfig| shapes.layout == Layout::Dense;
        let is_scenes = || self.shapes.as_ref().is_some_and(is_dense);
        self.kind == DataKind::Masks || (self.kind == DataKind::Shapes && is_scenes())
    }

    /// Whether each image can have objects with boxes, see [`as_objects`](Self::as_objects).
    pub fn is_objects(&self) -> bool {
        self.kind == DataKind::Coco || (self.kind == DataKind::Shapes && self.is_masks())
    }

    /// Whether training batches are of one orientation. Generated scenes are squares, all of one.
    pub fn groups_orientation(&self) -> bool {
        self.kind == DataKind::Coco && self.group_orientation
    }

    /// The file of a split's annotations: that of training, of validation, or the usual one of another split.
    pub fn annotations(&self, split: &str) -> PathBuf {
        let own = if split == self.train {
            &self.train_annotations
        } else if split == self.val {
            &self.val_annotations
        } else {
            ""
        };
        match own {
            "" => self
                .path
                .join(format!("annotations/instances_{split}.json")),
            own => self.path.join(own),
        }
    }

    /// The settings of a folder with annotations as COCO has them, or of generated scenes; `None` for another folder. COCO's splits
    /// are found by themselves where there are none of the given names.
    pub fn of_coco(dir: &Path, [train, val]: [&str; 2]) -> Option<Self> {
        let named = |[train, val]: [&str; 2]| Self {
            kind: DataKind::Coco,
            path: dir.to_owned(),
            train: train.to_owned(),
            val: val.to_owned(),
            ..Self::default()
        };
        let years = [["train2017", "val2017"], ["train2014", "val2014"]];
        let scenes = Self {
            kind: DataKind::Shapes,
            shapes: Some(ShapesConfig {
                layout: Layout::Dense,
                ..ShapesConfig::default()
            }),
            ..named([train, val])
        };
        let known = [[train, val]].into_iter().chain(years).map(named);
        let mut known = known.chain([scenes.as_objects().into_owned()]);
        known.find(|data| data.annotations(&data.train).is_file())
    }

    /// The settings by which the objects of images are read: generated scenes have COCO's annotations, whose names are those of the
    /// generator. Other data stays as it is. [`open`](crate::open) and its like read scenes as images with masks unless they get these.
    pub fn as_objects(&self) -> Cow<'_, Self> {
        if self.kind != DataKind::Shapes || !self.is_objects() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            kind: DataKind::Coco,
            path: self.path.clone(),
            train: "images/train".to_owned(),
            val: "images/val".to_owned(),
            train_annotations: "annotations/train.json".to_owned(),
            val_annotations: "annotations/val.json".to_owned(),
            subset: self.subset,
            on_error: self.on_error,
            group_orientation: false,
            ..Self::default()
        })
    }

    /// Whether each image can have any number of labels: by a table of labels, or by texts or a column for each class in Parquet
    /// files.
    pub fn can_have_label_sets(&self) -> bool {
        !self.labels.is_empty() || self.kind == DataKind::Parquet
    }

    /// The settings by which any number of labels of each image is read.
    pub fn as_label_sets(&self) -> Cow<'_, Self> {
        Cow::Owned(Self {
            label_sets: true,
            ..self.clone()
        })
    }

    /// The settings by which the files are read: generated scenes are images with masks, whose names are those of the generator.
    pub(crate) fn as_read(&self) -> Cow<'_, Self> {
        if self.kind != DataKind::Shapes || !self.is_masks() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            kind: DataKind::Masks,
            path: self.path.clone(),
            classes: Some(ClassNames::File(CLASSES.into())),
            subset: self.subset,
            ..Self::default()
        })
    }
}

/// The kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataKind {
    /// An image folder: `<path>/<train>/<class>/*`.
    Folder,
    /// Coloured shapes, generated on first use.
    Shapes,
    /// Tar shards as WebDataset has them: `<path>/<train>/*.tar`, each image beside its label, `.cls`.
    Tar,
    /// Parquet files as Hugging Face writes them: `<path>/<train>-00000-of-00001.parquet`, ..., or `<path>/<train>/*.parquet`.
    Parquet,
    /// CIFAR-10 or CIFAR-100 in the binary files of their authors.
    Cifar,
    /// Images with a mask each, whose pixels are classes: `<path>/<images>/<train>/**` and `<path>/<masks>/<train>/**`.
    Masks,
    /// Images with objects in a file of annotations, as COCO has them: `<path>/<train>/*` and
    /// `<path>/annotations/instances_<train>.json`.
    Coco,
}

/// The classes of masks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ClassNames {
    /// Their number; the names are numbers.
    Count(#[schemars(range(min = 1, max = 255))] usize),
    /// A file with their names, relative to the folder of the data.
    File(PathBuf),
}

/// What the value 0 of a mask means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZeroMeans {
    /// The first class.
    Class,
    /// No class; the first class is 1.
    Ignored,
}

/// How JPEGs are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DecodeMode {
    /// At their full size.
    Exact,
    /// The crop alone, smaller where it is at least twice as large as the input: faster, and other pixels.
    Scaled,
}

/// What an unreadable image does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// It ends the epoch with an error that names the file.
    Fail,
    /// It is passed over, up to `data.max_skipped` times in an epoch, and listed in `Loader::skipped`.
    Skip,
}

/// Threads that decode and augment. `Auto` stays as it is, so that a resolved configuration does not depend on the
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Workers {
    /// The number of cores, at most 8.
    Auto,
    /// This many; 0 works on the training thread.
    #[serde(untagged)]
    Count(usize),
}

impl Workers {
    /// The number of threads of a process that has `cores` for itself.
    pub fn count(self, cores: usize) -> usize {
        match self {
            Self::Auto => cores.min(8),
            Self::Count(count) => count,
        }
    }
}
