//! Figure 1: top-1 against the number of kept keys.

use super::super::{Item, Order, Outcome, ReproduceError, Runs, Scale, Version, Watch, table};
use super::paper::{FIG1, Sweep};
use super::{cited, fields, ours};
use kvt_train::plot::{Axis, Chart, Line, Names, beside};
use kvt_train::report::Statistic;
use kvt_train::run::Metric;
use kvt_train::table::{Table, cells};

/// Figure 1 of both versions.
pub(crate) struct Fig1;

/// A point of a panel.
struct Point {
    /// The name of its runs.
    row: String,
    /// The kept keys and all keys, stage by stage, separated by slashes.
    kept: String,
    keys: String,
    /// The share of kept keys, averaged over the stages.
    share: f64,
    last: Option<Statistic>,
    best: Option<Statistic>,
}

impl Item for Fig1 {
    fn name(&self) -> &'static str {
        "fig1"
    }

    fn title(&self) -> &'static str {
        "KVT, figure 1: top-1 by the number of keys that are kept"
    }

    fn stated(&self) -> &'static str {
        "[KVT](https://arxiv.org/abs/2106.00515), Figure 1: top-1 on ImageNet-1k of DeiT-Tiny, CvT-13, Visformer-Tiny and PiT-Base by \
         k, each beside its dense model. \"k ≈ n/2 at each scale stage for simple token generation methods and k ≈ 2n/3 or 4n/5 for \
         complicated token generation methods.\" The heights of the points are drawn and nowhere printed.\n\n\
         Not stated: seeds; which of PiT's four settings won (all lie within 0.1 points, below the 82.6 of Table 1); and how CvT-13 \
         could keep 1600 of its 784 keys: 3136, 784 and 196 are its queries. With a stride of 1 for keys and values the counts fit, \
         at 6.6 in place of 4.6 GMACs; `cvt-stride1` has them, and `cvt` has the same shares of the keys that there are."
    }

    fn scales(&self) -> &'static [Scale] {
        &[Scale::Paper, Scale::Cifar, Scale::CifarShort]
    }

    fn versions(&self) -> &'static [Version] {
        &[Version::Eccv, Version::V1]
    }

    fn metrics(&self) -> &'static [Metric] {
        &[Metric::TOP1]
    }

    fn compute(&self, order: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
        let runs = Runs::of(self, order, watch)?;
        let mut panels = Vec::new();
        for panel in FIG1 {
            panels.push((panel, points(panel.key, &runs)?));
            // CvT-13 has a second panel, with a key at every token.
            let stride1 = points(&format!("{}-stride1", panel.key), &runs)?;
            if !stride1.is_empty() {
                panels.push((panel, stride1));
            }
        }
        Ok(Outcome {
            csv: csv(&panels),
            svg: svg(&panels).map_err(ReproduceError::Draw)?,
            found: found(&panels, &runs, order),
            files: vec![runs.file(self.name(), &[Metric::TOP1])],
            failures: runs.failures,
        })
    }
}

/// The points of a panel, whose runs are called `<key>-k...`, sorted by the share of kept keys, and its dense model last.
fn points(key: &str, runs: &Runs) -> Result<Vec<Point>, ReproduceError> {
    let of_panel = |row: &&str| {
        let kind = row
            .strip_prefix(key)
            .and_then(|rest| rest.strip_prefix('-'));
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
            last: runs.statistic(row, |found| found.last(Metric::TOP1)),
            best: runs.statistic(row, |found| found.best(Metric::TOP1)),
        });
    }
    points.sort_by(|a, b| {
        (is_dense(a), a.share)
            .partial_cmp(&(is_dense(b), b.share))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    Ok(points)
}

fn is_dense(point: &Point) -> bool {
    point.row.ends_with("-dense")
}

/// The best k of a panel, and the means below, in and above the paper's hill, from n/3 to 2n/3; `None` without finished runs.
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
    let (low, high) = (1.0 / 3.0, 2.0 / 3.0 + 1e-2);
    let mut text = format!(
        "**{name}: the best of {} is {kept} with {:.2} %.** Means of the settings: below n/3 {}, from n/3 to 2n/3 {}, above it, with \
         dense attention, {}.",
        ended.len(),
        top.mean,
        mean(&|share| share < low),
        mean(&|share| (low..=high).contains(&share)),
        mean(&|share| share > high),
    );
    let spreads: Vec<f64> = ended.iter().filter_map(|(_, last)| last.spread).collect();
    if let Some(spread) = Statistic::of(&spreads) {
        text += &format!(
            " Seeds of one setting differ by {:.2} (standard deviation).",
            spread.mean
        );
    } else {
        text += " One seed: a point of difference may be chance.";
    }
    Some(text + "\n\n")
}

fn found(panels: &[(&Sweep, Vec<Point>)], runs: &Runs, order: &Order) -> String {
    let verdicts = panels.iter().filter_map(|(panel, points)| {
        let first = points.first()?;
        verdict(&title(panel, &first.row), points)
    });
    let mut text: String = verdicts.collect();
    text += &format!(
        "{}, beside our runs at scale `{}`: top-1 in percent. The picture shows the last epoch by the share of the keys that a query \
         keeps, its mean over the stages, with bars of one standard deviation over the seeds; the dashed line is dense attention.\n",
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
        text += &format!(
            "\n### {}\n\nThe paper's settings: {}; its axis goes from {} %, and its best is {}. Keys here: {}.\n\n{}",
            title(panel, &first.row),
            panel.ticks,
            panel.axis,
            panel.best,
            first.keys,
            table(
                [
                    "k",
                    "share",
                    "*paper*",
                    "*ours*, last",
                    "*spread*",
                    "*ours*, best",
                    "*spread*"
                ],
                rows
            )
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
            lines.push(Line {
                name: "dense".to_owned(),
                color: 1,
                dash: Some((6, 4)),
                points: vec![(first, dense), (1.0, dense)],
            });
        }
        lines.push(Line {
            name: "k-NN".to_owned(),
            color: 0,
            dash: None,
            points: knn,
        });
        // A bar of one standard deviation to each side.
        let bars = points.iter().filter_map(|point| {
            let last = point.last?;
            let spread = last.spread?;
            let ends = [last.mean - spread, last.mean + spread];
            Some(Line {
                name: String::new(),
                color: usize::from(is_dense(point)),
                dash: None,
                points: ends.map(|end| (point.share, end)).into(),
            })
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
            last: Statistic::of(tops),
            best: None,
        }
    }

    #[test]
    fn a_verdict_names_the_best_and_the_hill() {
        let points = [
            point("deit-k8", 8, 64, &[49.0, 51.0]),
            point("deit-k16", 16, 64, &[50.0, 52.0]),
            point("deit-k32", 32, 64, &[53.0, 55.0]),
            point("deit-k60", 60, 64, &[]),
            point("deit-dense", 64, 64, &[51.0, 53.0]),
        ];
        let text = "**DeiT: the best of 4 is k = 32 (0.50 of the keys) with 54.00 %.** Means of the settings: below n/3 50.50, from \
                    n/3 to 2n/3 54.00, above it, with dense attention, 52.00. Seeds of one setting differ by 1.41 (standard \
                    deviation).\n\n";
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
        assert_eq!(verdict("DeiT", &points[3..4]), None);
    }
}
