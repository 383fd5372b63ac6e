//! Figure 1: top-1 against the number of kept keys.

use super::paper::{FIG1, Sweep};
use super::{bar, cited, fields, ours, paired, with_interval};
use crate::verdict::LEVEL;
use crate::{Item, Make, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use kvt_tools::report::{PairedT, Statistic};
use kvt_train::plot::{Axis, Chart, Line, Names, beside};
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells, or_empty};

/// A point of a panel.
struct Point {
    /// The name of its runs.
    row: String,
    /// The kept keys and all keys, stage by stage, separated by slashes.
    kept: String,
    keys: String,
    /// The share of kept keys, averaged over the stages.
    share: f64,
    /// Top-1 after the last epoch, by seed, and its statistic.
    tops: Vec<(u64, f64)>,
    last: Option<Statistic>,
    best: Option<Statistic>,
}

/// Figure 1 of both versions.
pub(crate) const ITEM: Item = Item {
    name: "fig1",
    title: "KVT, figure 1: top-1 by the number of keys that are kept",
    stated: "[KVT](https://arxiv.org/abs/2106.00515), Figure 1: top-1 on ImageNet-1k of DeiT-Tiny, CvT-13, Visformer-Tiny and PiT-Base by \
     k, each beside its dense model. \"k ≈ n/2 at each scale stage for simple token generation methods and k ≈ 2n/3 or 4n/5 for \
     complicated token generation methods.\" The heights of the points are drawn and nowhere printed.\n\n\
     Not stated: seeds; which of PiT's four settings won (all lie within 0.1 points, below the 82.6 of Table 1); and how CvT-13 \
     could keep 1600 of its 784 keys: 3136, 784 and 196 are its queries. With a stride of 1 for keys and values the counts fit, \
     at 6.6 in place of 4.6 GMACs; `cvt-stride1` has them, and `cvt` has the same shares of the keys that there are.",
    scales: &[Scale::Paper, Scale::Cifar, Scale::CifarShort],
    versions: &[Version::Eccv, Version::V1],
    metrics: &[Metric::TOP1],
    takes_known: true,
    make: Make::OfRuns(compute),
    ..Item::PLAIN
};

fn compute(runs: &Runs, order: &Order, _: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let mut panels = Vec::new();
    for panel in FIG1 {
        panels.push((panel, points(panel.key, runs)?));
        // CvT-13 has a second panel, with a key at every token.
        let stride1 = points(&format!("{}-stride1", panel.key), runs)?;
        if !stride1.is_empty() {
            panels.push((panel, stride1));
        }
    }
    let outcome = Outcome::of(csv(&panels), svg(&panels), found(&panels, runs, order))?;
    Ok(outcome.that_says(verdicts(&panels)))
}

/// The points of a panel, whose runs are called `<key>-k...`, sorted by the share of kept keys, and its dense model last.
fn points(key: &str, runs: &Runs) -> Result<Vec<Point>, ReproduceError> {
    let prefix = format!("{key}-");
    let of_panel = |row: &&str| {
        let kind = row.strip_prefix(&*prefix);
        kind.is_some_and(|kind| kind == "dense" || kind.starts_with('k'))
    };
    let mut points = Vec::new();
    for row in runs.sweep.rows().filter(of_panel) {
        let Some(cell) = runs.cell(row) else { continue };
        let summary = cell.plan.model.config(None)?.summary();
        let stages: Vec<_> = summary.attending().collect();
        let list = |number: &dyn Fn(&kvt_models::StageSummary) -> usize| {
            let all = stages.iter().map(|stage| number(stage).to_string());
            all.collect::<Vec<_>>().join("/")
        };
        let shares = stages
            .iter()
            .map(|stage| stage.k as f64 / stage.keys.max(1) as f64);
        points.push(Point {
            row: row.to_owned(),
            kept: list(&|stage| stage.k),
            keys: list(&|stage| stage.keys),
            share: shares.sum::<f64>() / stages.len().max(1) as f64,
            tops: runs.by_seed(row, |found| found.last(Metric::TOP1)),
            last: runs.statistic(row, |found| found.last(Metric::TOP1)),
            best: runs.statistic(row, |found| found.best(Metric::TOP1)),
        });
    }
    points.sort_by(|a, b| {
        let dense = is_dense(a).cmp(&is_dense(b));
        dense.then(a.share.total_cmp(&b.share))
    });
    Ok(points)
}

