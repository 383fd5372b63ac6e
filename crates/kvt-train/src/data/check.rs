//! `kvt data check`: reads every image of a data set once and tells what is wrong with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::data::{ClassOrder, ColorKind, DataError, ImageFolder, decode_bytes};

/// What [`check`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The splits, in the order given.
    pub splits: Vec<SplitCheck>,
    /// Whether all splits have the same classes.
    pub same_classes: bool,
    /// Files of different splits with the same content: images to be learned by heart.
    pub duplicates: Vec<Duplicate>,
}

/// One split of the data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitCheck {
    /// The split's folder name.
    pub name: String,
    /// Classes and their number of images, in label order.
    pub classes: Vec<(String, usize)>,
    /// Images that can not be decoded.
    pub unreadable: Vec<Unreadable>,
    /// Smallest and largest (width, height) by area, in pixels; `None` if no image is readable.
    pub sizes: Option<((u32, u32), (u32, u32))>,
    /// Grey images.
    pub grey: usize,
    /// CMYK and YCCK images.
    pub cmyk: usize,
}

/// An image that can not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// Files with the same content, from at least two splits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The files, in the order of the splits.
    pub paths: Vec<PathBuf>,
}

impl SplitCheck {
    /// Images of the split.
    pub fn images(&self) -> usize {
        self.classes.iter().map(|(_, count)| count).sum()
    }
}

impl Check {
    /// Whether training on this data set can work: nothing unreadable, and the same two or more classes everywhere.
    pub fn is_sound(&self) -> bool {
        self.same_classes
            && self
                .splits
                .iter()
                .all(|split| split.unreadable.is_empty() && split.classes.len() > 1)
    }
}

struct Seen {
    hash: blake3::Hash,
    image: Result<((u32, u32), ColorKind), String>,
}

/// Reads every image of the splits `root/<split>`, on all cores.
///
/// # Errors
///
/// A split that [`ImageFolder::open`] refuses. Unreadable images are part of the result, not an error.
pub fn check(root: &Path, splits: &[&str], order: ClassOrder) -> Result<Check, DataError> {
    let folders = splits
        .iter()
        .map(|split| ImageFolder::open(root.join(split), order))
        .collect::<Result<Vec<_>, _>>()?;
    // By hash, the split's number and path of each file; a tree, so that the result has one order.
    let mut contents: BTreeMap<[u8; 32], Vec<(usize, &Path)>> = BTreeMap::new();
    let mut reports = Vec::new();
    for (number, (name, folder)) in splits.iter().zip(&folders).enumerate() {
        let seen: Vec<_> = folder.samples.par_iter().map(|s| look(&s.path)).collect();
        let mut report = SplitCheck {
            name: (*name).to_owned(),
            classes: folder
                .classes
                .iter()
                .cloned()
                .zip(folder.class_counts())
                .collect(),
            unreadable: Vec::new(),
            sizes: None,
            grey: 0,
            cmyk: 0,
        };
        for (sample, seen) in folder.samples.iter().zip(seen) {
            let path = sample.path.as_path();
            let unreadable = |reason| Unreadable {
                path: path.to_owned(),
                reason,
            };
            match seen.map(|seen| (seen.hash, seen.image)) {
                Ok((hash, image)) => {
                    contents
                        .entry(*hash.as_bytes())
                        .or_default()
                        .push((number, path));
                    match image {
                        Ok((size, color)) => report.count(size, color),
                        Err(reason) => report.unreadable.push(unreadable(reason)),
                    }
                }
                Err(reason) => report.unreadable.push(unreadable(reason)),
            }
        }
        reports.push(report);
    }
    let mut duplicates: Vec<_> = contents
        .into_values()
        .filter(|files| {
            files
                .iter()
                .any(|(split, _)| Some(*split) != files.first().map(|f| f.0))
        })
        .map(|files| Duplicate {
            paths: files.into_iter().map(|(_, path)| path.to_owned()).collect(),
        })
        .collect();
    duplicates.sort_by(|a, b| a.paths.cmp(&b.paths));
    let same_classes = folders.windows(2).all(|pair| match pair {
        [a, b] => a.classes == b.classes,
        _ => true,
    });
    Ok(Check {
        splits: reports,
        same_classes,
        duplicates,
    })
}

impl SplitCheck {
    fn count(&mut self, size: (u32, u32), color: ColorKind) {
        let area = |(w, h): (u32, u32)| u64::from(w) * u64::from(h);
        let (small, large) = self.sizes.unwrap_or((size, size));
        self.sizes = Some((
            if area(size) < area(small) {
                size
            } else {
                small
            },
            if area(size) > area(large) {
                size
            } else {
                large
            },
        ));
        match color {
            ColorKind::Grey => self.grey += 1,
            ColorKind::Cmyk => self.cmyk += 1,
            ColorKind::Rgb => {}
        }
    }
}

fn look(path: &Path) -> Result<Seen, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    Ok(Seen {
        hash: blake3::hash(&bytes),
        image: decode_bytes(&bytes).map(|decoded| (decoded.image.dimensions(), decoded.color)),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use image::{GrayImage, RgbImage};

    use super::*;

    #[test]
    fn tells_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for class in ["train/a", "train/b", "val/a", "val/c"] {
            fs_err::create_dir_all(at(class)).unwrap();
        }
        let rgb = |level| RgbImage::from_pixel(8, 6, image::Rgb([level; 3]));
        rgb(1).save(at("train/a/1.png")).unwrap();
        rgb(2).save(at("train/a/2.png")).unwrap();
        GrayImage::new(3, 3).save(at("train/b/1.png")).unwrap();
        fs_err::write(at("train/b/bad.jpg"), b"no image").unwrap();
        rgb(1).save(at("val/a/copy.png")).unwrap();
        rgb(3).save(at("val/c/1.png")).unwrap();

        let found = check(dir.path(), &["train", "val"], ClassOrder::Byte).unwrap();
        let train = &found.splits[0];
        assert_eq!(train.classes, [("a".to_owned(), 2), ("b".to_owned(), 2)]);
        assert_eq!((train.images(), train.grey, train.cmyk), (4, 1, 0));
        assert_eq!(train.sizes, Some(((3, 3), (8, 6))));
        assert_eq!(train.unreadable[0].path, at("train/b/bad.jpg"));
        assert!(!found.same_classes && !found.is_sound());
        let copies = vec![at("train/a/1.png"), at("val/a/copy.png")];
        assert_eq!(found.duplicates, [Duplicate { paths: copies }]);
    }
}
