//! Images of a folder that a data set does not train on.

use std::collections::HashSet;
use std::path::PathBuf;

use rayon::prelude::*;

use crate::source::chosen;
use crate::{DataConfig, DataError, DataKind, Sample, Source, Split, open_part};

/// The images of a folder without those that `data` trains on, and the number of the latter. A training image is recognised by its
/// file, whatever path leads to it; a copy is not.
///
/// # Errors
/// If the training images cannot be listed.
pub fn without_training(source: Source, data: &DataConfig) -> Result<(Source, usize), DataError> {
    // An image within a shard or a table is no file of a folder.
    if !matches!(
        data.kind,
        DataKind::Folder | DataKind::Shapes | DataKind::Masks | DataKind::Coco
    ) {
        return Ok((source, 0));
    }
    let split = open_part(data, Split::Train, None)?;
    let train: HashSet<PathBuf> = split.samples.par_iter().filter_map(file).collect();
    let is_new = |sample: &Sample| file(sample).is_none_or(|file| !train.contains(&file));
    let are_new: Vec<bool> = source.samples.par_iter().map(is_new).collect();
    let new = chosen(&source, |index| are_new[index]);
    let left_out = source.samples.len() - new.samples.len();
    Ok((new, left_out))
}

/// The file itself, without links; `None` for a dead link.
fn file(sample: &Sample) -> Option<PathBuf> {
    sample.path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::path::Path;

    use super::*;
    use crate::{ClassOrder, open};

    /// Twenty images of each of two classes.
    fn photos() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for class in ["a", "b"] {
            fs_err::create_dir_all(dir.path().join("photos").join(class)).unwrap();
            for number in 0..20 {
                let name = format!("photos/{class}/{number:02}.png");
                fs_err::write(dir.path().join(name), "").unwrap();
            }
        }
        dir
    }

    fn new_of(folder: &Path, data: &DataConfig) -> (Source, usize) {
        let source = Source::open(folder, ClassOrder::Byte).unwrap();
        without_training(source, data).unwrap()
    }

    #[test]
    fn the_images_of_a_share_are_those_that_validate() {
        let dir = photos();
        let folder = dir.path().join("photos");
        let data = DataConfig {
            path: folder.clone(),
            val_fraction: 0.25,
            ..DataConfig::default()
        };
        let [train, val] = open(&data, None).unwrap();
        let (new, left_out) = new_of(&folder, &data);
        assert_eq!((new.samples, left_out), (val.samples, train.samples.len()));
        // Images that `data.subset` leaves out are not trained on.
        let some = DataConfig {
            subset: 4,
            ..data.clone()
        };
        assert_eq!(new_of(&folder, &some).1, 4);
        // Another folder has none of them, not even copies.
        fs_err::create_dir_all(dir.path().join("other/a")).unwrap();
        fs_err::copy(folder.join("a/00.png"), dir.path().join("other/a/00.png")).unwrap();
        assert_eq!(new_of(&dir.path().join("other"), &data).1, 0);
        // An archive has no files.
        let tar = DataConfig {
            kind: DataKind::Tar,
            ..data
        };
        assert_eq!(new_of(&folder, &tar).1, 0);
    }

    /// A link to the folder, and links to its files.
    #[cfg(unix)]
    #[test]
    fn a_link_leads_to_the_same_image() {
        use std::os::unix::fs::symlink;
        let dir = photos();
        let [folder, link, farm] = ["photos", "link", "farm"].map(|name| dir.path().join(name));
        symlink(&folder, &link).unwrap();
        fs_err::create_dir_all(farm.join("a")).unwrap();
        for number in 0..20 {
            let name = format!("a/{number:02}.png");
            symlink(folder.join(&name), farm.join(&name)).unwrap();
        }
        let data = DataConfig {
            path: link,
            val_fraction: 0.5,
            ..DataConfig::default()
        };
        assert_eq!(new_of(&folder, &data).1, 20);
        assert_eq!(new_of(&farm, &data).1, 10);
    }
}
