//! The results of a sweep as tables: its cells, and its pairs with tests.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::error::wrong;
use super::{Cell, Cost, Found, State, Sweep, SweepError};
use crate::report::{PairedT, difference_text, interval_text, mcnemar};
use kvt_data::escape::{code, markdown};
use kvt_data::fs::if_there;
use kvt_data::regular;
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells, or_empty};

/// A seed, the numbers of validation images that only the first and only the second run classifies correctly, and the p value of McNemar's
/// exact test.
pub type OfSeed = (u64, [u64; 2], f64);

/// Two rows, tested against each other.
#[derive(Clone, Debug, PartialEq)]
pub struct PairRow {
    /// The names of the rows.
    pub names: [String; 2],
    /// The second one minus the first one after the last epoch, seed by seed.
    pub last: Option<PairedT>,
    /// The same for the best epoch of each run.
    pub best: Option<PairedT>,
    /// By seed, after the last epoch.
    pub images: Vec<OfSeed>,
}

/// The pairs of a sweep. Seeds that are not finished in both rows are left out.
#[must_use]
pub fn pairs(sweep: &Sweep, found: &[Found], metric: Metric) -> Vec<PairRow> {
    let pairs = sweep.pairs.iter();
    pairs
        .map(|names| pair(names, &sweep.cells, found, metric))
        .collect()
}

fn pair(names: &[String; 2], cells: &[Cell], found: &[Found], metric: Metric) -> PairRow {
    let of = |name: &String| {
        let all = cells.iter().zip(found);
        let own = all.filter(|(cell, found)| cell.name == *name && found.is_finished());
        own.map(|(cell, found)| (cell.plan.seed, found))
            .collect::<Vec<_>>()
    };
    let [firsts, seconds] = names.each_ref().map(of);
    let both: Vec<(u64, &Found, &Found)> = firsts
        .iter()
        .filter_map(|(seed, first)| {
            let (_, second) = seconds.iter().find(|(other, _)| other == seed)?;
            Some((*seed, *first, *second))
        })
        .collect();
    let test = |value: &dyn Fn(&Found) -> Option<f64>| {
        let differences = both.iter();
        let differences =
            differences.filter_map(|(_, first, second)| Some(value(second)? - value(first)?));
        PairedT::of(&differences.collect::<Vec<_>>())
    };
    // Numbers of images say nothing across folders.
    let [folder, other_folder] = names.each_ref().map(|name| {
        let cell = cells.iter().find(|cell| cell.name == *name);
        cell.map(|cell| &cell.plan.data.path)
    });
    let images = both.iter().filter_map(|(seed, first, second)| {
        if folder != other_folder {
            return None;
        }
        let [first, second] = [first, second].map(|found| found.predictions.as_ref());
        let counts = first?.discordant(second?)?;
        Some((*seed, counts, mcnemar(counts)))
    });
    PairRow {
        names: names.clone(),
        last: test(&|found| found.last(metric)),
        best: test(&|found| found.best(metric)),
        images: images.collect(),
    }
}

impl PairRow {
    /// The difference with its 95 % interval and p value, if there are any.
    #[must_use]
    pub fn text(test: Option<&PairedT>, metric: Metric) -> String {
        let Some(test) = test else {
            return String::new();
        };
        let mut text = difference_text(Some(&test.difference), metric);
        if let (Some(half), Some(p)) = (test.half_width, test.p) {
            let interval = interval_text(test.difference.mean, half, metric);
            text += &format!(", 95 % {interval}, {}", p_is(p));
        }
        text
    }

    /// McNemar's counts and p values, seed by seed.
    #[must_use]
    pub fn images_text(&self) -> String {
        let seeds = self.images.iter().map(|(seed, [first, second], p)| {
            format!("seed {seed}: {first} / {second}, {}", p_is(*p))
        });
        seeds.collect::<Vec<_>>().join("; ")
    }
}

