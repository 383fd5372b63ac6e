//! What the search misses, by the number of tokens. The paper does not report quality.

use kvt_attention::scram::{Fields, Tokens};
use kvt_ops::Key;
use plotters::prelude::SeriesLabelPosition;
use rayon::prelude::*;

use super::{first, full, input, search, share};
use crate::{Item, Make, Outcome, ReproduceError, Watch, table};
use kvt_train::plot::{Axis, Chart, Line, Names};
use kvt_train::table::{Table, cells};

const DIM: usize = 8;
const KEPT: [usize; 3] = [1, 4, MOST];
const MOST: usize = 8;

/// Of the maps: up to 16,384 tokens.
const SIDES: [usize; 4] = [16, 32, 64, 128];

/// A structure of queries and keys: its name, and both by the side of the map, `[side * side, DIM]`.
type Features = (&'static str, fn(usize) -> [Vec<f32>; 2]);

const FEATURES: [Features; 3] = [
    ("same picture", |side| input::shifted(key(), side, 9, DIM)),
    // The same detail per token at every size.
    ("same detail", |side| {
        input::shifted(key(), side, side / 4 + 1, DIM)
    }),
    // No spatial coherence.
    ("white noise", |side| {
        ["queries", "keys"].map(|name| input::noise(key().named(name), side * side * DIM))
    }),
];

fn key() -> Key {
    Key::new(0).named("scram-recall")
}

/// The result of one search, compared with the best keys.
struct Record {
    features: &'static str,
    tokens: usize,
    kept: usize,
    recall: f64,
    /// Share of the attention on the keys that were found, and on the best ones.
    mass: [f64; 2],
}

/// Recall and attention mass of SCRAM.
pub(crate) const ITEM: Item = Item {
    name: "scram-recall",
    title: "SCRAM: recall and attention mass of the search by the number of tokens",
    stated: "[SCRAM](https://arxiv.org/abs/1905.10308) reports neither recall nor accuracy. It assumes that attention \
     is spatially coherent: \"a shift in query along a spatial dimension is likely corresponding to an equal \
     shift in key\".",
    make: Make::Alone(|_, watch| compute(&SIDES, watch)),
    ..Item::PLAIN
};

fn compute(sides: &[usize], watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let (steps, mut done) = (sides.len() * FEATURES.len(), 0);
    let mut records = Vec::new();
    for features in FEATURES {
        for &side in sides {
            records.extend(compare(features, side)?);
            done += 1;
            watch.progress(done, steps);
        }
    }
    Outcome::of(csv(&records), svg(&records, sides), found(&records))
}

fn svg(records: &[Record], sides: &[usize]) -> Result<String, String> {
    let mut lines = Vec::new();
    for (color, (name, _)) in FEATURES.into_iter().enumerate() {
        let shown = || {
            let same = move |record: &&Record| record.kept == MOST && record.features == name;
            records.iter().filter(same)
        };
        let recall = shown().map(|record| (record.tokens as f64, record.recall));
        let mass = shown().map(|record| (record.tokens as f64, record.mass[0] / record.mass[1]));
        lines.push(Line::new(format!("{name}: recall"), color, recall));
        lines.push(Line::new(format!("{name}: mass"), color, mass).dashed());
    }
    let title = format!("PatchMatch against the exact top {MOST}");
    let ticks = sides.iter().map(|side| (side * side) as f64).collect();
    let chart = Chart {
        title: &title,
        x: Axis::logarithmic("tokens").at(ticks),
        y: Axis::linear("share of the exact top k"),
        lines,
        names: Names::Within(SeriesLabelPosition::LowerLeft),
    };
    chart.svg()
}

fn found(records: &[Record]) -> String {
    let row = |record: &Record| {
        vec![
            record.features.to_owned(),
            record.tokens.to_string(),
            record.kept.to_string(),
            share(record.recall),
            share(record.mass[0] / record.mass[1]),
            share(record.mass[1]),
        ]
    };
    let header = "queries and keys | n | κ | recall@κ | attention mass, of the exact top κ | mass of the exact top κ, of all";
    format!(
        "Square maps, {DIM} channels, 8 iterations, b = 0. \"Same picture\" and \"same detail\" are bicubic \
         interpolations of normal numbers with 5 % of noise, keys rolled by 5 rows and 3 columns: of 9 x 9 \
         numbers at every size, or of one for every four tokens in each direction. \"White noise\" has no \
         coherence: it breaks the assumption. Recall@κ is the share of the κ best keys that were found, in the \
         mean over queries; the mass is the sum of the dense attention weights on the keys that were found, \
         over that on the κ best ones. The figure has κ = {MOST}.\n\n{}",
        table(header.split(" | "), records.iter().map(row))
    )
}

/// One search for the most keys serves all κ: its first runs are the same as in a search for fewer keys.
fn compare((features, tokens): Features, side: usize) -> Result<Vec<Record>, ReproduceError> {
    let [queries, keys] = tokens(side);
    let tokens = Tokens::new(&queries, &keys, DIM, [side, side])?;
    let found = search(&tokens, MOST, 0, Key::new(0));
    let exact = Fields::exact(&tokens, MOST, 0);
    let scale = (DIM as f64).powf(-0.5);
    let count = tokens.tokens();
    // Values per query, summed in order below: the result does not depend on the threads.
    let of_query = |query: usize| {
        let whole = full(&tokens, query, scale);
        KEPT.map(|kept| {
            let (found, best) = (first(&found, query, kept), first(&exact, query, kept));
            let hits = found.iter().filter(|key| best.contains(key)).count();
            let mass = |keys: &[usize]| keys.iter().map(|key| whole[*key]).sum::<f64>();
            [hits as f64 / kept as f64, mass(&found), mass(&best)]
        })
    };
    let all: Vec<_> = (0..count).into_par_iter().map(of_query).collect();
    let record = |(number, kept): (usize, usize)| {
        let mean =
            |part: usize| all.iter().map(|query| query[number][part]).sum::<f64>() / count as f64;
        Record {
            features,
            tokens: count,
            kept,
            recall: mean(0),
            mass: [mean(1), mean(2)],
        }
    };
    Ok(KEPT.into_iter().enumerate().map(record).collect())
}

fn csv(records: &[Record]) -> String {
    let rows = records.iter().map(|record| {
        let [found, best] = record.mass.map(|mass| format!("{mass:.6}"));
        let recall = format!("{:.5}", record.recall);
        let (features, tokens) = (record.features, record.tokens);
        cells([&features, &tokens, &record.kept, &recall, &found, &best])
    });
    let header = "features,tokens,kept,recall,mass_found,mass_best";
    Table::new(header.split(','), rows).csv()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::super::tests::Heard;
    use super::*;

    #[test]
    fn coherence_is_what_the_search_lives_on() {
        let heard = Heard::default();
        let outcome = compute(&[16], &heard).unwrap();
        assert_eq!(heard.steps().len(), 3);
        let of = |name: &str| {
            let line = outcome
                .csv
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap();
            let cells = line.split(',').skip(3).map(|cell| cell.parse().unwrap());
            cells.collect::<Vec<f64>>()
        };
        for kept in [4, 8] {
            let (smooth, noise) = (
                of(&format!("same picture,256,{kept},")),
                of(&format!("white noise,256,{kept},")),
            );
            assert!(smooth[0] > noise[0] + 0.1, "{smooth:?} {noise:?}");
            for record in [&smooth, &noise] {
                assert!(
                    record[1] <= record[2] + 1e-9 && record[2] < 1.0,
                    "{record:?}"
                );
            }
            assert!(smooth[1] > 0.9 * smooth[2], "{smooth:?}");
        }
        assert_eq!(outcome.csv.lines().count(), 1 + 9);
        assert!(outcome.svg.contains("white noise: mass"));
        assert_eq!(
            compare(FEATURES[2], 8).unwrap()[0].recall,
            compare(FEATURES[2], 8).unwrap()[0].recall
        );
    }
}
