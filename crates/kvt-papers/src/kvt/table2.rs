//! Table 2: top-1 by epoch.

use super::paper::{Convergence, TABLE2, TABLE2_EPOCHS};
use super::{cited, fields, ours, paired, percent};
use crate::verdict::LEVEL;
use crate::{Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use kvt_tools::report::{PairedT, difference_text};
use kvt_tools::sweep::p_is;
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells, or_empty};

/// The epochs of the smaller scales.
const SHORT: [u32; 6] = [1, 2, 3, 5, 7, 10];

/// Table 2 of both versions.
pub(crate) const ITEM: Item = Item {
    name: "table2",
    title: "KVT, table 2: top-1 by epoch with dense and with k-NN attention",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), Table 2: top-1 on ImageNet-1k after 10 to 300 epochs of DeiT-S, CvT-13 and \
     T2T-ViT-t-19, once each. \"The convergence speed of k-NN attention is faster than full-connected attention, especially in the \
     early stage of training.\" CvT's columns are others in version 1, where they are of the authors' own implementation.\n\n\
     Not stated: seeds, and whether \"epoch 10\" is after 10 epochs or after 11; here it is after 10. T2T-ViT's columns are of the \
     average of its weights (0.52 % after 10 epochs), and so are ours.",
    scales: &[Scale::Paper, Scale::Cifar, Scale::CifarShort],
    versions: &[Version::Eccv, Version::V1],
    metrics: &[Metric::TOP1],
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, order: &Order, _: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let outcome = Outcome::of(csv(runs, order), svg(runs, order), found(runs, order))?;
    Ok(outcome.that_says(verdicts(runs, order)))
}

/// The numbers of finished epochs, one for each row.
fn epochs(order: &Order) -> &'static [u32] {
    match order.scale {
        Scale::Paper => &TABLE2_EPOCHS,
        _ => &SHORT,
    }
}

/// The paper's top-1 of a model after `epoch` epochs, dense and k-NN.
fn paper(model: &Convergence, order: &Order, epoch: u32) -> [Option<f64>; 2] {
    // The smaller scales train other models on other images, so their numbers are not comparable.
    if order.scale != Scale::Paper {
        return [None, None];
    }
    let place = TABLE2_EPOCHS.iter().position(|known| *known == epoch);
    let of = model.of(order.version);
    of.map(|column| column.get(place?).copied())
}

/// The paired test of k-NN minus dense after `epoch` epochs, seed by seed.
fn difference(runs: &Runs, key: &str, epoch: u32) -> Option<PairedT> {
    let of = |attention: &str| {
        let row = format!("{key}-{attention}");
        runs.by_seed(&row, |found| found.at(Metric::TOP1, epoch))
    };
    paired(&of("dense"), &of("knn"))
}

/// What the intervals of the differences say: a line for each model that was trained with more than one seed.
fn verdicts(runs: &Runs, order: &Order) -> String {
    let verdict = |model: &Convergence| {
        let epochs = epochs(order);
        let tests = epochs
            .iter()
            .filter_map(|epoch| Some((*epoch, difference(runs, model.key, *epoch)?)));
        verdict(model.name, &tests.collect::<Vec<_>>(), *epochs.last()?)
    };
    TABLE2.iter().filter_map(verdict).collect()
}

/// Who is ahead after which epochs, by the 95 % intervals of k-NN minus dense, and whether that is faster convergence of a training of
/// `end` epochs; `None` without intervals.
fn verdict(name: &str, tests: &[(u32, PairedT)], end: u32) -> Option<String> {
    let intervals = tests.iter().filter_map(|(epoch, test)| {
        let (mean, half) = (test.difference.mean, test.half_width?);
        Some((*epoch, mean - half, mean + half))
    });
    let intervals: Vec<(u32, f64, f64)> = intervals.collect();
    let list = |state: &str, of: &dyn Fn(f64, f64) -> bool| {
        let epochs = intervals.iter().filter(|(_, low, high)| of(*low, *high));
        let epochs: Vec<String> = epochs.map(|(epoch, ..)| epoch.to_string()).collect();
        (!epochs.is_empty()).then(|| format!("{state} after epochs {}", epochs.join(", ")))
    };
    let (_, last) = tests.last()?;
    let seeds = last.difference.runs;
    let all = [
        list("k-NN attention is ahead", &|low, _| low > 0.0),
        list("dense attention is ahead", &|_, high| high < 0.0),
        list("undecided", &|low, high| low <= 0.0 && high >= 0.0),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| {
        format!(
            "**{name}, {seeds} seeds: {}** (95 % intervals, paired by seed). {}\n\n",
            all.join("; "),
            convergence(tests, end)
        )
    })
}

