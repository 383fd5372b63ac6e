//! The content and layout of a folder of images: with splits, or only classes.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{FinetuneError, keys, text};
use kvt_data::text::quoted;
use kvt_data::{
    ColorKind, DataConfig, DataError, DataKind, FolderError, ImageLimits, TEST, TRAIN, VAL,
    is_split, is_whole,
};
use kvt_train::config::{ConfigError, Document};
use kvt_train::error::TrainError;

/// The fraction of each class that is kept for validation if there is no folder of validation images.
const VAL_FRACTION: f64 = 0.2;
/// The usual name of a table of labels.
const LABELS: &str = "labels.csv";
/// How many images are asked for their size and their colours.
const MEASURED: usize = 15;

/// The images of a user.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Images {
    pub(super) data: DataConfig,
    /// The names of the splits in it; without them it contains all images, or CIFAR's own two splits.
    splits: Option<[&'static str; 2]>,
    /// Tables of labels of which none is chosen.
    tables: Vec<String>,
    pub(super) classes: usize,
    /// Number of training images.
    pub(super) train: usize,
    /// Length of the shorter side of a training image in pixels: the median of some. `None` if none could be read.
    pub(super) side: Option<u32>,
    /// Whether some training images were read, and are grey.
    pub(super) is_grey: bool,
    /// The last part of the folder's path.
    name: String,
}

impl Images {
    /// Inspects a folder of CIFAR's files, Parquet files, tar shards, or otherwise images. The `chosen` settings are used:
    /// the table or the column of the labels, the validation fraction, and the number of training images.
    pub(super) fn of(folder: &Path, chosen: &Document) -> Result<Self, FinetuneError> {
        let mut images = Self::by_layout(folder)?;
        if let Some(column) = chosen.value("data.label_column").and_then(Value::as_str) {
            column.clone_into(&mut images.data.label_column);
        }
        images.data.labels = match chosen.value("data.labels").and_then(Value::as_str) {
            Some(labels) => labels.to_owned(),
            None => images.usual_table(folder)?,
        };
        if !images.data.labels.is_empty() {
            images.splits = None;
            images.data = DataConfig {
                kind: DataKind::Folder,
                path: folder.to_owned(),
                labels: images.data.labels,
                label_column: images.data.label_column,
                ..DataConfig::default()
            };
            let is_divided = kvt_data::has_splits(&images.data)?;
            images.data.val_fraction = if is_divided { 0.0 } else { VAL_FRACTION };
        }
        if let Some(share) = chosen.value("data.val_fraction").and_then(Value::as_float) {
            images.data.val_fraction = share;
        }
        let subset = chosen.value("data.subset").and_then(Value::as_integer);
        if let Some(subset) = subset.and_then(|subset| usize::try_from(subset).ok()) {
            images.data.subset = subset;
        }
        let [train, _] = kvt_data::open(&images.data, None)?;
        if let [class] = train.classes.as_slice() {
            let class = class.clone();
            let data = train.root;
            return Err(TrainError::OneClass { class, data }.into());
        }
        images.side = side(&train);
        images.is_grey = is_grey(&train);
        (images.classes, images.train) = (train.classes.len(), train.samples.len());
        Ok(images)
    }

    /// The images of a folder from its layout only, without counting them.
    pub(super) fn by_layout(folder: &Path) -> Result<Self, FinetuneError> {
        if !folder.is_dir() {
            return Err(DataError::from(FolderError::MissingFolder(folder.to_owned())).into());
        }
        let (kind, path, splits) = layout(folder);
        let named = |path: &Path| {
            let name = path.file_name()?;
            Some(name.to_string_lossy().into_owned())
        };
        // For a link, its own name, which the user knows; `.` and `..` have none.
        let name = named(folder).or_else(|| named(&folder.canonicalize().ok()?));
        let mut data = DataConfig {
            kind,
            path,
            ..DataConfig::default()
        };
        if let Some(splits) = splits {
            [data.train, data.val] = splits.map(str::to_owned);
        } else if kind != DataKind::Cifar {
            data.val_fraction = VAL_FRACTION;
        }
        Ok(Self {
            data,
            splits,
            tables: Vec::new(),
            classes: 0,
            train: 0,
            side: None,
            is_grey: false,
            name: name.unwrap_or_else(|| "images".to_owned()),
        })
    }

    /// The table of labels in a folder of images without splits or folders of classes: the one with the usual name, or the only one.
    fn usual_table(&mut self, folder: &Path) -> Result<String, FinetuneError> {
        if self.data.kind != DataKind::Folder || self.splits.is_some() {
            return Ok(String::new());
        }
        let mut tables = kvt_data::label_tables(folder);
        let opened = kvt_data::open(&self.data, None);
        let has_classes = matches!(&opened, Ok([train, _]) if train.classes.len() > 1);
        // A list of some of the images that happens to be beside them does not replace their folders.
        if tables.is_empty() || has_classes {
            self.tables = tables;
            return Ok(String::new());
        }
        let only = (tables.len() == 1).then_some(0);
        match tables.iter().position(|name| name == LABELS).or(only) {
            Some(place) => Ok(tables.swap_remove(place)),
            None => match opened {
                Ok(_)
                | Err(DataError::Folder(
                    FolderError::NoClasses(_) | FolderError::FlatFolder { .. },
                )) => Err(FinetuneError::SeveralTables {
                    path: folder.to_owned(),
                    tables,
                }),
                // Folders of classes of which one cannot be read, which is told when they are opened.
                Err(_) => {
                    self.tables = tables;
                    Ok(String::new())
                }
            },
        }
    }