/// `p = 0.02`, or `p < 1e-99`.
#[must_use]
pub fn p_is(p: f64) -> String {
    match p_text(p) {
        text if text.starts_with('<') => format!("p {text}"),
        text => format!("p = {text}"),
    }
}

/// A rounded p value; below 1e-99, only that bound.
fn p_text(p: f64) -> String {
    match p {
        p if p >= 0.1 => format!("{p:.2}"),
        p if p >= 0.001 => format!("{p:.3}"),
        p if p < 1e-99 => "< 1e-99".to_owned(),
        p => format!("{p:.0e}"),
    }
}

/// The pairs in Markdown, with an explanation of the numbers.
#[must_use]
pub fn pairs_markdown(pairs: &[PairRow], metric: Metric) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let header = "pair,last epoch,best epoch,images that one of them alone gets right";
    let rows = pairs.iter().map(|pair| {
        let [first, second] = pair.names.each_ref().map(|name| markdown(name));
        [
            format!("{second} minus {first}"),
            PairRow::text(pair.last.as_ref(), metric),
            PairRow::text(pair.best.as_ref(), metric),
            pair.images_text(),
        ]
    });
    Table::new(header.split(','), rows).markdown(&[0, 3])
        + "\nDifferences seed by seed: mean ± sample standard deviation, the 95 % confidence interval of the mean and the p value of \
            a paired t test; differences that are all the same have no test. The counts are of validation images that the first and the \
            second model alone get right after the last epoch, with the p value of McNemar's exact test: whether these two networks \
            differ, not whether other seeds would.\n"
}

/// The pairs as CSV.
#[must_use]
pub(super) fn pairs_csv(pairs: &[PairRow]) -> String {
    let header = "first,second,pairs,last,last spread,last t,last p,last 95% half width,best,best spread,best t,best p,best 95% half width,\
                  seeds,first alone right,second alone right,McNemar p";
    let test = |test: Option<&PairedT>| {
        [
            test.map(|test| test.difference.mean),
            test.and_then(|test| test.difference.spread),
            test.and_then(|test| test.t),
            test.and_then(|test| test.p),
            test.and_then(|test| test.half_width),
        ]
        .map(or_empty)
    };
    let rows = pairs.iter().map(|pair| {
        let list = |value: fn(&OfSeed) -> String| {
            pair.images.iter().map(value).collect::<Vec<_>>().join(" ")
        };
        let [first, second] = &pair.names;
        let lists = [
            list(|(seed, ..)| seed.to_string()),
            list(|(_, [first, _], _)| first.to_string()),
            list(|(_, [_, second], _)| second.to_string()),
            list(|(.., p)| p.to_string()),
        ];
        [
            &cells([
                first,
                second,
                &pair.last.map_or(0, |test| test.difference.runs),
            ])[..],
            &test(pair.last.as_ref()),
            &test(pair.best.as_ref()),
            &lists,
        ]
        .concat()
    });
    Table::new(header.split(','), rows).csv()
}

/// The header of [`cells_csv`].
pub(super) fn cells_header(metrics: &[Metric]) -> String {
    let names = metrics.iter().map(|metric| metric.name);
    let names: String = names
        .map(|name| format!("last {name},best {name},"))
        .collect();
    format!("run,seed,state,epochs,training images,validation images,{names}seconds,command")
}

/// All cells as CSV: the state and the results of each, by these metrics. Another sweep can take them from it.
#[must_use]
pub fn cells_csv(all: &[Cell], found: &[Found], metrics: &[Metric]) -> String {
    let header = cells_header(metrics);
    let rows = all.iter().zip(found).map(|(cell, found)| {
        let values = metrics.iter();
        let values = values.flat_map(|metric| [found.last(*metric), found.best(*metric)]);
        let first = cells([
            &cell.name,
            &cell.plan.seed,
            &found.state,
            &or_empty(cell.plan.epochs()),
            &or_empty(found.images),
            &or_empty(found.eval_images),
        ]);
        let last = cells([&found.seconds.round(), &cell.command()]);
        [&first[..], &values.map(or_empty).collect::<Vec<_>>(), &last].concat()
    });
    Table::new(header.split(','), rows).csv()
}

