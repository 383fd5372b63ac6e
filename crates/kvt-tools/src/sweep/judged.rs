//! The judgement of a trained cell: its predictions for the validation images, or the linear evaluation of its features.

use std::path::Path;

use super::table::read_rows;
use super::{Cell, SweepError, Watch, linear};
use crate::trained::{Images, Trained, TrainedError};
use kvt_data::Split;
use kvt_data::fs::write_text;
use kvt_train::config::Plan;
use kvt_train::judge::Judgement;
use kvt_train::run::PREDICTIONS;
use kvt_train::table::Table;
use kvt_train::task::TaskKind;

const HEADER: &str = "image,class,predicted";

/// A model's predictions for the images of a split: image numbers, true classes and predicted classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Predictions {
    images: Vec<[u32; 3]>,
}

impl Predictions {
    /// Reads the file of a run; `None` if it has none.
    ///
    /// # Errors
    /// If it cannot be read, or has other contents.
    pub fn read(run: &Path) -> Result<Option<Self>, SweepError> {
        let images = read_rows(&run.join(PREDICTIONS), HEADER)?;
        Ok(images.map(|images| Self { images }))
    }

    /// How many images only this model gets right, and how many only the other one; `None` if their images differ.
    #[must_use]
    pub fn discordant(&self, other: &Self) -> Option<[u64; 2]> {
        let mut alone = [0; 2];
        if self.images.len() != other.images.len() {
            return None;
        }
        for ([image, class, first], [same, other_class, second]) in
            self.images.iter().zip(&other.images)
        {
            if (image, class) != (same, other_class) {
                return None;
            }
            alone[0] += u64::from(first == class && second != class);
            alone[1] += u64::from(first != class && second == class);
        }
        Some(alone)
    }

    /// The predictions of a judgement, in the order of the images.
    fn of(judged: &Judgement) -> Self {
        let row =
            |verdict: &kvt_train::judge::Verdict| [verdict.index, verdict.label, verdict.predicted];
        let mut images: Vec<_> = judged.verdicts.iter().map(row).collect();
        images.sort_unstable();
        Self { images }
    }

    fn to_csv(&self) -> String {
        let rows = self
            .images
            .iter()
            .map(|row| row.map(|cell| cell.to_string()));
        Table::new(HEADER.split(','), rows).csv()
    }
}

/// Judges a trained cell, unless that was done: by its predictions for the validation images, or by linear evaluation of its
/// features. `false` if a stop was requested before the end. `plan` has the cell's settings, with the device that is free.
pub(super) fn judge(cell: &Cell, plan: &Plan, watch: &dyn Watch) -> Result<bool, SweepError> {
    let path = cell.dir().join(PREDICTIONS);
    if cell.plan.task == TaskKind::Classify && !path.exists() {
        write_text(&path, &predict(plan, watch)?.to_csv())?;
    }
    match cell.linear {
        Some(crops) => linear::judge(cell, plan, crops, watch),
        None => Ok(true),
    }
}

/// The predictions of the last checkpoint of a plan's run for the validation images.
fn predict(plan: &Plan, watch: &dyn Watch) -> Result<Predictions, TrainedError> {
    let mut warn = |text: &str| watch.warn(text);
    let trained = Trained::last_of(plan, &mut warn)?;
    let mut generating = |done, of| watch.generating(done, of);
    let classes = trained.classes.as_deref();
    let images = Images::of_split(Split::Val, plan, classes, &mut generating, &mut warn)?;
    let mut judged = Judgement::new(images.source.classes.len());
    trained.judge(&images, &mut judged, &mut |_, _| {}, &mut warn)?;
    Ok(Predictions::of(&judged))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn predictions(predicted: &[u32]) -> Predictions {
        let rows = (0..).zip(predicted);
        Predictions {
            images: rows
                .map(|(image, &predicted)| [image, image % 2, predicted])
                .collect(),
        }
    }

    #[test]
    fn only_images_on_which_two_models_differ_count() {
        // The true classes are 0, 1, 0, 1, 0, 1. The first model is right on images 0 to 3, the second on 0, 2, 4 and 5.
        let first = predictions(&[0, 1, 0, 1, 1, 0]);
        let second = predictions(&[0, 0, 0, 2, 0, 1]);
        assert_eq!(first.discordant(&second), Some([2, 2]));
        let third = predictions(&[0, 1, 0, 1, 0, 2]);
        assert_eq!(first.discordant(&third), Some([0, 1]));
        assert_eq!(third.discordant(&first), Some([1, 0]));
        assert_eq!(first.discordant(&predictions(&[0, 1])), None);
        let mut others = first.clone();
        others.images[3][1] = 0;
        assert_eq!(first.discordant(&others), None);
    }

    #[test]
    fn a_file_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join(PREDICTIONS);
        assert_eq!(Predictions::read(folder.path()).unwrap(), None);
        let some = predictions(&[0, 1, 2]);
        fs_err::write(&at, some.to_csv()).unwrap();
        assert_eq!(Predictions::read(folder.path()).unwrap(), Some(some));
        for wrong in [
            "image,label\n1,2\n",
            "image,class,predicted\n",
            "image,class,predicted\n1,2\n",
            "image,class,predicted\n1,2,3,4\n",
            "image,class,predicted\n1,2,x\n",
        ] {
            fs_err::write(&at, wrong).unwrap();
            let error = Predictions::read(folder.path()).unwrap_err().to_string();
            assert!(
                error.contains("predictions.csv") && error.contains("writes it again"),
                "{error}"
            );
        }
    }
}
