//! Labelled images for `eval` and its like: a split of a run, or a folder without what the run trained on.

use std::path::Path;

use anyhow::bail;
use clap::ValueEnum;
use kvt_data::escape::one_line;
use kvt_train::config::Plan;
use kvt_train::data::{self, Source, open_part, without_training};
use kvt_train::splits::ensure_data;

use super::common::{generating, warn_of_others};
use super::output;

/// A split of a run or of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Split {
    Val,
    Train,
}

impl Split {
    /// Its images, with the model's classes, if they are known.
    pub(super) fn open(self, plan: &Plan, classes: Option<&[String]>) -> anyhow::Result<Source> {
        ensure_data(plan, &mut generating())?;
        let part = match self {
            Self::Val => data::Split::Val,
            Self::Train => data::Split::Train,
        };
        let source = open_part(&plan.data, part, classes)?;
        warn_of_others(&source);
        Ok(source)
    }

    /// Its name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Val => "val",
            Self::Train => "train",
        }
    }

    /// Its images in words, to be put after their number.
    pub(super) fn words(self, source: &Source) -> String {
        let kind = match self {
            Self::Val => "validation",
            Self::Train => "training",
        };
        let root = source.root.display().to_string();
        format!("{kind} images of `{}`", one_line(&root))
    }
}

/// Labelled images of another folder than that of the plan, as far as they are new to the model.
pub(super) struct Folder {
    pub(super) source: Source,
    /// The number of images that were left out because the plan trains on them; `None` if that is not known.
    pub(super) left_out: Option<usize>,
}

impl Folder {
    /// The images of a folder with the model's classes, if they are known.
    pub(super) fn open(
        dir: &Path,
        classes: Option<&[String]>,
        plan: &Plan,
    ) -> anyhow::Result<Self> {
        Self::new(
            match classes {
                Some(classes) => Source::open_with_classes(dir, classes)?,
                None => Source::open(dir, plan.data.class_order)?,
            },
            plan,
        )
    }

    /// The new ones of some images, with warnings about the others.
    pub(super) fn new(source: Source, plan: &Plan) -> anyhow::Result<Self> {
        warn_of_others(&source);
        let (all, root) = (source.samples.len(), source.root.display().to_string());
        let (new, left_out) = match without_training(source.clone(), &plan.data) {
            Ok((new, left_out)) => (new, Some(left_out)),
            Err(error) => {
                output::warning(&format!(
                    "whether images of `{root}` were trained on is not known: {error}"
                ));
                (source, None)
            }
        };
        let by = if plan.data.val_fraction > 0.0 {
            "`data.path` and `data.val_fraction` of the configuration"
        } else {
            "`data.path` of the configuration"
        };
        if left_out == Some(all) && all > 0 {
            bail!(
                "all {all} images of `{root}` are training images ({by}), which say \
                 nothing about new ones: leave out `--data` for the validation images; `kvt eval --split train` evaluates the training \
                 images"
            );
        }
        if let Some(left_out @ 1..) = left_out {
            output::warning(&format!(
                "{left_out} of the {all} images of `{root}` are training images ({by}): they are left out"
            ));
        }
        Ok(Self {
            source: new,
            left_out,
        })
    }

    /// Its images in words, to be put after their number.
    pub(super) fn words(&self) -> String {
        let root = self.source.root.display().to_string();
        let root = one_line(&root);
        match self.left_out {
            Some(0) => format!("images of `{root}`"),
            Some(left_out) => {
                format!("images of `{root}`, without {left_out} that were trained on")
            }
            None => format!("images of `{root}`, some of which may have been trained on"),
        }
    }
}
