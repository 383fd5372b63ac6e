//! The inputs of an item: data, scale, version of the paper.

use std::fmt;
use std::path::PathBuf;

/// How much is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// The models and epochs of the paper, on ImageNet.
    Paper,
    /// Small models on CIFAR-10, with the epochs and seeds that a comparison needs.
    Cifar,
    /// The same in an hour or less on two cores: fewer epochs, seeds or images.
    #[default]
    CifarShort,
    /// Small models on generated scenes, with one seed.
    Shapes,
    /// The same in minutes: fewer epochs.
    ShapesShort,
}

impl Scale {
    /// The name on the command line and in file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Cifar => "cifar",
            Self::CifarShort => "cifar-short",
            Self::Shapes => "shapes",
            Self::ShapesShort => "shapes-short",
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which version of the KVT paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// ECCV 2022, the last one on arXiv.
    #[default]
    Eccv,
    /// The first one on arXiv.
    V1,
}

impl Version {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Eccv => "eccv",
            Self::V1 => "v1",
        }
    }
}

/// The inputs of an item. The [`Item`](super::Item) says which of them affect it.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// How much is computed.
    pub scale: Scale,
    /// The version of the paper to compare with.
    pub version: Version,
    /// The data set: it replaces `data.path` of every configuration.
    pub data: Option<PathBuf>,
    /// Overrides of every configuration, as for `--set`, including the device.
    pub overrides: Vec<String>,
    /// The number of seeds of each run, instead of the seeds of its sweep.
    pub seeds: Option<u64>,
    /// Devices that train in parallel; if empty, the device of the configurations.
    pub devices: Vec<String>,
    /// The folder of the results.
    pub out: PathBuf,
    /// The folder of the runs; by default the one that their sweep names, so that existing runs are reused.
    pub runs: Option<PathBuf>,
    /// The part to train, if not all: a sweep of several, or the first words of rows' names. The page has the others, too, as far as they
    /// are finished.
    pub only: Option<String>,
    /// Tables of earlier sweeps, whose cells are not trained again.
    pub known: Vec<PathBuf>,
    /// A folder with the configurations and sweeps of the repository's `configs`; `None` is `configs` here, or those of the program.
    pub configs: Option<PathBuf>,
    /// Train nothing: use the runs as they are.
    pub as_is: bool,
}
