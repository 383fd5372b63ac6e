//! A run's log as a curve.

use super::html::Record;
use super::{Curve, EpochPoint, ReportError};
use kvt_train::config::Plan;
use kvt_train::recipe::EmaReport;
use kvt_train::run::{EpochRow, EpochRows, EvalRecord, Metrics, RunDir, read_log};

/// Reads the epochs that a finished or running run of a plan has logged; lines that do not parse are skipped with a warning. The
/// validation numbers belong to the weights that the run reports.
///
/// # Errors
/// When the log is missing.
pub(crate) fn read_curve(
    run: &RunDir,
    plan: &Plan,
) -> Result<(Curve, Option<String>), ReportError> {
    let log = read_log(&run.log())?;
    let mut rows = EpochRows::default();
    for event in &log.events {
        rows.push(event);
    }
    let is_finished = Record::is_finished(plan, &log.events);
    let curve = Curve {
        seed: plan.seed,
        epochs: points(&rows, plan.ema.report, is_finished),
        ..Curve::default()
    };
    Ok((curve, log.warning))
}

/// The measurements of the epochs, with the validation numbers of the weights that the run reports. A finished run that ended within an
/// epoch, as `train.max_steps` or `train.patience` may end one, has the numbers at its end in that epoch.
pub(crate) fn points(rows: &EpochRows, report: EmaReport, is_finished: bool) -> Vec<EpochPoint> {
    let metrics = |eval: Option<&EvalRecord>| match eval {
        Some(eval) => eval.metrics.clone(),
        None => Metrics::default(),
    };
    // A reported average is not listed a second time.
    let measured = |val: Option<&EvalRecord>, val_ema: Option<&EvalRecord>| match report {
        EmaReport::Raw => [metrics(val), metrics(val_ema)],
        EmaReport::Ema => [metrics(val_ema), Metrics::default()],
    };
    let point = |row: &EpochRow| {
        let train = &row.train;
        let [val, ema] = measured(row.val.as_ref(), row.val_ema.as_ref());
        EpochPoint {
            epoch: train.epoch,
            train_loss: Some(train.train_loss).filter(|loss| loss.is_finite()),
            lr: Some(train.lr),
            images_per_second: Some(train.images_per_second),
            val,
            ema,
            best: Metrics::default(),
        }
    };
    let mut points: Vec<EpochPoint> = rows.rows.iter().map(point).collect();
    let [val, val_ema] = rows.without_row();
    if let Some(last) = val.filter(|_| is_finished) {
        let [val, ema] = measured(val, val_ema);
        points.push(EpochPoint {
            epoch: last.epoch,
            val,
            ema,
            ..EpochPoint::default()
        });
    }
    points
}

/// The short label of a run: the name of its folder without the suffix `-seedN` of its seed.
pub(crate) fn label_of(name: &str, seed: u64) -> &str {
    name.strip_suffix(&format!("-seed{seed}")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::io::Write;

    use fs_err as fs;

    use super::*;
    use crate::events::{epoch, eval};
    use kvt_train::run::{JsonlLog, Listener};

    #[test]
    fn a_running_run_is_read_up_to_its_last_epoch() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), false).unwrap();
        fs::write(run.config(), "").unwrap();
        let (mut log, _) = JsonlLog::resume(&run.log(), 0, 0).unwrap();
        for event in [
            eval(0, "val", 50.0),
            eval(0, "val_ema", 40.0),
            epoch(0, f64::INFINITY),
            epoch(1, 2.0),
            eval(2, "val", 60.0),
        ] {
            log.event(&event).unwrap();
        }
        let mut file = fs::OpenOptions::new().append(true).open(run.log()).unwrap();
        file.write_all(b"{\"kind\":\"epo").unwrap();
        let run = RunDir::open(folder.path()).unwrap();
        let plan = |text: &str| toml::from_str::<Plan>(&format!("seed = 7\n{text}")).unwrap();
        let (curve, warning) = read_curve(&run, &plan("")).unwrap();
        assert_eq!(warning, None);
        let expected = Curve {
            label: String::new(),
            seed: 7,
            epochs: vec![
                EpochPoint {
                    epoch: 0,
                    train_loss: None,
                    lr: Some(0.001),
                    images_per_second: Some(100.0),
                    val: Metrics::from([("loss", 1.25), ("top1", 50.0), ("top5", 90.5)]),
                    ema: Metrics::from([("loss", 1.25), ("top1", 40.0), ("top5", 90.5)]),
                    best: Metrics::default(),
                },
                EpochPoint {
                    epoch: 1,
                    train_loss: Some(2.0),
                    lr: Some(0.001),
                    images_per_second: Some(100.0),
                    ..EpochPoint::default()
                },
            ],
        };
        assert_eq!(curve, expected);

        let of_ema = plan("[ema]\nreport = \"ema\"\n");
        let (curve, _) = read_curve(&run, &of_ema).unwrap();
        let first = EpochPoint {
            val: Metrics::from([("loss", 1.25), ("top1", 40.0), ("top5", 90.5)]),
            ema: Metrics::default(),
            ..expected.epochs[0].clone()
        };
        assert_eq!(curve.epochs, [first, expected.epochs[1].clone()]);

        // If it ends there, the evaluation is its last one.
        let (curve, _) = read_curve(&run, &plan("[train]\nmax_steps = 30\n")).unwrap();
        assert_eq!(curve.epochs[..2], expected.epochs[..]);
        let end = EpochPoint {
            epoch: 2,
            val: Metrics::from([("loss", 1.25), ("top1", 60.0), ("top5", 90.5)]),
            ..EpochPoint::default()
        };
        assert_eq!(curve.epochs[2..], [end]);
    }

    #[test]
    fn a_missing_log_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(folder.path(), false).unwrap();
        let error = read_curve(&run, &Plan::default()).unwrap_err();
        assert!(error.to_string().contains("log.jsonl"), "{error}");
    }
}
