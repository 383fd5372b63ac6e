//! Errors of a plan for a user's own images.

use std::path::PathBuf;

use kvt_models::weights::{ENDINGS, WeightsError};

use crate::trained::TrainedError;

/// An error while creating a plan from a folder and weights.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinetuneError {
    /// An error of the images, of the weights or the run that they come from, of the model, or of the configuration.
    #[error(transparent)]
    Trained(TrainedError),
    /// Another task, whose images, labels and recipe are others.
    #[error(
        "`kvt finetune` trains `task = \"classify\"` alone: for another task set `init.weights` in a configuration, and take `kvt train`"
    )]
    OtherTask,
    /// The weights cannot be read, or belong to an unknown model.
    #[error("could not use the weights in `{}`", .path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: WeightsError,
    },
    /// The file does not exist.
    #[error(
        "no weights `{}`: give a {} file, the folder of a run of kvt, \
         or a name of `kvt models list --weights`, such as `deit_small_patch16_224`",
        .0.display(), ENDINGS
    )]
    NoWeights(PathBuf),
    /// The file beside the weights that describes them is not JSON.
    #[error(
        "`{}`, which describes the weights beside it, is not JSON: {error}; correct it, or move it away",
        .path.display()
    )]
    Description {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        error: serde_json::Error,
    },
    /// The names of the weights do not match any model.
    #[error(
        "`{}` has weights of no model that kvt knows (the first is `{first}`): those of `kvt models list` are known, under \
         timm's names of parameters or the authors'; `kvt weights inspect` lists what a file holds",
        .path.display()
    )]
    UnknownModel {
        /// The file.
        path: PathBuf,
        /// One of its names.
        first: String,
    },
    /// The weights belong to a known family, but not to a named size.
    #[error(
        "`{}` has weights of a {family} of a custom size: name the nearest model, `{nearest}`, and what differs, as in `kvt finetune` \
         with `--model {nearest} --set model.depth=6` (`--print-config` writes the configuration alone); of a run of kvt give the \
         folder, which knows its model",
        .path.display()
    )]
    CustomSize {
        /// The file.
        path: PathBuf,
        /// The family.
        family: &'static str,
        /// The named model from which they differ least.
        nearest: String,
    },
    /// The weights match several models.
    #[error("`{}` fits several models, {}: choose with `--model`", .path.display(), quoted(.names))]
    SeveralModels {
        /// The file.
        path: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// Several tables of labels, none of which has the usual name, and no folders of classes.
    #[error(
        "`{}` has no folders of classes, but several tables of labels, {}: choose with `--set data.labels=FILE` of `kvt finetune` \
         (`--print-config` writes the configuration alone), or call one of them `labels.csv`",
        .path.display(), quoted(.tables)
    )]
    SeveralTables {
        /// The folder.
        path: PathBuf,
        /// The tables in it.
        tables: Vec<String>,
    },
    /// The `[model]` section of a plan does not describe a valid model.
    #[error("the model of the weights cannot be created: {0}")]
    Model(String),
    /// A path that a configuration cannot represent.
    #[error("`{}` is not valid UTF-8, which a configuration must be: rename it", .0.display())]
    NotUtf8(PathBuf),
    /// There is no run to resume.
    #[error("nothing to resume: give the run's folder with `--out`, or the folder of its images")]
    NoRun,
}

fn quoted(names: &[String]) -> String {
    let names = names.iter().map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(" and ")
}

/// Whatever a trained model and its images can lack.
impl<E: Into<TrainedError>> From<E> for FinetuneError {
    fn from(error: E) -> Self {
        Self::Trained(error.into())
    }
}
