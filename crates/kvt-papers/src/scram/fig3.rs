//! Figure 3: the best keys are neighbours, modes are not.

use kvt_attention::scram::Tokens;
use kvt_ops::Key;

use super::{first, full, search, weights};
use crate::{Item, Make, Order, Outcome, ReproduceError, Watch, table};
use kvt_train::plot::{Panel, heat_maps};
use kvt_train::table::Table;

/// Rows and columns of the map; not stated in the paper.
const SIDE: usize = 16;
/// Row and column of the query, as stated in the paper.
const QUERY: [usize; 2] = [4, 5];
/// The paper states only that there are three blobs. Row, column and height are our choice, and so is their standard deviation: it
/// is so large that the neighbours of the highest key are above the other blobs.
const BLOBS: [[f64; 3]; 3] = [[3.0, 11.0, 1.0], [12.0, 3.0, 0.9], [12.0, 12.0, 0.8]];
const DEVIATION: f64 = 3.5;
/// The query, the same everywhere, with one channel; not stated in the paper.
const SHARPNESS: f64 = 8.0;
const KEPT: usize = 3;
const SEPARATION: usize = 4;
const RADIUS: usize = 1;

/// Figure 3 of SCRAM.
pub(crate) const ITEM: Item = Item {
    name: "scram-fig3",
    title: "SCRAM, figure 3: the best keys and the modes of one query",
    stated: "[SCRAM](https://arxiv.org/abs/1905.10308), section 5: self-attention of the query `q_4,5` to keys with \
     three blobs. Top-κ(mode) \"spreads the sparse attention map over the 3 blobs\", while top-κ(max) \
     \"clusters the attention around the blob with the highest activation\".\n\n\
     Not stated: the size of the map, the blobs, the queries, κ, the separation L, the radius b.",
    make: Make::Alone(compute),
    ..Item::PLAIN
};

fn compute(_: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let keys: Vec<f64> = (0..SIDE * SIDE)
        .map(|key| BLOBS.iter().map(|blob| height(blob, key)).sum())
        .collect();
    let numbers: Vec<f32> = keys.iter().map(|x| *x as f32).collect();
    let queries = vec![SHARPNESS as f32; SIDE * SIDE];
    let tokens = Tokens::new(&queries, &numbers, 1, [SIDE, SIDE])?;
    let query = QUERY[0] * SIDE + QUERY[1];
    let found_by = |separation| {
        let fields = search(&tokens, KEPT, separation, Key::new(0));
        let keys = fields.candidates(0, query, RADIUS);
        (
            first(&fields, query, KEPT),
            weights(&tokens, query, 1.0, &keys),
        )
    };
    let (best, of_best) = found_by(0);
    let (modes, of_modes) = found_by(SEPARATION);
    watch.progress(1, 1);
    let whole = full(&tokens, query, 1.0);
    let panel = |name, values| Panel {
        name,
        columns: SIDE,
        values,
    };
    let panels = [
        panel("keys", &keys[..]),
        panel("full", &whole[..]),
        panel("top-κ(max)", &of_best[..]),
        panel("top-κ(mode)", &of_modes[..]),
    ];
    let rows = (0..SIDE * SIDE).map(|key| {
        let [key_value, full, best, mode] =
            [&keys, &whole, &of_best, &of_modes].map(|values| format!("{:.6}", values[key]));
        let (row, column) = ((key / SIDE).to_string(), (key % SIDE).to_string());
        [row, column, key_value, full, best, mode]
    });
    let header = ["row", "column", "key", "full", "max", "mode"];
    let csv = Table::new(header, rows).csv();
    Outcome::of(
        csv,
        heat_maps("Attention of one query to the keys of the map", &panels),
        found(&best, &modes),
    )
}

/// The height of a blob at a key.
fn height([row, column, height]: &[f64; 3], key: usize) -> f64 {
    let square = ((key / SIDE) as f64 - row).powi(2) + ((key % SIDE) as f64 - column).powi(2);
    height * (-square / (2.0 * DEVIATION * DEVIATION)).exp()
}

/// The number of the blob that a key belongs to, from 1.
fn blob(key: usize) -> usize {
    let heights = BLOBS.iter().map(|blob| height(blob, key));
    let largest = heights.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    largest.map_or(0, |(number, _)| number + 1)
}

/// The blobs that hold a match, each once.
fn blobs(matches: &[usize]) -> Vec<usize> {
    let mut blobs: Vec<usize> = matches.iter().map(|key| blob(*key)).collect();
    blobs.sort_unstable();
    blobs.dedup();
    blobs
}

fn found(best: &[usize], modes: &[usize]) -> String {
    let row = |name: &str, matches: &[usize], expected: usize| {
        let places = matches
            .iter()
            .map(|key| format!("({}, {})", key / SIDE, key % SIDE));
        let blobs = blobs(matches);
        let names = blobs.iter().map(usize::to_string).collect::<Vec<_>>();
        vec![
            name.to_owned(),
            places.collect::<Vec<_>>().join(" "),
            names.join(" "),
            if blobs.len() == expected { "yes" } else { "no" }.to_owned(),
        ]
    };
    let rows = [row("max", best, 1), row("mode", modes, BLOBS.len())];
    let header = "search | matches (row, column) | in the blobs | as stated";
    format!(
        "A map of {SIDE} x {SIDE} with one channel; the same query {SHARPNESS} everywhere; keys are Gaussian blobs \
         of standard deviation {DEVIATION}, of heights 1, 0.9 and 0.8 at (3, 11), (12, 3) and (12, 12). κ = {KEPT}, \
         L = {SEPARATION} (mode), b = {RADIUS}, 8 iterations. Darkness grows with the square root of a weight, and \
         each panel has its own black.\n\n{}",
        table(header.split(" | "), rows)
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::super::tests::Heard;
    use super::*;

    #[test]
    fn modes_spread_over_the_blobs_and_the_best_keys_do_not() {
        let outcome = compute(&Order::default(), &Heard::default()).unwrap();
        assert!(outcome.found.contains("| 1 | yes |"), "{}", outcome.found);
        assert!(
            outcome.found.contains("| 1 2 3 | yes |"),
            "{}",
            outcome.found
        );
        // The weights show the same: their sums over the three blobs, distinguished by row and column.
        let mut sums = [[0.0; 3]; 2];
        for line in outcome.csv.lines().skip(1) {
            let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
            let number = match (cells[0] < 8.0, cells[1] < 8.0) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            };
            sums[0][number] += cells[4];
            sums[1][number] += cells[5];
        }
        let [best, modes] = sums;
        assert!(
            (best[0] - 1.0).abs() < 1e-4 && best[1] + best[2] < 1e-4,
            "{best:?}"
        );
        assert!(modes.iter().all(|sum| *sum > 0.08), "{modes:?}");
        assert_eq!(blob(3 * 16 + 11), 1);
        assert_eq!(blob(12 * 16 + 12), 3);
    }
}
