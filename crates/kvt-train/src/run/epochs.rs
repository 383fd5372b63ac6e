//! `epochs.csv`: one row per finished epoch.

use super::{EpochRecord, EvalRecord, Event, Metric};
use crate::table::{Table, cells, or_empty};

/// A finished epoch and the last evaluations of the validation split within or after it, if there were any.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochRow {
    /// The epoch.
    pub train: EpochRecord,
    /// With the weights themselves.
    pub val: Option<EvalRecord>,
    /// With the EMA of the weights.
    pub val_ema: Option<EvalRecord>,
}

/// Collects the rows from the events of a run.
#[derive(Debug, Default)]
pub struct EpochRows {
    /// The rows so far.
    pub rows: Vec<EpochRow>,
    /// The evaluations whose epoch has not ended yet.
    val: Option<EvalRecord>,
    val_ema: Option<EvalRecord>,
}

impl EpochRows {
    /// Adds an event; returns whether a row was added.
    pub fn push(&mut self, event: &Event) -> bool {
        match event {
            Event::Eval(eval) if eval.split == EvalRecord::VAL => self.val = Some(eval.clone()),
            Event::Eval(eval) if eval.split == EvalRecord::VAL_EMA => {
                self.val_ema = Some(eval.clone());
            }
            Event::Epoch(train) => {
                // Of several within an epoch, the last one; not that of an epoch which never ended.
                let its = |eval: Option<EvalRecord>| eval.filter(|eval| eval.epoch == train.epoch);
                self.rows.push(EpochRow {
                    train: train.clone(),
                    val: its(self.val.take()),
                    val_ema: its(self.val_ema.take()),
                });
            }
            _ => {}
        }
        matches!(event, Event::Epoch(_))
    }

    /// The last evaluations whose epoch has not ended, with the weights themselves and with their EMA: of a run that ended within an
    /// epoch, those at its end.
    #[must_use]
    pub fn without_row(&self) -> [Option<&EvalRecord>; 2] {
        [self.val.as_ref(), self.val_ema.as_ref()]
    }
}

/// The table, with columns of `metrics` for the weights and for their EMA. Epochs count from 0, as in the log; cells of an epoch
/// without an evaluation are empty, and so are cells of the EMA in a run without one.
pub(super) fn csv(rows: &EpochRows, metrics: &[Metric]) -> String {
    let mut header = ["epoch", "train_loss", "lr"].map(str::to_owned).to_vec();
    for split in [EvalRecord::VAL, EvalRecord::VAL_EMA] {
        let names = metrics.iter();
        header.extend(names.map(|metric| format!("{split}_{}", metric.name)));
    }
    header.extend(["seconds", "images_per_second"].map(str::to_owned));
    // Empty if one was not measured.
    let measured = |eval: Option<&EvalRecord>| -> Vec<String> {
        let value = |metric: &Metric| eval?.metrics.get(metric.name);
        let cells = metrics.iter().map(|metric| or_empty(value(metric)));
        cells.collect()
    };
    let rows = rows.rows.iter().map(|row| {
        let train = &row.train;
        [
            &cells([&train.epoch, &train.train_loss, &train.lr])[..],
            &measured(row.val.as_ref()),
            &measured(row.val_ema.as_ref()),
            &cells([&train.seconds, &train.images_per_second]),
        ]
        .concat()
    });
    Table::new(header, rows).csv()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use fs_err as fs;

    use super::*;
    use crate::run::testing::{epoch, eval};
    use crate::run::{Listener, RunDir, Tables};

    const METRICS: &[Metric] = &[Metric::LOSS, Metric::TOP1, Metric::TOP5];

    const EXPECTED: &str = "\
epoch,train_loss,lr,val_loss,val_top1,val_top5,val_ema_loss,val_ema_top1,val_ema_top5,seconds,images_per_second
0,2.5,0.001,1.25,50,90.5,1.25,40,90.5,2.5,100
1,2,0.001,,,,,,,2.5,100
2,NaN,0.001,1.25,60,90.5,,,,2.5,100
";

    fn events() -> Vec<Event> {
        vec![
            eval(0, "val", 50.0),
            eval(0, "val_ema", 40.0),
            eval(0, "test", 1.0),
            epoch(0, 2.5),
            epoch(1, 2.0),
            eval(2, "val", 60.0),
            epoch(2, f64::NAN),
        ]
    }

    #[test]
    fn rows_join_training_and_validation() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::of_another(folder.path());
        let path = run.epochs_csv();
        let mut csv = Tables::new(&run, METRICS, &[]).unwrap();
        for event in events() {
            csv.event(&event).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), EXPECTED);
    }

    /// An evaluation whose epoch was never finished does not belong to the next epoch.
    #[test]
    fn an_evaluation_belongs_to_its_epoch() {
        let mut rows = EpochRows::default();
        for event in [
            eval(0, "val", 50.0),
            eval(0, "val_ema", 50.0),
            epoch(1, 2.0),
        ] {
            rows.push(&event);
        }
        let [row] = &rows.rows[..] else {
            unreachable!("one epoch")
        };
        assert_eq!((&row.val, &row.val_ema), (&None, &None));
    }

    /// With `train.eval_every_updates`, an epoch has the last of its evaluations.
    #[test]
    fn an_evaluation_within_an_epoch_is_its_own() {
        let within = |step, top1| {
            let Event::Eval(record) = eval(1, "val", top1) else {
                unreachable!("an evaluation")
            };
            Event::Eval(EvalRecord { step, ..record })
        };
        let mut rows = EpochRows::default();
        for event in [within(13, 50.0), within(16, 40.0), epoch(1, 2.0)] {
            rows.push(&event);
        }
        let found = rows.rows[0].val.as_ref().unwrap();
        assert_eq!(found.step, 16);
    }

    #[test]
    fn a_resumed_run_writes_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::of_another(folder.path());
        let path = run.epochs_csv();
        // Even between an evaluation and the end of its epoch.
        for resume_at in 0..events().len() {
            let events = events();
            let (logged, rest) = events.split_at(resume_at);
            let mut csv = Tables::new(&run, METRICS, logged).unwrap();
            // Logged epochs are written immediately.
            let epochs = logged.iter().filter(|e| matches!(e, Event::Epoch(_)));
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert_eq!(lines, 1 + epochs.count());
            for event in rest {
                csv.event(event).unwrap();
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), EXPECTED);
        }
    }
}
