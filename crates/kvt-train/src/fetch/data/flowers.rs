//! The 102 flowers of Oxford: an archive of numbered photos, their classes, and the numbers of three splits.

use std::collections::BTreeMap;
use std::path::Path;

use super::archive::{tgz, write};
use super::mat;
use crate::fetch::FetchError;

/// Names of the classes in the order of the labels, which count from 1.
const NAMES: &str = include_str!("flowers.txt");
/// The splits, and the arrays of their numbers.
const SPLITS: [(&str, &str); 3] = [("train", "trnid"), ("val", "valid"), ("test", "tstid")];

/// Writes `train/001-pink-primrose/image_00001.jpg` and so on.
pub(super) fn flowers(
    archive: &Path,
    labels: &Path,
    sets: &Path,
    root: &Path,
    done: &mut dyn FnMut(usize),
) -> Result<(), FetchError> {
    let of_all = array(labels, &mat::read(labels)?, "labels")?;
    let arrays = mat::read(sets)?;
    let mut splits = BTreeMap::new();
    for (split, name) in SPLITS {
        for number in array(sets, &arrays, name)? {
            splits.insert(number, split);
        }
    }
    tgz(archive, &mut |parts, content| {
        let [.., file] = parts else { return Ok(()) };
        let Some(number) = number(file) else {
            return Ok(());
        };
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let label = at.checked_sub(1).and_then(|at| of_all.get(at));
        let (Some(split), Some(class)) = (splits.get(&number), label.and_then(|&at| class(at)))
        else {
            let reason = format!("`{file}` has no split or no class");
            return Err(FetchError::archive(archive, reason));
        };
        write(root, &[split, &class], file, content)?;
        done(1);
        Ok(())
    })
}

/// The number of a photo, `image_00001.jpg`.
fn number(file: &str) -> Option<u32> {
    let digits = file.strip_prefix("image_")?.strip_suffix(".jpg")?;
    digits.parse().ok()
}

/// The folder of a class.
fn class(label: u32) -> Option<String> {
    let at = usize::try_from(label).ok()?.checked_sub(1)?;
    let name = NAMES.lines().nth(at)?;
    Some(format!("{label:03}-{name}"))
}

fn array(
    path: &Path,
    arrays: &BTreeMap<String, Vec<u32>>,
    name: &str,
) -> Result<Vec<u32>, FetchError> {
    let found = arrays.get(name).cloned();
    found.ok_or_else(|| FetchError::archive(path, format!("it has no array `{name}`")))
}
