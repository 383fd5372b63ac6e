//! What small k costs in accuracy and saves in time, which the paper does not ask: top-1 against the seconds of training.

use super::super::{
    Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table,
};
use super::{bar, fields, kept, ours, paired, steps, with_interval};
use kvt_tools::bench::{ModelCase, Rounds, Timing};
use kvt_tools::report::Statistic;
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells, or_empty};

/// The runs of one k, or of dense attention.
struct Row {
    name: String,
    /// The keys that a query keeps, in numbers and in words.
    k: usize,
    kept: String,
    /// Images of its training, and of one step.
    images: f64,
    batch: usize,
    /// A step, measured when the page is made.
    step: Option<Timing>,
    /// Top-1 after the last epoch, by seed.
    tops: Vec<(u64, f64)>,
    /// Mean top-1 after each epoch that was judged.
    curve: Vec<(u32, f64)>,
    epochs: u32,
}

/// The steps of all rows take turns, so that a machine that becomes slower slows all of them.
const ROUNDS: Rounds = Rounds {
    warmup: 1,
    timed: 9,
};

/// Small k: no table or figure of a paper.
pub(crate) const ITEM: Item = Item {
    name: "small-k",
    title: "Small k: top-1 by the seconds of training",
    stated: "Nothing: [KVT](https://arxiv.org/abs/2106.00515) asks which k is best, and selects keys after all products are computed, so \
     that a small k saves no time. Here the products of at most a fifth of the keys are computed for these alone.",
    scales: &[Scale::CifarShort],
    versions: &[Version::Eccv],
    metrics: &[Metric::TOP1],
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, order: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let rows: Result<Vec<Row>, _> = runs.sweep.rows().map(|name| row(name, runs)).collect();
    let mut rows = rows?;
    rows.sort_by_key(|row| row.k);
    let device = measure(&mut rows, runs, order, watch)?;
    let measured = measured(&rows, device.as_deref());
    let found = found(&rows, &measured, runs, order);
    let outcome = Outcome::of(csv(&rows), svg(&rows), found)?;
    Ok(outcome.that_says(verdict(&rows)))
}

fn row(name: &str, runs: &Runs) -> Result<Row, ReproduceError> {
    let mut row = Row {
        name: name.to_owned(),
        k: 0,
        kept: String::new(),
        images: 0.0,
        batch: 1,
        step: None,
        tops: runs.by_seed(name, |found| found.last(Metric::TOP1)),
        curve: Vec::new(),
        epochs: 0,
    };
    let Some(cell) = runs.cell(name) else {
        return Ok(row);
    };
    let summary = cell.plan.model.config(None)?.summary();
    if let Some(stage) = summary.attending().next() {
        (row.k, row.kept) = (stage.k, kept(stage));
    }
    row.epochs = cell.plan.epochs().unwrap_or(0);
    row.batch = cell.plan.train.batch_size;
    let images = runs.finished(name).find_map(|(_, found)| found.images);
    row.images = images.unwrap_or(0) as f64 * f64::from(row.epochs);
    let judged = (1..=row.epochs).filter_map(|epoch| {
        let top = runs.statistic(name, |found| found.at(Metric::TOP1, epoch))?;
        Some((epoch, top.mean))
    });
    row.curve = judged.collect();
    Ok(row)
}

/// Times a training step of each row that has a finished run, and returns the device in words, if there is such a row. The steps of the
/// runs themselves also show what else the machine did.
fn measure(
    rows: &mut [Row],
    runs: &Runs,
    order: &Order,
    watch: &dyn Watch,
) -> Result<Option<String>, ReproduceError> {
    let (mut timed, mut cases, mut device) = (Vec::new(), Vec::new(), None);
    for row in rows.iter_mut().filter(|row| !row.tops.is_empty()) {
        let Some(cell) = runs.cell(&row.name) else {
            continue;
        };
        cases.push(ModelCase::of(&row.name, &cell.plan, row.batch)?);
        device.get_or_insert(&cell.plan.train.device);
        timed.push(row);
    }
    let Some(device) = device else {
        return Ok(None);
    };
    // That of the runs.
    let device = order.devices.first().unwrap_or(device);
    let (found, device) = steps(&cases, device, ROUNDS, watch)?;
    for (row, one) in timed.into_iter().zip(found) {
        row.step = Some(one.step);
    }
    Ok(Some(device))
}

/// How steps were measured, in sentences; empty if none was.
fn measured(rows: &[Row], device: Option<&str>) -> String {
    let timed = rows.iter().find(|row| row.step.is_some());
    let Some((row, device)) = timed.zip(device) else {
        return String::new();
    };
    format!(
        "When this page was made, a training step of each row was measured {} times on {device}, batch {}, the rows in turn: median and \
         quartiles. Seconds are those of as many steps as the training has, without evaluations. ",
        ROUNDS.timed, row.batch
    )
}

impl Row {
    /// Seconds of training, without evaluations.
    fn seconds(&self) -> Option<f64> {
        let step = self.step.as_ref()?;
        Some(step.median / 1e3 * self.images / self.batch as f64)
    }

    fn top(&self) -> Option<Statistic> {
        let tops = self.tops.iter().map(|(_, top)| *top);
        Statistic::of(&tops.collect::<Vec<_>>())
    }

    /// Seconds as a share of those of `dense`, and points of top-1 minus its own, by seed, with the half width of the 95 % interval.
    fn beside(&self, dense: &Self) -> Option<[String; 2]> {
        let share = self.seconds()? / dense.seconds()?;
        let test = paired(&dense.tops, &self.tops)?;
        Some([format!("{share:.2}"), with_interval(&test)])
    }
}

