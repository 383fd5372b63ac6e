//! Table 2 of the KVT paper from any runs: how fast each model converges.
//!
//! Rows are models, columns are finished epochs, cells are top-1 or another metric: the mean over seeds and the sample
//! standard deviation. `comparison_text.rs` writes it as text.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use super::columns::columns;
use super::curves::{by_label, ema, val};
use super::{Curve, Statistic};
use kvt_train::run::Metric;

/// The metric of one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The model.
    pub label: String,
    /// Number of runs.
    pub runs: usize,
    /// Its values, over the runs that have them.
    #[serde(flatten)]
    pub values: Values,
    /// The last evaluated epoch with the EMA of the weights, over the runs that keep one.
    pub last_ema: Option<Statistic>,
}

/// The values of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Values {
    /// One cell per column of the table.
    pub cells: Vec<Option<Statistic>>,
    /// Each run's best epoch.
    pub best: Option<Statistic>,
    /// Each run's last evaluated epoch.
    pub last: Option<Statistic>,
}

impl Values {
    /// What `combine` makes of a value of each run, for all values of a row.
    fn new(
        epochs: &[u32],
        metric: Metric,
        combine: impl Fn(&dyn Fn(&Curve) -> Option<f64>) -> Option<Statistic>,
    ) -> Self {
        let cells = epochs.iter();
        let cells = cells.map(|epoch| combine(&|run: &Curve| run.at(metric, *epoch)));
        Self {
            cells: cells.collect(),
            best: combine(&|run: &Curve| run.best(metric)),
            last: combine(&|run: &Curve| run.last(metric)),
        }
    }

    /// All cells of the row, in order.
    pub(super) fn all(&self) -> impl Iterator<Item = Option<&Statistic>> {
        let cells = self.cells.iter().map(Option::as_ref);
        cells.chain([self.best.as_ref(), self.last.as_ref()])
    }
}

/// A table of a metric by finished epochs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The metric that is compared.
    #[serde(serialize_with = "name")]
    pub metric: Metric,
    /// Finished epochs, from 1.
    pub epochs: Vec<u32>,
    /// One row per label, in order of first appearance.
    pub rows: Vec<Row>,
    /// With exactly two rows, the second minus the first. Where the same seeds have a value in both rows, the spread is over the
    /// differences seed by seed; otherwise only the difference of the means is known.
    pub difference: Option<Values>,
}

impl Comparison {
    /// Puts a metric of the curves in a table. Runs may lack epochs: a cell covers only the runs that have a value.
    pub fn new(curves: &[Curve], metric: Metric) -> Self {
        let groups = by_label(curves);
        let epochs = columns(&evaluated(curves, metric));
        let last_ema = |run: &Curve| run.values(ema(metric)).last().map(|(_, value)| value);
        let rows = groups
            .iter()
            .map(|(label, runs)| Row {
                label: (*label).to_owned(),
                runs: runs.len(),
                values: Values::new(&epochs, metric, |of| summary(runs, of)),
                last_ema: summary(runs, last_ema),
            })
            .collect();
        let difference = match groups.as_slice() {
            [(_, first), (_, second)] => {
                let subtracted = Values::new(&epochs, metric, |of| subtract(first, second, of));
                Some(subtracted)
            }
            _ => None,
        };
        Self {
            metric,
            epochs,
            rows,
            difference,
        }
    }
}

fn name<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(metric.name)
}

fn summary(runs: &[&Curve], of: impl Fn(&Curve) -> Option<f64>) -> Option<Statistic> {
    let values: Vec<f64> = runs.iter().filter_map(|run| of(run)).collect();
    Statistic::of(&values)
}

fn subtract(
    first: &[&Curve],
    second: &[&Curve],
    of: impl Fn(&Curve) -> Option<f64>,
) -> Option<Statistic> {
    let by_seed = |runs: &[&Curve]| {
        let values = runs.iter().filter_map(|run| Some((run.seed, of(run)?)));
        let mut values: Vec<(u64, f64)> = values.collect();
        values.sort_by_key(|(seed, _)| *seed);
        values
    };
    let (first, second) = (by_seed(first), by_seed(second));
    let pairs = first.iter().zip(&second);
    if first.len() == second.len() && pairs.clone().all(|(first, second)| first.0 == second.0) {
        let differences = pairs.map(|(first, second)| second.1 - first.1);
        return Statistic::of(&differences.collect::<Vec<_>>());
    }
    let mean = |values: &[(u64, f64)]| {
        Statistic::of(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>())
    };
    let (first, second) = (mean(&first)?, mean(&second)?);
    Some(Statistic {
        mean: second.mean - first.mean,
        spread: None,
        runs: first.runs.min(second.runs),
    })
}