fn is_dense(point: &Point) -> bool {
    point.row.ends_with("-dense")
}

/// The paired test of a point minus dense attention; `None` without a seed that both have.
fn minus_dense(point: &Point, points: &[Point]) -> Option<PairedT> {
    let dense = points.iter().find(|point| is_dense(point))?;
    paired(&dense.tops, &point.tops)
}

/// The difference of a point from dense attention with its 95 % interval, and whether it is more than chance at 5 % divided by the
/// number of points that this one was chosen `among` (Bonferroni); `None` without a seed that both have.
fn beside_dense(point: &Point, points: &[Point], among: usize) -> Option<String> {
    let test = minus_dense(point, points)?;
    let seeds = test.difference.runs;
    let level = or_empty((among > 1).then(|| format!(" at 5 % / {among}")));
    let verdict = match test.p {
        Some(p) if p < LEVEL / among as f64 => format!("more than chance{level}"),
        Some(_) => format!("undecided{level}"),
        None => "no interval".to_owned(),
    };
    let difference = with_interval(&test);
    Some(format!(
        "{difference} points beside dense attention (n = {seeds}, {verdict})"
    ))
}

/// The standard deviation over the seeds of one setting, pooled over the settings: the root of the mean variance, weighted by degrees of
/// freedom; `None` if all have one seed.
fn pooled(all: impl Iterator<Item = Statistic>) -> Option<f64> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for one in all {
        if let Some(spread) = one.spread {
            let own = (one.runs - 1) as f64;
            squares += own * spread * spread;
            freedom += own;
        }
    }
    (freedom > 0.0).then(|| (squares / freedom).sqrt())
}

/// The best k of a panel and, where it is another, the smallest finished one, each beside dense attention, and the means below, in and
/// above the paper's hill, from n/3 to 2n/3; `None` without finished runs.
fn verdict(name: &str, points: &[Point]) -> Option<String> {
    let ended = points.iter().filter_map(|point| Some((point, point.last?)));
    let ended: Vec<(&Point, Statistic)> = ended.collect();
    let (best, top) = ended
        .iter()
        .max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))?;
    let kept = if is_dense(best) {
        "all keys, which is dense attention,".to_owned()
    } else {
        format!("k = {} ({:.2} of the keys)", best.kept, best.share)
    };
    let mean = |of: &dyn Fn(f64) -> bool| {
        let means = ended.iter().filter(|(point, _)| of(point.share));
        let means: Vec<f64> = means.map(|(_, last)| last.mean).collect();
        Statistic::of(&means).map_or_else(|| "none".to_owned(), |all| format!("{:.2}", all.mean))
    };
    let compared = ended
        .iter()
        .filter(|(point, _)| !is_dense(point) && minus_dense(point, points).is_some());
    let among = compared.count();
    let of_best = (!is_dense(best)).then(|| beside_dense(best, points, among));
    let of_best = or_empty(of_best.flatten().map(|text| format!(": {text}")));
    let smallest = ended.first().map(|(point, _)| *point);
    let smallest = smallest.filter(|point| !is_dense(point) && point.row != best.row);
    let smallest = smallest.and_then(|point| Some((point, beside_dense(point, points, 1)?)));
    let smallest = smallest.map_or_else(String::new, |(point, text)| {
        format!(" The smallest finished k, {}: {text}.", point.kept)
    });
    let (low, high) = (1.0 / 3.0, 2.0 / 3.0 + 1e-2);
    let mut text = format!(
        "**{name}: the best of {} is {kept} with {:.2} %{of_best}.**{smallest} Means of the settings: below n/3 {}, \
         from n/3 to 2n/3 {}, above it, with dense attention, {}.",
        ended.len(),
        top.mean,
        mean(&|share| share < low),
        mean(&|share| (low..=high).contains(&share)),
        mean(&|share| share > high),
    );
    if let Some(spread) = pooled(ended.iter().map(|(_, last)| *last)) {
        text += &format!(" Standard deviation over the seeds of one setting, pooled: {spread:.2}.");
    } else {
        text += " One seed: a point of difference may be chance.";
    }
    Some(text + "\n\n")
}

