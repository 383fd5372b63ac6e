//! The data sets: addresses, checksums and classes.
//!
//! TensorFlow Datasets publishes the checksums of Imagenette, the flowers and CIFAR-10, FastAI.jl that of Imagewoof.

use std::path::{Path, PathBuf};

use super::Dataset;
use super::archive::{tgz, write};
use super::cifar::cifar10;
use super::flowers::flowers;
use crate::fetch::FetchError;

/// A file of a data set.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) url: &'static str,
    /// Its SHA-256.
    pub(super) sum: &'static str,
    pub(super) bytes: u64,
}

impl Remote {
    /// The name of the file.
    pub(super) fn name(&self) -> &'static str {
        self.url.rsplit('/').next().unwrap_or(self.url)
    }
}

/// How the files of a data set become an image folder.
#[derive(Debug)]
pub(super) enum Layout {
    /// An archive of `FOLDER/train/ID/*.JPEG` and `FOLDER/val/ID/*.JPEG`, with the name of each id. The folder of a class is called
    /// `ID-NAME`: readable, and in the order of the ids.
    Splits(&'static [(&'static str, &'static str)]),
    /// [`flowers`].
    Flowers,
    /// [`cifar10`].
    Cifar10,
}

impl Layout {
    /// Unpacks the files into a folder; `done` receives how many images were added since its last call.
    pub(super) fn unpack(
        &self,
        files: &[PathBuf],
        root: &Path,
        done: &mut dyn FnMut(usize),
    ) -> Result<(), FetchError> {
        match (self, files) {
            (Self::Splits(classes), [archive]) => splits(archive, classes, root, done),
            (Self::Flowers, [archive, labels, sets]) => flowers(archive, labels, sets, root, done),
            (Self::Cifar10, [archive]) => cifar10(archive, root, done),
            _ => Err(FetchError::archive(
                root,
                format!("{} files are not those of this layout", files.len()),
            )),
        }
    }
}

fn splits(
    archive: &Path,
    classes: &[(&str, &str)],
    root: &Path,
    done: &mut dyn FnMut(usize),
) -> Result<(), FetchError> {
    tgz(archive, &mut |parts, content| {
        let [_, split @ ("train" | "val"), id, file] = parts else {
            return Ok(());
        };
        let ending = Path::new(file).extension();
        if !ending.is_some_and(|ending| ending.eq_ignore_ascii_case("jpeg")) {
            return Ok(());
        }
        let Some((_, name)) = classes.iter().find(|(known, _)| known == id) else {
            let reason = format!("`{id}` is none of its classes");
            return Err(FetchError::archive(archive, reason));
        };
        write(root, &[split, &format!("{id}-{name}")], file, content)?;
        done(1);
        Ok(())
    })
}

const OF_IMAGENET: &str = "Apache-2.0; photos of ImageNet, for research that is not commercial";

pub(super) static ALL: [Dataset; 4] = [
    Dataset {
        name: "imagenette-160",
        about: "10 easy classes of ImageNet, shorter side 160 px",
        images: [9_469, 3_925, 0],
        licence: OF_IMAGENET,
        page: "https://github.com/fastai/imagenette",
        files: &[Remote {
            url: "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-160.tgz",
            sum: "64d0c4859f35a461889e0147755a999a48b49bf38a7e0f9bd27003f10db02fe5",
            bytes: 99_003_388,
        }],
        layout: Layout::Splits(&[
            ("n01440764", "tench"),
            ("n02102040", "English-springer"),
            ("n02979186", "cassette-player"),
            ("n03000684", "chain-saw"),
            ("n03028079", "church"),
            ("n03394916", "French-horn"),
            ("n03417042", "garbage-truck"),
            ("n03425413", "gas-pump"),
            ("n03445777", "golf-ball"),
            ("n03888257", "parachute"),
        ]),
    },
    Dataset {
        name: "imagewoof-160",
        about: "10 breeds of dogs of ImageNet, shorter side 160 px",
        images: [9_025, 3_929, 0],
        licence: OF_IMAGENET,
        page: "https://github.com/fastai/imagenette",
        files: &[Remote {
            url: "https://s3.amazonaws.com/fast-ai-imageclas/imagewoof2-160.tgz",
            sum: "b5ffa16037e07f60882434f55b7814a3d44483f2a484129f251604bc0d0f8172",
            // About: the size of an older version.
            bytes: 92_560_471,
        }],
        layout: Layout::Splits(&[
            ("n02086240", "Shih-Tzu"),
            ("n02087394", "Rhodesian-ridgeback"),
            ("n02088364", "beagle"),
            ("n02089973", "English-foxhound"),
            ("n02093754", "Border-terrier"),
            ("n02096294", "Australian-terrier"),
            ("n02099601", "golden-retriever"),
            ("n02105641", "Old-English-sheepdog"),
            ("n02111889", "Samoyed"),
            ("n02115641", "dingo"),
        ]),
    },
    Dataset {
        name: "flowers-102",
        about: "102 kinds of flowers, large photos",
        images: [1_020, 1_020, 6_149],
        licence: "the authors state none; the photos are from the web",
        page: "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        files: &[
            Remote {
                url: "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/102flowers.tgz",
                sum: "2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
                bytes: 344_862_509,
            },
            Remote {
                url: "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/imagelabels.mat",
                sum: "4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
                bytes: 502,
            },
            Remote {
                url: "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/setid.mat",
                sum: "46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
                bytes: 14_989,
            },
        ],
        layout: Layout::Flowers,
    },
    Dataset {
        name: "cifar10",
        about: "10 classes of 32 px, written as PNG",
        images: [50_000, 10_000, 0],
        licence: "the authors state none; they ask to cite Krizhevsky 2009",
        page: "https://www.cs.toronto.edu/~kriz/cifar.html",
        files: &[Remote {
            url: "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            sum: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            bytes: 170_052_171,
        }],
        layout: Layout::Cifar10,
    },
];
