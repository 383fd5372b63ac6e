//! Images and masks that are no pairs.

use std::path::PathBuf;

use super::Unpaired;
use crate::text::{counted, quoted};

/// What is wrong with folders of images and masks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// A folder of images or masks that does not exist.
    #[error(
        "no folder `{}`: expected images in `{}`, and their masks in `{}`; `data.images` and `data.masks` name these folders",
        path.display(), images.display(), masks.display()
    )]
    NoPairs {
        /// The folder.
        path: PathBuf,
        /// The folder of the images.
        images: PathBuf,
        /// The folder of the masks.
        masks: PathBuf,
    },
    /// Images without a mask, or masks without an image.
    #[error("`{}`: {}; `kvt data check` lists all", path.display(), alone(unpaired))]
    Unpaired {
        /// The folder of the images.
        path: PathBuf,
        /// The files.
        unpaired: Unpaired,
    },
}

/// The first five images, masks and names without a partner.
fn alone(unpaired: &Unpaired) -> String {
    let paths = |paths: &[PathBuf]| {
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect::<Vec<_>>()
    };
    let parts = [
        ("image", "without a mask", paths(&unpaired.images)),
        ("mask", "without an image", paths(&unpaired.masks)),
        (
            "name",
            "of the list without an image",
            unpaired.listed.clone(),
        ),
    ];
    let mut left = 5;
    let words = parts
        .into_iter()
        .filter(|(.., names)| !names.is_empty())
        .map(|(thing, what, names)| {
            let shown = names.get(..left.min(names.len())).unwrap_or_default();
            left -= shown.len();
            let count = counted(names.len(), thing);
            match shown {
                [] => format!("{count} {what}"),
                shown => format!("{count} {what}: {}", quoted(shown)),
            }
        });
    words.collect::<Vec<_>>().join("; ")
}