/// The rows of a CSV file with this header, `None` without the file.
///
/// # Errors
/// If the file cannot be read, or has other contents.
pub(super) fn read_rows<T: DeserializeOwned>(
    path: &Path,
    header: &str,
) -> Result<Option<Vec<T>>, SweepError> {
    let Some(text) = if_there(regular::read_to_string(path))? else {
        return Ok(None);
    };
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let is_ours = matches!(reader.headers(), Ok(names) if names.iter().eq(header.split(',')));
    match reader.deserialize().collect::<Result<Vec<T>, _>>() {
        Ok(rows) if is_ours && !rows.is_empty() => Ok(Some(rows)),
        _ => {
            let reason = format!(
                "it is not a table of `{header}`: remove it, and the same command writes it again"
            );
            Err(wrong(path, reason))
        }
    }
}

/// The exact command of each cell in Markdown, and its state.
#[must_use]
pub fn commands_markdown(cells: &[Cell], found: &[Found]) -> String {
    let line = |(cell, found): (&Cell, &Found)| {
        let crash = match &found.state {
            State::Crashed(message) => format!(" ({})", markdown(message)),
            _ => String::new(),
        };
        format!(
            "- {}: {}{crash}\n  {}\n",
            markdown(&cell.label()),
            found.state,
            code(&cell.command())
        )
    };
    cells.iter().zip(found).map(line).collect()
}

/// The plan, one row for each cell: its state and its cost. The last row is the sum.
#[must_use]
pub fn plan_rows(cells: &[Cell], found: &[Found], costs: &[Cost]) -> Vec<Vec<String>> {
    let row = |((cell, found), cost): ((&Cell, &Found), &Cost)| {
        vec![
            cell.label(),
            found.state.to_string(),
            cost.epochs.to_string(),
            cost.images.to_string(),
            tera(cost.macs),
            duration(cost.left),
        ]
    };
    let mut rows: Vec<_> = cells.iter().zip(found).zip(costs).map(row).collect();
    let empty = String::new;
    rows.push(vec![
        format!("{} runs", cells.len()),
        empty(),
        empty(),
        empty(),
        tera(costs.iter().map(|cost| cost.macs).sum()),
        duration(costs.iter().map(|cost| cost.left).sum()),
    ]);
    rows
}

/// The header of [`plan_rows`].
pub const PLAN_HEADER: &[&str] = &["run", "state", "epochs", "images", "TMAC", "time left"];

fn tera(macs: f64) -> String {
    format!("{:.1}", macs / 1e12)
}

/// A number of seconds in hours and minutes.
pub(super) fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil() as u64;
    match minutes {
        0 => "-".to_owned(),
        1..60 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Statistic;

    #[test]
    fn a_test_has_the_decimals_of_its_metric() {
        let test = |mean, half_width, p| PairedT {
            difference: Statistic {
                mean,
                spread: Some(0.25),
                runs: 3,
            },
            t: None,
            p: Some(p),
            half_width: Some(half_width),
        };
        let loss = PairRow::text(Some(&test(-0.0123, 0.005, 0.01)), Metric::LOSS);
        assert_eq!(loss, "-0.0123 ± 0.2500, 95 % -0.0173 to -0.0073, p = 0.010");
        let top1 = PairRow::text(Some(&test(1.0, 1.25, 0.0)), Metric::TOP1);
        assert_eq!(top1, "+1.0 ± 0.2, 95 % -0.2 to +2.2, p < 1e-99");
        assert_eq!([p_text(1e-5), p_text(1e-150)], ["1e-5", "< 1e-99"]);
    }
}
