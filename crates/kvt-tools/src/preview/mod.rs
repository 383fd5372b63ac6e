//! Pictures of a plan before it trains: the curve of its learning rate, and a sheet of its training images as the model
//! will get them.

mod dense;
mod rates;
mod sheet;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::trained::{TrainedError, Warn};
use kvt_train::config::Plan;
use kvt_train::recipe::Schedule;
use kvt_train::splits::Splits;
use kvt_train::task::TaskKind;

use kvt_data::fs::write_atomic;

pub(crate) use sheet::chosen;
pub use sheet::picture;

/// The pictures of a plan, and the corresponding numbers.
#[derive(Clone, Debug)]
pub struct Preview {
    /// Number of training images.
    pub images: usize,
    /// Images per update.
    pub images_per_step: usize,
    /// Updates per epoch.
    pub steps_per_epoch: u64,
    /// The learning rate of the first update of some epochs, counted from 1.
    pub rates: Vec<(u32, f64)>,
    /// The files of the pictures.
    pub files: Vec<PathBuf>,
}

impl Preview {
    /// Draws the pictures of a plan into a folder, which is created if it is missing; each file is written atomically. `generating` is
    /// called with the progress of a data set that is generated on first use.
    ///
    /// # Errors
    /// If the images cannot be read, the plan's model does not exist, or a picture cannot be written.
    pub fn draw(
        plan: &Plan,
        folder: &Path,
        generating: &mut dyn FnMut(usize, usize),
        warn: Warn<'_>,
    ) -> Result<Self, TrainedError> {
        let size = plan.model.config(None)?.img_size().sides();
        let splits = Splits::open(plan, size, None, generating)?;
        splits.warnings().iter().for_each(|text| warn(text));
        let sheet = match plan.task {
            TaskKind::Segment => dense::draw(plan, &splits)?,
            TaskKind::Classify | TaskKind::MultiLabel | TaskKind::Dino => {
                sheet::draw(plan, &splits, size)?
            }
            TaskKind::Detect => dense::draw_objects(plan, &splits)?,
        };
        let steps_per_epoch = splits.updates_per_epoch(plan).max(1);
        let epochs = plan.epochs_of(steps_per_epoch);
        let schedule = Schedule::of(plan, steps_per_epoch);
        let curve = rates::draw(&schedule, steps_per_epoch, epochs).map_err(TrainedError::Draw)?;
        fs_err::create_dir_all(folder)?;
        let mut files = Vec::new();
        for (name, bytes) in [("lr.png", curve), ("images.png", sheet)] {
            let path = folder.join(name);
            write_atomic(&path, |file| file.write_all(&bytes))?;
            files.push(path);
        }
        let rate = |epoch: u32| {
            let rate = schedule.lr(steps_per_epoch * u64::from(epoch), epoch);
            (epoch + 1, rate)
        };
        let shown = shown_epochs(epochs, plan.schedule.warmup_epochs);
        Ok(Self {
            images: splits.train.samples.len(),
            images_per_step: plan.train.batch_size * plan.train.accumulate,
            steps_per_epoch,
            rates: shown.into_iter().map(rate).collect(),
            files,
        })
    }
}

/// The epochs that characterise a schedule, counted from 0: the first two, the first after the warm-up, the quarters, the last.
fn shown_epochs(epochs: u32, warmup: f64) -> Vec<u32> {
    let last = epochs.saturating_sub(1);
    // Casts of floats saturate.
    let after_warmup = warmup.ceil() as u32;
    let mut shown = vec![
        0,
        1,
        after_warmup,
        epochs / 4,
        epochs / 2,
        epochs / 4 * 3,
        last,
    ];
    shown.retain(|epoch| *epoch <= last);
    shown.sort_unstable();
    shown.dedup();
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shown_epochs_are_those_of_the_run() {
        assert_eq!(shown_epochs(300, 5.0), [0, 1, 5, 75, 150, 225, 299]);
        assert_eq!(shown_epochs(1, 5.0), [0]);
        assert_eq!(shown_epochs(2, 0.5), [0, 1]);
    }
}