    /// The folder of a run on these images.
    pub(super) fn run_dir(&self) -> PathBuf {
        Path::new("runs").join("finetune").join(&self.name)
    }

    /// The keys of `[data]`.
    pub(super) fn keys(&self) -> Result<Table, FinetuneError> {
        let data = &self.data;
        let kind = Value::try_from(data.kind).map_err(ConfigError::from);
        let mut keys = keys([
            ("kind", kind.map_err(Box::new)?),
            ("path", text(&data.path)?),
            // With few images, none is dropped.
            ("drop_last", false.into()),
        ]);
        if let Some([train, val]) = self.splits {
            keys.insert("train".to_owned(), train.into());
            keys.insert("val".to_owned(), val.into());
        }
        if !data.labels.is_empty() {
            keys.insert("labels".to_owned(), data.labels.clone().into());
        }
        if data.val_fraction > 0.0 {
            keys.insert("val_fraction".to_owned(), data.val_fraction.into());
        }
        Ok(keys)
    }

    /// A description of the folder.
    pub(super) fn describe(&self) -> String {
        let data = &self.data;
        let kind = match data.kind {
            // No folder is taken for one of masks or of objects.
            DataKind::Folder | DataKind::Shapes | DataKind::Masks | DataKind::Coco => "",
            DataKind::Tar => " (tar shards)",
            DataKind::Parquet => " (Parquet)",
            DataKind::Cifar => " (CIFAR)",
        };
        let validation = match self.splits {
            Some([_, test]) if TEST.contains(&test) => format!(
                "validated on those in `{test}`, which choose the best checkpoint: there are no others"
            ),
            Some([_, val]) => format!("validated on those in `{val}`"),
            None if data.val_fraction == 0.0 && !data.labels.is_empty() => {
                format!("divided by `{}`", data.labels)
            }
            None if data.val_fraction == 0.0 => "validated on its test images".to_owned(),
            None => format!(
                "{:.0} % of each class are kept for validation",
                100.0 * data.val_fraction
            ),
        };
        let labels = match data.labels.as_str() {
            "" => String::new(),
            labels => format!(", labels of `{labels}`"),
        };
        let unused = match self.tables.as_slice() {
            [] => String::new(),
            tables => format!("; `data.labels` can name one of {}", quoted(tables)),
        };
        format!(
            "images   `{}`{kind}{labels}: {} classes, {} images to train on, {validation}{unused}",
            data.path.display(),
            self.classes,
            self.train
        )
    }
}

/// The median length of the shorter sides of images at equal distances. Training reports those that cannot be read.
fn side(source: &kvt_data::Source) -> Option<u32> {
    let sizes = places(source).filter_map(|place| {
        let index = u32::try_from(place).ok()?;
        source.size(index, ImageLimits::default()).ok()
    });
    let mut sides: Vec<u32> = sizes.map(|(width, height)| width.min(height)).collect();
    sides.sort_unstable();
    sides.get(sides.len() / 2).copied()
}

/// Whether the files of the same images have no colours, and there are some. The first one with colours ends the search.
fn is_grey(source: &kvt_data::Source) -> bool {
    let limits = ImageLimits::default();
    let colors = places(source).filter_map(|place| {
        let bytes = source.bytes(source.samples.get(place)?, limits).ok()?;
        Some(source.picture(&bytes, limits).ok()?.color)
    });
    let mut colors = colors.peekable();
    colors.peek().is_some() && colors.all(|color| color == ColorKind::Grey)
}

/// The places of images at equal distances.
fn places(source: &kvt_data::Source) -> impl Iterator<Item = usize> {
    let count = source.samples.len();
    let some = MEASURED.min(count);
    (0..some).map(move |n| n * count / some)
}

/// The kind of data in a folder, the location of its splits or of all its images, and the names of the splits. Images are
/// checked last: a folder of shards is a class folder without images.
fn layout(folder: &Path) -> (DataKind, PathBuf, Option<[&'static str; 2]>) {
    if is_split(DataKind::Cifar, folder, "") {
        return (DataKind::Cifar, folder.to_owned(), None);
    }
    for kind in [DataKind::Parquet, DataKind::Tar, DataKind::Folder] {
        // An archive next to the class folders that were unpacked from it is not a shard.
        let is_shadowed = |dir: &Path| kind == DataKind::Tar && is_whole(DataKind::Folder, dir);
        let split = |names: &[&'static str]| {
            let mut names = names.iter().copied();
            names.find(|name| is_split(kind, folder, name) && !is_shadowed(&folder.join(name)))
        };
        match (split(&TRAIN), split(&VAL).or_else(|| split(&TEST))) {
            (Some(train), Some(val)) => return (kind, folder.to_owned(), Some([train, val])),
            // Its files may be next to each other, not in a folder.
            (Some(train), None) if is_whole(kind, &folder.join(train)) => {
                return (kind, folder.join(train), None);
            }
            _ if is_whole(kind, folder) && !is_shadowed(folder) => {
                return (kind, folder.to_owned(), None);
            }
            _ => {}
        }
    }
    (DataKind::Folder, folder.to_owned(), None)
}