/// Whether the tests of all epochs together say that one of the two converges faster. Each alone may be wrong in 5 % of cases, so the 5 %
/// are divided by their number (Bonferroni). Who is ahead after the `last` epoch of the training says nothing about speed, so that test
/// counts among those of the same runs, but as one of final accuracy.
fn convergence(tests: &[(u32, PairedT)], last: u32) -> String {
    let judged = tests.iter();
    let judged = judged.filter_map(|(epoch, test)| Some((*epoch, test.difference.mean, test.p?)));
    let judged: Vec<(u32, f64, f64)> = judged.collect();
    let count = judged.len();
    let corrected = LEVEL / count as f64;
    let ahead = |sign: f64, limit: f64| {
        let epochs = judged
            .iter()
            .filter(|(epoch, mean, p)| *epoch != last && mean * sign > 0.0 && *p < limit);
        let epochs: Vec<String> = epochs.map(|(epoch, ..)| epoch.to_string()).collect();
        epochs.join(", ")
    };
    let (knn, dense) = ("k-NN attention", "dense attention");
    let [single, stay] = [LEVEL, corrected].map(|limit| [1.0, -1.0].map(|sign| ahead(sign, limit)));
    let weak = |name: &str| {
        format!(
            "That is weak evidence that {name} converges faster: these are {count} tests of the same runs, and with Bonferroni's \
             correction for their number no epoch stays ahead."
        )
    };
    let strong = |name: &str, stay: &str| {
        format!(
            "That is evidence that {name} converges faster: with Bonferroni's correction for {count} tests of the same runs it stays \
             ahead after epochs {stay}."
        )
    };
    let mut text = match stay.each_ref().map(String::as_str) {
        ["", ""] => match single.each_ref().map(String::is_empty) {
            [true, true] => {
                "So nothing here shows that one of the two converges faster.".to_owned()
            }
            [false, true] => weak(knn),
            [true, false] => weak(dense),
            [false, false] => format!(
                "So nothing here shows which of the two converges faster: with Bonferroni's correction for {count} tests of the same \
                 runs neither stays ahead."
            ),
        },
        [stay, ""] => strong(knn, stay),
        ["", stay] => strong(dense, stay),
        _ => format!(
            "So the epochs contradict each other about which converges faster, with Bonferroni's correction for {count} tests of the \
             same runs too."
        ),
    };
    if let Some((_, mean, p)) = judged.iter().find(|(epoch, ..)| *epoch == last) {
        let name = if *mean > 0.0 { knn } else { dense };
        let state = match *p {
            p if p < corrected => format!("{name} is ahead there, at 5 % / {count} too"),
            p if p < LEVEL => format!("{name} is ahead there, but not at 5 % / {count}"),
            _ => "neither is ahead there".to_owned(),
        };
        text +=
            &format!(" Epoch {last}, the last, counts as final accuracy, not as speed: {state}.");
    }
    text
}

fn found(runs: &Runs, order: &Order) -> String {
    let mut text = format!(
        "{}, beside our runs at scale `{}`: top-1 in percent after each number of finished epochs. The last column is k-NN minus dense, \
         seed by seed: mean ± standard deviation, and in brackets half the width of the 95 % interval and the p value of a paired t test.\n",
        cited(order.version, "Table 2"),
        order.scale
    );
    if order.scale != Scale::Paper {
        text += "\nThese are small models on CIFAR-10, whose epochs are not those of the paper: its columns are empty, and its own \
                 table follows ours.\n";
    }
    for model in TABLE2 {
        let header = "epoch | dense, *paper* | dense, *ours* | *spread* | k-NN, *paper* | k-NN, *ours* | *spread* | \
                      difference, *paper* | difference, *ours*";
        let rows = epochs(order).iter().map(|&epoch| {
            let [dense, knn] = paper(model, order, epoch);
            let mut row = vec![epoch.to_string()];
            for (attention, stated_here) in [("dense", dense), ("knn", knn)] {
                let name = format!("{}-{attention}", model.key);
                let own = runs.statistic(&name, |found| found.at(Metric::TOP1, epoch));
                row.push(percent(stated_here));
                row.extend(ours(own.as_ref()));
            }
            let gain = dense.zip(knn).map(|(dense, knn)| knn - dense);
            row.push(gain.map_or_else(String::new, |gain| format!("{gain:+.2}")));
            row.push(difference_cell(difference(runs, model.key, epoch)));
            row
        });
        text += &format!(
            "\n### {}\n\n{}",
            model.name,
            table(header.split(" | "), rows)
        );
    }
    if order.scale != Scale::Paper {
        text += &format!("\n### The paper, ImageNet-1k\n\n{}", printed(order.version));
    }
    text + &runs.notes(Metric::TOP1)
}

