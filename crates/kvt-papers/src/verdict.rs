//! What the tests of a table's pairs say together, for the first sentence of its page.

use kvt_tools::report::{PairedT, Statistic, difference_text, interval_text};
use kvt_tools::sweep::PairRow;
use kvt_train::run::Metric;

/// Below which p value a difference counts, before the correction for the number of tests.
pub(crate) const LEVEL: f64 = 0.05;

/// Which rows can be told apart from their dense ones after the last epoch, by paired t tests at 5 % divided by their number
/// (Bonferroni), which rows have no test, and which are above and below by the mean. Of pairs whose first row ends in `dense`, over the
/// seeds that are finished in both rows; a paragraph, or empty without a finished pair.
pub(crate) fn verdict(pairs: &[PairRow], metric: Metric) -> String {
    let known = pairs
        .iter()
        .filter(|pair| pair.names[0].ends_with("dense"))
        .filter_map(|pair| Some((pair.names[1].as_str(), pair.last?)));
    let mut known: Vec<(&str, PairedT)> = known.collect();
    if known.is_empty() {
        return String::new();
    }
    let mean = |test: &PairedT| test.difference.mean;
    known.sort_by(|(_, one), (_, other)| mean(other).total_cmp(&mean(one)));
    format!(
        "**By {}, {}.** {}By the mean over the seeds, {}.\n\n",
        metric.title,
        told_apart(&known, metric),
        untested(&known),
        sides(&known, metric)
    )
}

/// The rows that differ by more than chance, or that there are none.
fn told_apart(known: &[(&str, PairedT)], metric: Metric) -> String {
    let tested = known.iter().filter_map(|(name, test)| {
        let (p, half) = (test.p?, test.half_width?);
        let interval = interval_text(test.difference.mean, half, metric);
        Some((p, format!("`{name}` (95 % {interval})")))
    });
    let tested: Vec<(f64, String)> = tested.collect();
    let limit = LEVEL / tested.len() as f64;
    let level = match tested.len() {
        1 => "5 %".to_owned(),
        count => format!("5 % / {count} (Bonferroni)"),
    };
    let sure = tested.iter().filter(|(p, _)| *p < limit);
    let sure: Vec<&str> = sure.map(|(_, text)| text.as_str()).collect();
    match (tested.len(), sure.as_slice()) {
        (0, _) => "no row has a test of its difference from dense attention, so nothing is decided"
            .to_owned(),
        (count, []) => format!(
            "no row can be told apart from its dense one, which does not say that they are equal: paired t tests below {level}: none of {count}"
        ),
        (count, sure) => format!(
            "{} of {count} rows can be told apart from their dense ones, by paired t tests at {level}: {}",
            sure.len(),
            sure.join(", ")
        ),
    }
}

/// A sentence about rows without a test.
fn untested(known: &[(&str, PairedT)]) -> String {
    let rows = known.iter().filter(|(_, test)| test.p.is_none());
    let rows: Vec<String> = rows.map(|(name, _)| format!("`{name}`")).collect();
    match rows.as_slice() {
        [] => String::new(),
        rows => format!(
            "Without a test, which needs two seeds with different differences: {}. ",
            rows.join(", ")
        ),
    }
}

/// The rows above, level with and below their dense ones, as their differences are printed.
fn sides(known: &[(&str, PairedT)], metric: Metric) -> String {
    let printed = known.iter().map(|(name, test)| {
        let alone = Statistic {
            spread: None,
            ..test.difference
        };
        let text = difference_text(Some(&alone), metric);
        let value = text.parse().unwrap_or(test.difference.mean);
        (value, format!("`{name}` {text}"))
    });
    let printed: Vec<(f64, String)> = printed.collect();
    let list = |state: &str, of: fn(f64) -> bool| {
        let rows = printed.iter().filter(|(value, _)| of(*value));
        let rows: Vec<&str> = rows.map(|(_, text)| text.as_str()).collect();
        (!rows.is_empty()).then(|| format!("{state} {}", rows.join(", ")))
    };
    let lists = [
        list("above", |value| value > 0.0),
        list("level", |value| value == 0.0),
        list("below", |value| value < 0.0),
    ];
    let lists: Vec<String> = lists.into_iter().flatten().collect();
    lists.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(first: &str, second: &str, differences: &[f64]) -> PairRow {
        PairRow {
            names: [first, second].map(str::to_owned),
            last: PairedT::of(differences),
            best: None,
            images: Vec::new(),
        }
    }

    /// By hand: two seeds have t = mean / half their distance and p = 1 - 2 atan(t) / π. Of 2.0 and 2.1 this is t = 41, p = 0.016,
    /// which is below 5 % but not below 5 % / 4; of 4.00 and 4.01 it is t = 801, p = 0.0008, and 12.7 x 0.005 is half the interval.
    #[test]
    fn a_difference_counts_below_the_corrected_level() {
        let mut pairs = vec![
            pair("a-dense", "a-knn", &[1.0, 3.0]),
            pair("b-dense", "b-knn", &[-2.0, -2.1]),
            // Not zero, but printed as such.
            pair("c-dense", "c-knn", &[0.53, -0.5]),
            pair("d-dense", "d-knn", &[0.2, 0.6]),
            // No test: the same in both seeds.
            pair("e-dense", "e-knn", &[0.25, 0.25]),
            // Not beside dense attention, and without finished runs.
            pair("a-slow", "a-knn", &[9.0, 9.01]),
            pair("f-dense", "f-knn", &[]),
        ];
        assert_eq!(
            verdict(&pairs, Metric::TOP1),
            "**By top-1, no row can be told apart from its dense one, which does not say that they are equal: paired t tests below \
             5 % / 4 (Bonferroni): none of 4.** Without a test, which needs two seeds with different differences: `e-knn`. By the mean \
             over the seeds, above `a-knn` +2.0, `d-knn` +0.4, `e-knn` +0.2; level `c-knn` +0.0; below `b-knn` -2.0.\n\n"
        );
        pairs.push(pair("g-dense", "g-knn", &[-4.0, -4.01]));
        let found = verdict(&pairs, Metric::TOP1);
        assert!(
            found.starts_with(
                "**By top-1, 1 of 5 rows can be told apart from their dense ones, by paired t tests at 5 % / 5 (Bonferroni): `g-knn` \
                 (95 % -4.1 to -3.9).** Without a test"
            ),
            "{found}"
        );
        assert!(found.ends_with("; below `b-knn` -2.0, `g-knn` -4.0.\n\n"));
        // A single test needs no correction.
        assert!(
            verdict(&pairs[1..2], Metric::TOP1).starts_with(
                "**By top-1, 1 of 1 rows can be told apart from their dense ones, by paired t tests at 5 %: `b-knn` (95 % -2.7 to \
                 -1.4).** By the mean"
            )
        );
    }

    #[test]
    fn a_single_seed_decides_nothing_and_no_pair_has_no_verdict() {
        let found = verdict(&[pair("dense", "knn", &[2.06])], Metric::BOX_AP);
        assert_eq!(
            found,
            "**By box AP, no row has a test of its difference from dense attention, so nothing is decided.** Without a test, which \
             needs two seeds with different differences: `knn`. By the mean over the seeds, above `knn` +2.1.\n\n"
        );
        let none = [pair("dense", "knn", &[])];
        assert_eq!(verdict(&none, Metric::BOX_AP), "");
    }
}
