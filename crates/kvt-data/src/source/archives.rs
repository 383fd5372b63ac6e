//! A split in files that hold many images: shards or Parquet files.

use super::splits::refuse_side_by_side;
use super::{Known, Source, parquet, shards};
use crate::{DataConfig, DataError, DataKind};

/// The images of shards or Parquet files: those of a split, or all. If the files do not name the classes, they are
/// those of `known`, or otherwise numbers.
pub(super) fn listed(
    data: &DataConfig,
    split: Option<&str>,
    known: Option<Known<'_>>,
) -> Result<Source, DataError> {
    let root = &data.path;
    let source = if data.kind == DataKind::Tar {
        let dir = split.map_or_else(|| root.clone(), |split| root.join(split));
        if !shards::is_here(&dir) && shards::is_here(root) {
            refuse_side_by_side(root, &shards::files(root))?;
        }
        shards::open(&dir, known.map(|known| known.classes))?
    } else {
        let files = match split {
            Some(split) => parquet::files(root, split),
            None => parquet::all_files(root),
        };
        if files.is_empty() {
            return Err(DataError::NoParquet {
                path: root.clone(),
                split: split.map(str::to_owned),
            });
        }
        parquet::open(
            root,
            &files,
            (&data.label_column, data.label_sets),
            data.class_order,
            known,
        )?
    };
    source.not_empty(split)
}

/// The images of a split of tables whose labels are texts such as `cat|dog`, or have a column for each class; or all.
pub(super) fn label_sets(
    data: &DataConfig,
    split: Option<&str>,
    classes: Option<&[String]>,
) -> Result<Source, DataError> {
    listed(data, split, None)?.split_labels(classes, data.class_order)
}