/// The paper's table.
fn printed(version: Version) -> String {
    let names = TABLE2.iter();
    let names =
        names.flat_map(|model| ["dense", "k-NN"].map(|kind| format!("{}, {kind}", model.name)));
    let header = std::iter::once("epoch".to_owned()).chain(names);
    let row = |(place, epoch): (usize, &u32)| {
        let columns = TABLE2.iter().flat_map(|model| model.of(version));
        let numbers = columns.map(|column| percent(column.get(place).copied()));
        let cells = std::iter::once(epoch.to_string()).chain(numbers);
        cells.collect::<Vec<_>>()
    };
    table(header, TABLE2_EPOCHS.iter().enumerate().map(row))
}

/// A difference with its interval, or an empty cell.
fn difference_cell(test: Option<PairedT>) -> String {
    let Some(test) = test else {
        return String::new();
    };
    let text = difference_text(Some(&test.difference), Metric::TOP1);
    match (test.half_width, test.p) {
        (Some(half), Some(p)) => format!("{text} (± {half:.1}, {})", p_is(p)),
        _ => text,
    }
}

fn csv(runs: &Runs, order: &Order) -> String {
    let mut rows = Vec::new();
    for model in TABLE2 {
        for &epoch in epochs(order) {
            let numbers = paper(model, order, epoch);
            for (attention, number) in ["dense", "knn"].into_iter().zip(numbers) {
                let name = format!("{}-{attention}", model.key);
                let own = runs.statistic(&name, |found| found.at(Metric::TOP1, epoch));
                let (version, number) = (order.version.name(), or_empty(number));
                let first = cells([&model.name, &epoch, &attention, &version, &number]);
                rows.push([&first[..], &fields(own.as_ref())].concat());
            }
        }
    }
    let header = "model,epoch,attention,version,paper,ours,spread,seeds";
    Table::new(header.split(','), rows).csv()
}