fn verdicts(panels: &[(&Sweep, Vec<Point>)]) -> String {
    let verdicts = panels.iter().filter_map(|(panel, points)| {
        let first = points.first()?;
        verdict(&title(panel, &first.row), points)
    });
    verdicts.collect()
}

fn found(panels: &[(&Sweep, Vec<Point>)], runs: &Runs, order: &Order) -> String {
    let mut text = format!(
        "{}, beside our runs at scale `{}`: top-1 in percent. The picture shows the last epoch by the share of the keys that a query \
         keeps, its mean over the stages, with bars of one standard deviation over the seeds; the dashed line is dense attention. \
         Differences are paired by seed, with the half width of the 95 % interval. The best k was chosen after the fact, which \
         flatters it: its difference is judged at 5 % divided by the number of k's beside dense attention (Bonferroni), that of the \
         smallest at 5 %.\n",
        cited(order.version, "Figure 1"),
        order.scale
    );
    if order.scale != Scale::Paper {
        text += "\nThe models here are small ones on CIFAR-10, with other numbers of keys than the paper's.\n";
    }
    for (panel, points) in panels {
        let Some(first) = points.first() else {
            continue;
        };
        let rows = points.iter().map(|point| {
            let kept = if is_dense(point) {
                "dense".to_owned()
            } else {
                point.kept.clone()
            };
            let kept = kept + runs.mark(&point.row);
            let first = [kept, format!("{:.2}", point.share), String::new()];
            let (last, best) = (ours(point.last.as_ref()), ours(point.best.as_ref()));
            [&first[..], &last, &best].concat()
        });
        let header = "k | share | *paper* | *ours*, last | *spread* | *ours*, best | *spread*";
        text += &format!(
            "\n### {}\n\nThe paper's settings: {}; its axis goes from {} %, and its best is {}. Keys here: {}.\n\n{}",
            title(panel, &first.row),
            panel.ticks,
            panel.axis,
            panel.best,
            first.keys,
            table(header.split(" | "), rows)
        );
    }
    text + &runs.notes(Metric::TOP1)
}

fn title(panel: &Sweep, row: &str) -> String {
    if row.contains("-stride1-") {
        format!("{}, a key at every token", panel.name)
    } else {
        panel.name.to_owned()
    }
}

fn csv(panels: &[(&Sweep, Vec<Point>)]) -> String {
    let points = panels
        .iter()
        .flat_map(|(panel, points)| points.iter().map(move |point| (panel, point)));
    let rows = points.map(|(panel, point)| {
        let Point {
            row, kept, keys, ..
        } = point;
        let first = cells([&panel.name, row, kept, keys, &point.share]);
        let (last, best) = (fields(point.last.as_ref()), fields(point.best.as_ref()));
        [&first[..], &last, &best].concat()
    });
    let header = "model,run,k,keys,share,last,last spread,last seeds,best,best spread,best seeds";
    Table::new(header.split(','), rows).csv()
}