/// The row of dense attention keeps all keys.
fn dense(rows: &[Row]) -> Option<&Row> {
    rows.iter().find(|row| row.name == "dense")
}

/// What the smallest k costs and saves.
fn verdict(rows: &[Row]) -> String {
    let smallest = rows.iter().filter(|row| row.name != "dense");
    let mut smallest = smallest.filter_map(|row| Some((row, row.beside(dense(rows)?)?)));
    smallest.next().map_or_else(String::new, |(row, values)| {
        let [share, points] = values;
        format!(
            "**Beside dense attention the smallest finished k, {}, has {points} points of top-1, and takes {share} of the time.**",
            row.kept
        )
    })
}

fn found(rows: &[Row], measured: &str, runs: &Runs, order: &Order) -> String {
    let beside = |row: &Row| dense(rows).and_then(|dense| row.beside(dense));
    let mut text = format!(
        "Our runs at scale `{}`. {measured}Differences are paired by seed, with the half width of the 95 % interval. The picture has a line \
         for each k through its epochs, with a bar of one standard deviation over the seeds at the end.\n\n",
        order.scale
    );
    let lines = rows.iter().map(|row| {
        let [top, spread] = ours(row.top().as_ref());
        let [share, points] = beside(row)
            .filter(|_| row.name != "dense")
            .unwrap_or_default();
        let name = row.kept.clone() + runs.mark(&row.name);
        let [step, quartiles] = row.step.as_ref().map_or_else(Default::default, |step| {
            let quartiles = format!("{:.1} to {:.1}", step.low, step.high);
            [format!("{:.1}", step.median), quartiles]
        });
        let seconds = row
            .seconds()
            .map_or_else(String::new, |all| format!("{all:.0}"));
        [name, step, quartiles, seconds, share, top, spread, points]
    });
    let header = "keys kept | step, ms | *quartiles* | seconds | time, of dense | top-1, last | *spread* | top-1, minus dense";
    text += &table(header.split(" | "), lines);
    text + &runs.notes(Metric::TOP1)
}

fn csv(rows: &[Row]) -> String {
    let rows = rows.iter().map(|row| {
        let step = row.step.as_ref();
        let first = cells([
            &row.name,
            &row.k,
            &or_empty(step.map(|step| step.median)),
            &or_empty(step.map(|step| step.low)),
            &or_empty(step.map(|step| step.high)),
            &or_empty(row.seconds()),
        ]);
        [&first[..], &fields(row.top().as_ref())].concat()
    });
    let header = "run,k,step ms,low ms,high ms,seconds,last,last spread,last seeds";
    Table::new(header.split(','), rows).csv()
}

fn svg(rows: &[Row]) -> Result<String, String> {
    let mut lines = Vec::new();
    for (color, row) in rows.iter().enumerate() {
        let (Some(seconds), Some(top)) = (row.seconds(), row.top()) else {
            continue;
        };
        let place = |(epoch, top): &(u32, f64)| {
            let share = f64::from(*epoch) / f64::from(row.epochs);
            (share * seconds, *top)
        };
        let line = Line::new(&row.name, color, row.curve.iter().map(place));
        lines.push(if row.name == "dense" {
            line.dashed()
        } else {
            line
        });
        lines.extend(bar(color, seconds, &top));
    }
    Chart {
        title: "Top-1 by the seconds of training",
        x: Axis::linear("seconds of training"),
        y: Axis::linear("top-1, %"),
        lines,
        names: Names::Within(plotters::chart::SeriesLabelPosition::LowerRight),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn of(name: &str, step: Option<f64>, tops: &[f64]) -> Row {
        Row {
            name: name.to_owned(),
            k: 0,
            kept: String::new(),
            images: 1000.0,
            batch: 10,
            step: step.map(|median| Timing {
                median,
                low: median,
                high: median,
            }),
            tops: (0..).zip(tops.iter().copied()).collect(),
            curve: Vec::new(),
            epochs: 2,
        }
    }

    /// 100 steps of 0.9 and 1.2 seconds; -2 and -3 points: a mean of -2.5, a standard error of 0.5, and t of one degree of freedom is 12.706.
    #[test]
    fn a_row_is_beside_dense_attention() {
        let dense = of("dense", Some(1200.0), &[51.0, 53.0]);
        let small = of("k8", Some(900.0), &[49.0, 50.0]);
        let text = small.beside(&dense).unwrap();
        assert_eq!(text, ["0.75", "-2.5 ± 6.4"]);
        assert_eq!(small.seconds(), Some(90.0));
        assert_eq!(of("k8", None, &[]).beside(&dense), None);
    }

    #[test]
    fn a_page_says_where_and_how_steps_were_measured() {
        let rows = [
            of("k8", None, &[]),
            of("dense", Some(1200.0), &[51.0, 53.0]),
        ];
        let text = measured(&rows, Some("cpu (2 threads)"));
        assert!(
            text.contains("9 times on cpu (2 threads), batch 10"),
            "{text}"
        );
        // Nothing is said of what was not measured.
        assert_eq!(measured(&rows[..1], None), "");
        let csv = csv(&rows);
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1], "k8,0,,,,,,,");
        assert!(
            lines[2].starts_with("dense,0,1200,1200,1200,120,52,"),
            "{csv}"
        );
    }
}