/// Our curves, solid for k-NN attention and dashed for dense attention.
fn svg(runs: &Runs, order: &Order) -> Result<String, String> {
    let mut lines = Vec::new();
    for (color, model) in TABLE2.iter().enumerate() {
        for (attention, words) in [("dense", "dense"), ("knn", "k-NN")] {
            let name = format!("{}-{attention}", model.key);
            let points = epochs(order).iter().filter_map(|&epoch| {
                let own = runs.statistic(&name, |found| found.at(Metric::TOP1, epoch))?;
                Some((f64::from(epoch), own.mean))
            });
            let line = Line {
                dashed: attention == "dense",
                ..Line::new(format!("{}, {words}", model.name), color, points)
            };
            if !line.points.is_empty() {
                lines.push(line);
            }
        }
    }
    let ticks = epochs(order)
        .iter()
        .map(|epoch| f64::from(*epoch))
        .collect();
    Chart {
        title: "Top-1 by epoch",
        x: Axis::linear("finished epochs").at(ticks),
        y: Axis::linear("top-1, %"),
        lines,
        names: Names::Beside,
    }
    .svg()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Three seeds: the half width is 4.30 standard errors (t of two degrees of freedom, 97.5 %).
    #[test]
    fn a_verdict_goes_by_the_intervals() {
        let test = |differences: &[f64]| PairedT::of(differences).unwrap();
        let tests = [
            (1, test(&[2.0, 2.1, 2.2])),
            (2, test(&[-1.0, 0.0, 2.0])),
            (3, test(&[0.4, 0.5, 0.6])),
            (5, test(&[-3.0, -3.1, -3.2])),
        ];
        let text = "**DeiT-S, 3 seeds: k-NN attention is ahead after epochs 1, 3; dense attention is ahead after epochs 5; \
                    undecided after epochs 2** (95 % intervals, paired by seed). So the epochs contradict each other about which converges \
                    faster, with Bonferroni's correction for 4 tests of the same runs too.\n\n";
        assert_eq!(verdict("DeiT-S", &tests, 10).unwrap(), text);
        assert_eq!(verdict("DeiT-S", &[(1, test(&[2.0]))], 10), None);
        assert_eq!(verdict("DeiT-S", &[], 10), None);
    }

    /// With two degrees of freedom p = 1 - t / sqrt(2 + t^2): of 0.4, 0.5, 0.6 (t = 8.66) 0.0131, which is below 5 % / 3 and above
    /// 5 % / 4; of 2.0, 2.1, 2.2 (t = 36.4) 0.0008.
    #[test]
    fn faster_convergence_needs_the_correction() {
        let test = |differences: &[f64]| PairedT::of(differences).unwrap();
        let (clear, small) = (test(&[2.0, 2.1, 2.2]), test(&[0.4, 0.5, 0.6]));
        let none = test(&[-1.0, 0.0, 2.0]);
        let three = convergence(&[(1, clear), (2, none), (3, small)], 10);
        assert!(
            three.starts_with("That is evidence that k-NN")
                && three.ends_with("ahead after epochs 1, 3."),
            "{three}"
        );
        let four = convergence(&[(1, none), (2, none), (3, small), (5, none)], 10);
        assert!(
            four.starts_with("That is weak evidence that k-NN") && four.contains("4 tests"),
            "{four}"
        );
        let nothing = convergence(&[(1, none), (2, none)], 10);
        assert_eq!(
            nothing,
            "So nothing here shows that one of the two converges faster."
        );
    }

    /// The p values are those above.
    #[test]
    fn either_may_be_faster_and_a_contradiction_needs_the_correction_too() {
        let test = |differences: &[f64]| PairedT::of(differences).unwrap();
        let (clear, small) = (test(&[2.0, 2.1, 2.2]), test(&[0.4, 0.5, 0.6]));
        let (none, dense) = (test(&[-1.0, 0.0, 2.0]), test(&[-0.4, -0.5, -0.6]));
        for (tests, begin) in [
            (vec![(1, none), (2, dense)], "That is evidence that dense"),
            (
                vec![(1, none), (2, none), (3, none), (5, dense)],
                "That is weak evidence that dense",
            ),
            (
                vec![(1, clear), (2, none), (3, none), (5, dense)],
                "That is evidence that k-NN",
            ),
            (
                vec![(1, small), (2, none), (3, none), (5, dense)],
                "So nothing here shows which",
            ),
            (
                vec![(1, clear), (2, none), (5, dense)],
                "So the epochs contradict",
            ),
        ] {
            let text = convergence(&tests, 10);
            assert!(text.starts_with(begin), "{text}");
        }
    }

    /// The last of three tests has p = 0.0008 or 0.0131, of four 0.0131: below and above 5 % divided by their number.
    #[test]
    fn the_last_epoch_is_accuracy_and_not_speed() {
        let test = |differences: &[f64]| PairedT::of(differences).unwrap();
        let (none, small) = (test(&[-1.0, 0.0, 2.0]), test(&[0.4, 0.5, 0.6]));
        let (clear, dense) = (test(&[2.0, 2.1, 2.2]), test(&[-0.4, -0.5, -0.6]));
        let nothing = "So nothing here shows that one of the two converges faster. Epoch 5, the last, counts as final accuracy, not as \
                       speed:";
        for (tests, end) in [
            (
                vec![(1, none), (2, none), (5, clear)],
                "k-NN attention is ahead there, at 5 % / 3 too.",
            ),
            (
                vec![(1, none), (2, none), (5, dense)],
                "dense attention is ahead there, at 5 % / 3 too.",
            ),
            (
                vec![(1, none), (2, none), (3, none), (5, small)],
                "k-NN attention is ahead there, but not at 5 % / 4.",
            ),
            (vec![(1, none), (5, none)], "neither is ahead there."),
        ] {
            assert_eq!(convergence(&tests, 5), format!("{nothing} {end}"));
        }
        let text = convergence(&[(1, clear), (5, dense)], 5);
        assert!(
            text.starts_with("That is evidence that k-NN")
                && text.contains("after epochs 1. Epoch 5"),
            "{text}"
        );
    }
}