/// The finished epochs after which some run was evaluated, ascending.
fn evaluated(curves: &[Curve], metric: Metric) -> Vec<u32> {
    let runs = curves.iter();
    let epochs = runs.flat_map(|run| run.values(val(metric)).map(|(epoch, _)| epoch));
    epochs.collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
pub(super) mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::EpochPoint;
    use super::*;
    use kvt_train::run::Metrics;

    const TOP1: Metric = Metric::TOP1;

    pub(in crate::report) fn top1(value: Option<f64>) -> Metrics {
        value.map_or_else(Metrics::default, |value| Metrics::from([("top1", value)]))
    }

    pub(in crate::report) fn curve(label: &str, seed: u64, values: &[Option<f64>]) -> Curve {
        Curve {
            label: label.to_owned(),
            seed,
            epochs: (0..)
                .zip(values)
                .map(|(epoch, &value)| EpochPoint {
                    epoch,
                    val: top1(value),
                    ..EpochPoint::default()
                })
                .collect(),
        }
    }

    /// Worked by hand. dense: epoch 1 (10, 14), epoch 2 (20, 22), epoch 3 (30, none).
    /// knn: epoch 1 (11, 17), epoch 2 (24, 24), epoch 3 (29, 33).
    pub(in crate::report) fn example() -> Vec<Curve> {
        vec![
            curve("dense", 0, &[Some(10.0), Some(20.0), Some(30.0)]),
            curve("knn", 1, &[Some(17.0), Some(24.0), Some(33.0)]),
            curve("dense", 1, &[Some(14.0), Some(22.0), None]),
            curve("knn", 0, &[Some(11.0), Some(24.0), Some(29.0)]),
        ]
    }

    fn close(found: Option<Statistic>, mean: f64, spread: Option<f64>, runs: usize) {
        let found = found.unwrap();
        assert!((found.mean - mean).abs() < 1e-12, "{found:?}");
        assert_eq!(found.runs, runs);
        match (found.spread, spread) {
            (Some(found), Some(spread)) => assert!((found - spread).abs() < 1e-12, "{found}"),
            (found, spread) => assert_eq!(found, spread),
        }
    }

    #[test]
    fn cells_are_mean_and_sample_deviation() {
        let table = Comparison::new(&example(), TOP1);
        assert_eq!(table.epochs, [1, 2, 3]);
        let [dense, knn] = table.rows.as_slice() else {
            unreachable!("two labels were given");
        };
        assert_eq!((dense.label.as_str(), dense.runs), ("dense", 2));
        // (10, 14): deviations -2, 2; sum of squares 8; over n - 1 = 1.
        close(dense.values.cells[0], 12.0, Some(8.0_f64.sqrt()), 2);
        close(dense.values.cells[1], 21.0, Some(2.0_f64.sqrt()), 2);
        close(dense.values.cells[2], 30.0, None, 1);
        // Best and last per run: 30 of seed 0, 22 of seed 1.
        close(dense.values.best, 26.0, Some(32.0_f64.sqrt()), 2);
        close(dense.values.last, 26.0, Some(32.0_f64.sqrt()), 2);
        close(knn.values.cells[1], 24.0, Some(0.0), 2);
    }

    #[test]
    fn the_difference_pairs_seeds_where_it_can() {
        let difference = Comparison::new(&example(), TOP1).difference.unwrap();
        // Seed by seed: 11 - 10 = 1 and 17 - 14 = 3.
        close(difference.cells[0], 2.0, Some(2.0_f64.sqrt()), 2);
        // 24 - 20 = 4 and 24 - 22 = 2.
        close(difference.cells[1], 3.0, Some(2.0_f64.sqrt()), 2);
        // Seed 1 is missing in one row: means 31 - 30, no spread.
        close(difference.cells[2], 1.0, None, 1);
        let three = [example(), vec![curve("other", 0, &[Some(1.0)])]].concat();
        assert_eq!(Comparison::new(&three, TOP1).difference, None);
    }

    #[test]
    fn a_value_that_is_not_finite_counts_as_missing() {
        let curves = [
            curve("a", 0, &[Some(1.0), Some(f64::NAN)]),
            curve("a", 1, &[Some(3.0), Some(5.0)]),
        ];
        let table = Comparison::new(&curves, TOP1);
        close(table.rows[0].values.cells[1], 5.0, None, 1);
    }

    #[test]
    fn the_best_of_a_loss_is_the_lowest() {
        let mut run = curve("a", 0, &[None; 3]);
        for (point, loss) in run.epochs.iter_mut().zip([2.0, 1.0, 1.5]) {
            point.val = Metrics::from([("loss", loss), ("top1", 10.0)]);
        }
        let table = Comparison::new(&[run], Metric::LOSS);
        close(table.rows[0].values.best, 1.0, None, 1);
        close(table.rows[0].values.last, 1.5, None, 1);
    }
}
