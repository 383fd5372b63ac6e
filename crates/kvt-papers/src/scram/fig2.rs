//! Figure 2: attention maps of a picture's low-rank approximation, full and sparse.

use kvt_attention::scram::{Fields, Tokens};
use kvt_ops::Key;

use super::{first, full, input, search, share, weights};
use crate::{Item, Make, Order, Outcome, ReproduceError, Watch, table};
use kvt_train::plot::{Panel, heat_maps};
use kvt_train::table::{Table, cells};

/// The number of queries, and of keys.
const TOKENS: usize = 128;
/// The rank of the approximation, and the number of channels.
const RANK: usize = 4;
/// The factor of the queries, not stated in the paper: scores then range from 0 to about 20. With 1, the map after the softmax is
/// nearly uniform.
const SHARPNESS: f64 = 40.0;
/// The settings of the search, not stated in the paper.
const KEPT: usize = 5;
const SEPARATION: usize = 8;
const RADIUS: usize = 1;

/// Figure 2 of SCRAM.
pub(crate) const ITEM: Item = Item {
    name: "scram-fig2",
    title: "SCRAM, figure 2: sparse and full attention maps",
    stated: "[SCRAM](https://arxiv.org/abs/1905.10308), section 5: queries and keys are a low-rank approximation \
     (singular value decomposition, `d_k = 4`) of a selected image; `n = H x W = 128 x 1`; maps of 128 x 128 \
     after the softmax of each query, by top-κ(max), top-κ(mode) and full attention. \"Our sparse map is \
     consistently finding the peaks of the full attention map.\"\n\n\
     Not stated: the image, its scale, κ, the separation L, the radius b, and any number.",
    make: Make::Alone(compute),
    ..Item::PLAIN
};

fn compute(_: &Order, watch: &dyn Watch) -> Result<Outcome, ReproduceError> {
    let picture = input::spots(Key::new(0).named("scram-fig2"), TOKENS);
    let [queries, keys] = input::low_rank(&picture, TOKENS, RANK);
    let queries: Vec<f32> = queries.iter().map(|x| (SHARPNESS * x) as f32).collect();
    let keys: Vec<f32> = keys.iter().map(|x| *x as f32).collect();
    let tokens = Tokens::new(&queries, &keys, RANK, [TOKENS, 1])?;
    let scale = (RANK as f64).powf(-0.5);
    let maps = [
        Map::of("max", &tokens, 0, scale),
        Map::of("mode", &tokens, SEPARATION, scale),
    ];
    watch.progress(1, 1);
    let whole: Vec<f64> = (0..TOKENS)
        .flat_map(|query| full(&tokens, query, scale))
        .collect();
    let all = [
        ("full", "full", &whole),
        ("max", "top-κ(max)", &maps[0].weights),
        ("mode", "top-κ(mode)", &maps[1].weights),
    ];
    let panels = all.map(|(_, name, values)| Panel {
        name,
        columns: TOKENS,
        values,
    });
    let rows = all.iter().flat_map(|(name, _, values)| {
        let seen = values.iter().enumerate();
        let seen = seen.filter(|(_, weight)| **weight >= 5e-7);
        seen.map(move |(i, weight)| {
            cells([name, &(i / TOKENS), &(i % TOKENS), &format!("{weight:.6}")])
        })
    });
    let csv = Table::new(["map", "query", "key", "weight"], rows).csv();
    Outcome::of(
        csv,
        heat_maps(
            "Attention of each query (row) to each key (column)",
            &panels,
        ),
        found(&maps),
    )
}

/// A sparse map, and how much of the full one it covers.
#[derive(Default)]
struct Map {
    name: &'static str,
    weights: Vec<f64>,
    /// Share of the exhaustive search's matches that were found.
    recall: f64,
    /// Share of the queries whose best key is among their candidates.
    peaks: f64,
    /// Share of the full attention on the candidates, and on the candidates around the matches of an exhaustive search.
    mass: [f64; 2],
    /// Mean number of keys per query.
    keys: f64,
}

