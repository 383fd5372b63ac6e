//! Labelled images on which a model is judged: a split of its plan, or a folder without what it was trained on.

use std::path::Path;
use std::sync::Arc;

use super::{TrainedError, Warn};
use kvt_data::escape::one_line;
use kvt_data::text::quoted;
use kvt_data::{Source, Split, open_part, without_training};
use kvt_train::config::Plan;
use kvt_train::splits::ensure_data;
use kvt_train::task::TaskKind;

/// Labelled images.
#[derive(Clone, Debug)]
pub struct Images {
    /// The images, with the model's classes, if these are known.
    pub source: Arc<Source>,
    /// What they are, to be put after their number.
    pub words: String,
    /// The number of images that were left out because the plan trains on them; `None` if that is not known.
    pub left_out: Option<usize>,
    /// For each class, whether the model may choose it; `None` if it may choose them all.
    pub among: Option<Vec<bool>>,
}

impl Images {
    /// The file of an image; empty if there is none.
    pub(crate) fn path(&self, index: u32) -> &Path {
        let sample = self.source.samples.get(index as usize);
        sample.map_or(Path::new(""), |sample| &sample.path)
    }

    /// The images of a split. Generated ones are made on first use, of which `progress` learns.
    ///
    /// # Errors
    /// If they cannot be read or generated, or have other classes.
    pub fn of_split(
        split: Split,
        plan: &Plan,
        classes: Option<&[String]>,
        progress: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<Self, TrainedError> {
        ensure_data(plan, progress)?;
        let source = open_part(&plan.read_data(), split, classes)?;
        source.warnings().iter().for_each(|text| warn(text));
        let kind = match split {
            Split::Val => "validation",
            Split::Train => "training",
        };
        Ok(Self {
            words: format!("{kind} images of `{}`", root(&source)),
            source: Arc::new(source),
            left_out: Some(0),
            among: None,
        })
    }

    /// The images of another folder than that of the plan, as far as they are new to the model.
    ///
    /// # Errors
    /// If they cannot be read, have other classes, or none is new, or the plan is of several labels for each image.
    pub fn of_folder(
        dir: &Path,
        plan: &Plan,
        classes: Option<&[String]>,
        warn: Warn<'_>,
    ) -> Result<Self, TrainedError> {
        if plan.task == TaskKind::MultiLabel {
            return Err(TrainedError::FolderOfLabels(dir.to_owned()));
        }
        let source = match classes {
            Some(classes) => Source::open_with_classes(dir, classes)?,
            None => Source::open(dir, plan.data.class_order)?,
        };
        Self::new_ones(source, plan, warn)
    }

    /// The same of a folder that may have some of the classes only, among which alone the model may choose then.
    ///
    /// # Errors
    /// As [`Images::of_folder`], or the model's classes have no names.
    pub fn of_present(
        dir: &Path,
        plan: &Plan,
        classes: Option<&[String]>,
        warn: Warn<'_>,
    ) -> Result<Self, TrainedError> {
        let known = classes.ok_or(TrainedError::NoNames)?;
        let present = Source::open(dir, plan.data.class_order)?;
        let among = among(&present.classes, known)?;
        let images = Self::new_ones(renumbered(present, known), plan, warn)?;
        Ok(Self {
            among: Some(among),
            ..images
        })
    }

    /// The images that the plan does not train on, with warnings about the others.
    fn new_ones(source: Source, plan: &Plan, warn: Warn<'_>) -> Result<Self, TrainedError> {
        source.warnings().iter().for_each(|text| warn(text));
        let (all, root) = (source.samples.len(), root(&source));
        let by = if plan.data.val_fraction > 0.0 {
            "`data.path` and `data.val_fraction` of the configuration"
        } else {
            "`data.path` of the configuration"
        };
        let (source, left_out) = match without_training(source.clone(), &plan.data) {
            Ok((new, left_out)) => (new, Some(left_out)),
            Err(error) => {
                warn(&format!(
                    "whether images of `{root}` were trained on is not known: {error}"
                ));
                (source, None)
            }
        };
        let words = match left_out {
            Some(left_out) if left_out == all && all > 0 => {
                return Err(TrainedError::AllTrained {
                    images: all,
                    root: source.root,
                    by,
                });
            }
            Some(0) => format!("images of `{root}`"),
            Some(left_out) => {
                warn(&format!(
                    "{left_out} of the {all} images of `{root}` are training images ({by}): they are left out"
                ));
                format!("images of `{root}`, without {left_out} that were trained on")
            }
            None => format!("images of `{root}`, some of which may have been trained on"),
        };
        Ok(Self {
            source: Arc::new(source),
            words,
            left_out,
            among: None,
        })
    }

    /// The images of some classes, among which alone the model may choose.
    ///
    /// # Errors
    /// If there is no such class or no such image.
    pub fn only(mut self, names: &[String]) -> Result<Self, TrainedError> {
        let among = among(names, &self.source.classes)?;
        let is_among = |label: u32| among.get(label as usize).copied().unwrap_or(false);
        let source = Arc::make_mut(&mut self.source);
        source.samples.retain(|sample| is_among(sample.label));
        if source.samples.is_empty() {
            return Err(TrainedError::NoImage(source.root.clone()));
        }
        Ok(Self {
            among: Some(among),
            ..self
        })
    }

    /// The number of classes among which the model may choose.
    #[must_use]
    pub fn choices(&self) -> usize {
        match &self.among {
            Some(among) => among.iter().filter(|is_among| **is_among).count(),
            None => self.source.classes.len(),
        }
    }
}

fn root(source: &Source) -> String {
    one_line(&source.root.display().to_string()).into_owned()
}

/// For each known class, whether it is among these names.
fn among(names: &[String], known: &[String]) -> Result<Vec<bool>, TrainedError> {
    if let Some(stranger) = names.iter().find(|name| !known.contains(name)) {
        return Err(TrainedError::NoSuchClass {
            class: stranger.clone(),
            known: quoted(known),
        });
    }
    if names.is_empty() {
        return Err(TrainedError::NoClass);
    }
    Ok(known.iter().map(|class| names.contains(class)).collect())
}

/// Images of some of the known classes, relabelled with the numbers of the known classes.
fn renumbered(mut source: Source, known: &[String]) -> Source {
    let number = |class: &String| known.iter().position(|name| name == class);
    let numbers: Vec<Option<usize>> = source.classes.iter().map(number).collect();
    for sample in &mut source.samples {
        let number = numbers.get(sample.label as usize).copied().flatten();
        let number = number.and_then(|number| u32::try_from(number).ok());
        sample.label = number.unwrap_or(sample.label);
    }
    source.classes = known.to_vec();
    source
}