fn svg(panels: &[(&Sweep, Vec<Point>)]) -> Result<String, String> {
    let mut pictures = Vec::new();
    for (panel, points) in panels {
        let Some(first) = points.first() else {
            continue;
        };
        let place = |point: &Point| Some((point.share, point.last?.mean));
        let knn = points.iter().filter(|point| !is_dense(point));
        let knn: Vec<(f64, f64)> = knn.filter_map(place).collect();
        let dense = points.iter().find(|point| is_dense(point)).and_then(place);
        let mut lines = Vec::new();
        if let Some((_, dense)) = dense {
            let first = knn.first().map_or(0.0, |(share, _)| *share);
            lines.push(Line::new("dense", 1, [(first, dense), (1.0, dense)]).dashed());
        }
        lines.push(Line::new("k-NN", 0, knn));
        let bars = points.iter().filter_map(|point| {
            let color = usize::from(is_dense(point));
            bar(color, point.share, &point.last?)
        });
        lines.extend(bars);
        let chart = Chart {
            title: &title(panel, &first.row),
            x: Axis::linear("share of the keys that are kept"),
            y: Axis::linear("top-1, %"),
            lines,
            names: Names::Within(plotters::chart::SeriesLabelPosition::LowerRight),
        };
        pictures.push(chart.svg()?);
    }
    Ok(beside(&pictures, 2, Names::WITHIN))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn point(row: &str, kept: usize, keys: usize, tops: &[f64]) -> Point {
        Point {
            row: row.to_owned(),
            kept: kept.to_string(),
            keys: keys.to_string(),
            share: kept as f64 / keys as f64,
            tops: (0..).zip(tops.iter().copied()).collect(),
            last: Statistic::of(tops),
            best: None,
        }
    }

    #[test]
    fn a_verdict_names_the_best_and_the_hill() {
        let points = [
            point("deit-k4", 4, 64, &[]),
            point("deit-k8", 8, 64, &[49.0, 50.0, 51.0]),
            point("deit-k16", 16, 64, &[50.0, 52.0]),
            point("deit-k32", 32, 64, &[53.2, 55.4]),
            point("deit-dense", 64, 64, &[51.0, 53.0]),
        ];
        // t of one degree of freedom is 12.706 at 97.5 %. k = 32 minus dense is 2.2 and 2.4, with a standard error of 0.1; k = 8 minus
        // dense is -2 and -3, with one of 0.5. The variances of the settings are 1, with two degrees of freedom, and 2, 2.42 and 2, with
        // one each: 8.42 / 5 is the square of 1.298. With one degree of freedom p = 2 / pi * atan(1 / t): of t = 23 0.0277, which is
        // below 5 % and above 5 % / 3.
        let text = "**DeiT: the best of 4 is k = 32 (0.50 of the keys) with 54.30 %: +2.3 ± 1.3 points beside dense attention (n = 2, \
                    undecided at 5 % / 3).** The smallest finished k, 8: -2.5 ± 6.4 points beside dense attention (n = 2, undecided). \
                    Means of the settings: below n/3 50.50, from n/3 to 2n/3 54.30, above it, with dense attention, 52.00. Standard \
                    deviation over the seeds of one setting, pooled: 1.30.\n\n";
        assert_eq!(verdict("DeiT", &points).unwrap(), text);
        let one = [point("deit-dense", 64, 64, &[51.0])];
        let text = verdict("DeiT", &one).unwrap();
        assert!(
            text.starts_with(
                "**DeiT: the best of 1 is all keys, which is dense attention, with 51.00 %.**"
            ) && text.contains("from n/3 to 2n/3 none")
                && text.ends_with("One seed: a point of difference may be chance.\n\n"),
            "{text}"
        );
        assert_eq!(verdict("DeiT", &points[..1]), None);
        let one = [
            point("pit-k8", 8, 64, &[47.0]),
            point("pit-dense", 64, 64, &[51.0]),
        ];
        assert_eq!(
            beside_dense(&one[0], &one, 1).unwrap(),
            "-4.0 points beside dense attention (n = 1, no interval)"
        );
    }

    /// Differences of 2.2 and 2.24: t is 111, and p 0.0057 is below 5 % / 3. Of one k alone 2.2 and 2.4 (0.0277) are enough.
    #[test]
    fn the_best_of_several_needs_the_correction_and_is_not_named_twice() {
        let dense = || point("deit-dense", 64, 64, &[51.0, 53.0]);
        let several = [
            point("deit-k8", 8, 64, &[53.2, 55.24]),
            point("deit-k16", 16, 64, &[50.0, 52.0]),
            point("deit-k32", 32, 64, &[51.0, 52.0]),
            dense(),
        ];
        let text = verdict("DeiT", &several).unwrap();
        assert!(
            text.contains("(n = 2, more than chance at 5 % / 3).** Means")
                && !text.contains("The smallest"),
            "{text}"
        );
        let alone = [point("deit-k32", 32, 64, &[53.2, 55.4]), dense()];
        let text = verdict("DeiT", &alone).unwrap();
        assert!(
            text.contains("(n = 2, more than chance).** Means"),
            "{text}"
        );
    }
}