impl Map {
    fn of(name: &'static str, tokens: &Tokens<'_>, separation: usize, scale: f64) -> Self {
        let found = search(tokens, KEPT, separation, Key::new(0));
        let exact = Fields::exact(tokens, KEPT, separation);
        let mut map = Self {
            name,
            ..Self::default()
        };
        let queries = TOKENS as f64;
        for query in 0..TOKENS {
            let whole = full(tokens, query, scale);
            let best = first(&exact, query, KEPT);
            let hits = found
                .matches(0, query)
                .filter(|key| best.contains(key))
                .count();
            map.recall += hits as f64 / best.len().max(1) as f64 / queries;
            let keys = found.candidates(0, query, RADIUS);
            map.peaks +=
                f64::from(u8::from(best.first().is_some_and(|key| keys.contains(key)))) / queries;
            let mass = |keys: &[usize]| keys.iter().map(|key| whole[*key]).sum::<f64>() / queries;
            map.mass[0] += mass(&keys);
            map.mass[1] += mass(&exact.candidates(0, query, RADIUS));
            map.keys += keys.len() as f64 / queries;
            map.weights.extend(weights(tokens, query, scale, &keys));
        }
        map
    }
}

fn found(maps: &[Map]) -> String {
    let row = |map: &Map| {
        vec![
            map.name.to_owned(),
            format!("{:.1}", map.keys),
            share(map.recall),
            share(map.peaks),
            share(map.mass[0]),
            share(map.mass[1]),
        ]
    };
    let header = "search | keys of a query | recall of its matches | queries whose best key is found | \
                  share of the full attention | the same, search of all keys";
    format!(
        "The image is a generated one, of 128 x 128: twelve Gaussian spots. `Q = {SHARPNESS} U S^0.5` and `K = V \
         S^0.5` of rank {RANK}; the factor is ours, since without it the softmax is nearly uniform. κ = {KEPT}, L = \
         {SEPARATION} (mode), b = {RADIUS}, 8 iterations. Darkness grows with the square root of a weight, and each \
         panel has its own black.\n\n{}\n\
         \"Recall\" is the share of the matches that a search of all keys under the same rule finds as well; what \
         is missed is mostly nearly as good, as the shares of the attention show.",
        table(header.split(" | "), maps.iter().map(row))
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::super::tests::Heard;
    use super::*;

    #[test]
    fn the_peaks_of_the_full_map_are_found() {
        let outcome = compute(&Order::default(), &Heard::default()).unwrap();
        // In every map, the weights of each query sum to 1; the omitted ones sum to less than 128 times 5e-7.
        for map in ["full", "max", "mode"] {
            let mut sums = vec![0.0; TOKENS];
            for line in outcome.csv.lines().skip(1) {
                let cells: Vec<&str> = line.split(',').collect();
                if cells[0] == map {
                    sums[cells[1].parse::<usize>().unwrap()] += cells[3].parse::<f64>().unwrap();
                }
            }
            assert!(
                sums.iter().all(|sum| (sum - 1.0).abs() < 2e-4),
                "{map}: {sums:?}"
            );
        }
        let row = |name: &str| {
            let line = outcome
                .found
                .lines()
                .find(|line| line.starts_with(&format!("| {name} |")));
            let cells = line
                .unwrap()
                .split('|')
                .skip(2)
                .filter_map(|cell| cell.trim().parse().ok());
            cells.collect::<Vec<f64>>()
        };
        // The paper's claim, for both searches; the search for modes keeps more keys.
        for name in ["max", "mode"] {
            let [_, _, peaks, mass, exact] = row(name).try_into().unwrap();
            assert!(
                peaks > 0.9 && mass > 0.9 * exact,
                "{name}: {peaks} {mass} {exact}"
            );
        }
        assert!(row("mode")[0] > row("max")[0]);
        assert!(outcome.svg.matches("<path").count() > 20);
        assert!(outcome.svg.len() < 400_000, "{}", outcome.svg.len());
    }
}
