#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use burn::tensor::{Device, TensorData};
use kvt_models::BlockIndex;

use super::*;
use crate::analysis::{Estimate, Layer, Measure};

/// What is kept together where query `q` of head `h` keeps the keys for which `keeps(h, q, key)`, each with the same weight.
fn found(
    [heads, queries, keys]: [usize; 3],
    keeps: impl Fn(usize, usize, usize) -> bool,
) -> BTreeMap<Together, f32> {
    let mut weights = Vec::new();
    for head in 0..heads {
        for query in 0..queries {
            weights.extend((0..keys).map(|key| {
                if keeps(head, query, key) {
                    0.01f32
                } else {
                    0.0
                }
            }));
        }
    }
    let data = TensorData::new(weights, [1, heads, queries, keys]);
    let all = together(Tensor::from_data(data, &Device::flex()), true);
    let all = all.into_iter().map(|(name, value)| {
        let value = value.into_data().try_to_vec::<f32>().unwrap();
        (name, value[0])
    });
    all.collect()
}

#[track_caller]
fn close(found: &BTreeMap<Together, f32>, name: Together, expected: f32) {
    let value = found[&name];
    assert!((value - expected).abs() < 1e-5, "{name:?}: {value}");
}

/// All 17 queries keep the keys 0 to 4 of 100: 1 of 7 blocks of 16 keys, 1 of 2 of 64. No tile of 64 is full.
#[test]
fn the_same_keys_are_no_more_together() {
    let found = found([2, 17, 100], |_, _, key| key < 5);
    close(&found, Together::Keys, 100.0);
    for size in [8, 16] {
        close(&found, Together::Union(size), 5.0);
        close(&found, Together::Blocks(size, 16), 1.0 / 7.0);
        close(&found, Together::Blocks(size, 64), 0.5);
    }
    close(&found, Together::Heads, 1.0);
    assert!(!found.contains_key(&Together::Union(64)));
}

/// Query q keeps the keys 2q and 2q + 1 of 32, and begins again where they end: k times the tile, at most n.
#[test]
fn different_keys_add_up_to_all() {
    let found = found([1, 64, 32], |_, query, key| key / 2 == query % 16);
    for (size, union) in [(8, 16.0), (16, 32.0), (64, 32.0)] {
        close(&found, Together::Union(size), union);
        close(&found, Together::Blocks(size, 16), union / 32.0);
        close(&found, Together::Blocks(size, 64), 1.0);
    }
    // One head has no other.
    assert!(!found.contains_key(&Together::Heads));
}

/// Tiles are of consecutive queries of one head, and the last queries are in no tile: the first tile of the first head keeps key 0, its
/// second one the keys 0 to 2, those of the second head keys 20 and 21. So (1 + 3 + 2 + 2) / 4 keys, and 1 of 2 blocks.
#[test]
fn tiles_are_consecutive_queries_of_a_head() {
    let found = found([2, 20, 24], |head, query, key| match (head, query) {
        (_, 16..) => true,
        (0, 0..8) => key == 0,
        (0, _) => key == query % 3,
        _ => key == 20 + query % 2,
    });
    close(&found, Together::Union(8), 2.0);
    close(&found, Together::Blocks(8, 16), 0.5);
    // Only the 4 of 20 queries outside of tiles are those for which the heads agree.
    close(&found, Together::Heads, 0.2);
}

/// Heads keep {0, 1}, {1, 2} and {3, 4}: one of the three pairs shares one of two keys.
#[test]
fn heads_agree_by_pairs() {
    let kept = [[0, 1], [1, 2], [3, 4]];
    let found = found([3, 8, 6], |head, _, key| kept[head].contains(&key));
    close(&found, Together::Heads, 1.0 / 6.0);
}

fn layer(number: usize, kept: f64) -> Layer {
    let estimate = |mean| Estimate {
        mean,
        error: None,
        images: 3,
    };
    Layer {
        number,
        block: BlockIndex::default(),
        measures: [(Measure::Kept, estimate(kept))].into(),
        together: [
            (Together::Keys, estimate(64.0)),
            (Together::Union(8), estimate(40.0)),
            (Together::Blocks(8, 16), estimate(0.75)),
        ]
        .into(),
    }
}

/// 64 (1 - (1 - 32 / 64)^8) = 63.75. A layer that keeps all keys has no row.
#[test]
fn rows_are_beside_chance() {
    let layers = [layer(1, 64.0), layer(2, 32.0)];
    let csv = csv(&layers);
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines[1..], ["2,0,0,3,64,32,8,63.75,0.5,40,,0.75,,,,,"]);
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
    let expected = [
        "2",
        "32.0 of 64",
        "8",
        "40.0 (62.5 %)",
        "99.6 %",
        "75.0 %",
        "-",
        "-",
        "50.0 %",
    ];
    assert_eq!(rows(&layers), [expected]);
    let picture = figure("title", &layers).unwrap();
    assert!(picture.contains("8 queries") && picture.contains("64-key blocks"));
    // Layers are whole numbers.
    assert!(picture.contains("\n2\n") && !picture.contains("\n1.99\n"));
}
