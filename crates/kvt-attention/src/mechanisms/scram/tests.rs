#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use burn::tensor::{Device, Gradients};
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, tensor, values};
use rand::RngExt;
use schemars::{JsonSchema, SchemaGenerator};

use super::patchmatch::{start, windows};
use super::*;
use crate::mechanisms::Redraw;
use crate::mechanisms::golden::{Golden, Outcome};
use crate::{BurnInit, Macs, MechanismConfig, Neighbors, Place, SoftmaxAttention};

/// Numbers of a few levels, so that products are exact in any order.
fn levels(key: Key, count: usize) -> Vec<f32> {
    let mut rng = key.rng();
    let draw = |_| (rng.random_range(0..17_u32) as f32 - 8.0) / 4.0;
    (0..count).map(draw).collect()
}

/// Queries and keys of a map on which attention is spatially coherent: `dim` waves of a place, with keys three rows
/// and two columns from the queries that they match.
fn coherent([rows, columns]: [usize; 2], dim: usize) -> (Vec<f32>, Vec<f32>) {
    let wave = |row: i32, column: i32, channel: usize| {
        let [a, b] = [channel % 3 + 1, channel / 3 + 1].map(|x| x as f32 * 0.11);
        (a * row as f32 + b * column as f32 + channel as f32).sin()
    };
    let map = |rows_off: i32, columns_off: i32| {
        let tokens = (0..rows as i32).flat_map(|r| (0..columns as i32).map(move |c| (r, c)));
        let channels = |(r, c)| (0..dim).map(move |i| wave(r - rows_off, c - columns_off, i));
        tokens.flat_map(channels).collect()
    };
    (map(0, 0), map(3, 2))
}

fn search(kept: usize, separation: usize) -> PatchMatch {
    PatchMatch {
        kept,
        separation,
        iterations: 8,
    }
}

fn place(grid: [usize; 2], prefix: usize) -> Place {
    Place {
        prefix,
        grid: Some(grid),
        ..Place::new(prefix + grid[0] * grid[1], 16, 2)
    }
}

fn made(config: ScramConfig, place: &Place) -> Scram {
    config.validate().unwrap();
    config.fits(place).unwrap();
    config.init(place, &BurnInit::new(&Device::flex()))
}

fn input(place: &Place, batch: usize, seed: u64, device: &Device) -> Tensor<4> {
    let shape = [batch, place.heads, place.queries, place.head_dim];
    let data = levels(Key::new(seed), shape.iter().product());
    tensor(&data, shape, device)
}

/// An independent implementation of Algorithm 1, step by step over a table of all products.
#[test]
fn the_search_is_the_algorithm() {
    let (heads, dim) = (2, 5);
    for (grid, separation) in [([6, 9], 0), ([6, 9], 2), ([11, 1], 1), ([3, 4], 1)] {
        let count = grid[0] * grid[1];
        let [queries, keys] =
            ["q", "k"].map(|name| levels(Key::new(1).named(name), heads * count * dim));
        let tokens = Tokens::new(&queries, &keys, dim, grid).unwrap();
        let search = PatchMatch {
            kept: 3,
            separation,
            iterations: 2,
        };
        let (key, map) = (Key::new(5), tokens.grid());
        let fields = search.search(&tokens, key);
        for head in 0..heads {
            let product = |i: usize, j: usize| {
                let a = &queries[(head * count + i) * dim..][..dim];
                let b = &keys[(head * count + j) * dim..][..dim];
                a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>()
            };
            let place = |token: usize| ((token / grid[1]) as i32, (token % grid[1]) as i32);
            let mut found: Vec<Vec<usize>> = vec![Vec::new(); count];
            for run in 0..3 {
                let key = key.child(run);
                let score = |found: &[Vec<usize>], i: usize, j: usize| {
                    let near = found[i].iter().any(|&earlier| {
                        let ((a, b), (c, d)) = (place(earlier), place(j));
                        (a - c).abs().max((b - d).abs()) <= separation as i32
                    });
                    if near {
                        f32::NEG_INFINITY
                    } else {
                        product(i, j)
                    }
                };
                let mut match_of: Vec<usize> = start(key.named("start"), map)
                    .into_iter()
                    .map(|at| map.token(at))
                    .collect();
                for iteration in 0..2 {
                    let windows = windows(key.named("windows").child(iteration), map);
                    let before = match_of.clone();
                    for i in 0..count {
                        let mut best = before[i];
                        let (y, x) = place(i);
                        let [h, w] = grid.map(|side| side as i32);
                        for jump in [8, 4, 2, 1] {
                            for (dy, dx) in [(-jump, 0), (jump, 0), (0, -jump), (0, jump)] {
                                let (ny, nx) = (y + dy, x + dx);
                                if ny < 0 || ny >= h || nx < 0 || nx >= w {
                                    continue;
                                }
                                let (my, mx) = place(before[(ny * w + nx) as usize]);
                                let (cy, cx) = (my - dy, mx - dx);
                                if cy < 0 || cy >= h || cx < 0 || cx >= w {
                                    continue;
                                }
                                let offered = (cy * w + cx) as usize;
                                if score(&found, i, offered) > score(&found, i, best) {
                                    best = offered;
                                }
                            }
                        }
                        for window in &windows {
                            let (my, mx) = place(best);
                            let [dy, dx] = window[i];
                            let (cy, cx) = ((my + dy).clamp(0, h - 1), (mx + dx).clamp(0, w - 1));
                            let offered = (cy * w + cx) as usize;
                            if score(&found, i, offered) > score(&found, i, best) {
                                best = offered;
                            }
                        }
                        match_of[i] = best;
                    }
                }
                for i in 0..count {
                    if score(&found, i, match_of[i]) > f32::NEG_INFINITY {
                        found[i].push(match_of[i]);
                    }
                }
            }
            for (i, expected) in found.iter().enumerate() {
                let actual: Vec<usize> = fields.matches(head, i).collect();
                assert_eq!(
                    actual, *expected,
                    "{grid:?} {separation} head {head} query {i}"
                );
            }
        }
    }
}

#[test]
fn windows_shrink_to_one_token_and_their_offsets_fill_them() {
    let (queries, keys) = coherent([14, 9], 1);
    let grid = Tokens::new(&queries, &keys, 1, [14, 9]).unwrap().grid();
    let windows = windows(Key::new(3), grid);
    let radii = [14, 7, 3, 1];
    assert_eq!(windows.len(), radii.len());
    for (window, radius) in windows.iter().zip(radii) {
        assert_eq!(window.len(), 14 * 9);
        for part in [0, 1] {
            let offsets = || window.iter().map(|offset| offset[part]);
            assert!(offsets().all(|x| x.abs() <= radius));
            // 126 draws of at most 29 numbers: nearly every one occurs.
            let ends = offsets().filter(|x| x.abs() == radius).count();
            assert!(ends > 0, "{radius}");
        }
    }
    // Evaluations of a query: those of section 3.2 at 32 x 32, and at 128 x 128.
    assert_eq!(search(1, 0).products([32, 32]), 177);
    assert_eq!(search(3, 0).products([128, 128]), 3 * 193);
}

#[test]
fn coherent_maps_are_searched_well_and_noise_is_not() {
    let (grid, dim) = ([16, 16], 9);
    let recall = |queries: &[f32], keys: &[f32]| {
        let tokens = Tokens::new(queries, keys, dim, grid).unwrap();
        let exact = Fields::exact(&tokens, 4, 0);
        let found = search(4, 0).search(&tokens, Key::new(1));
        let mut hits = 0;
        for query in 0..256 {
            let best: Vec<usize> = exact.matches(0, query).collect();
            assert_eq!(best.len(), 4);
            hits += found
                .matches(0, query)
                .filter(|key| best.contains(key))
                .count();
        }
        hits as f64 / 1024.0
    };
    let (queries, keys) = coherent(grid, dim);
    let coherent = recall(&queries, &keys);
    let [queries, keys] = [1, 2].map(|seed| levels(Key::new(seed), 256 * dim));
    let noise = recall(&queries, &keys);
    // Measured: 0.97 and 0.48.
    assert!(coherent > 0.93 && noise < 0.6, "{coherent} {noise}");
}

/// The whole map is a window of each start; after many iterations nothing is missed.
#[test]
fn a_long_search_of_a_small_map_is_exact() {
    let (queries, keys) = coherent([4, 5], 9);
    let tokens = Tokens::new(&queries, &keys, 9, [4, 5]).unwrap();
    for separation in [0, 1] {
        let long = PatchMatch {
            iterations: 256,
            ..search(2, separation)
        };
        let exact = Fields::exact(&tokens, 2, separation);
        assert_eq!(long.search(&tokens, Key::new(2)), exact, "{separation}");
    }
}

/// By sorting, and by hand for modes.
#[test]
fn the_exact_fields_are_the_best_keys() {
    let (queries, keys) = coherent([7, 6], 9);
    let tokens = Tokens::new(&queries, &keys, 9, [7, 6]).unwrap();
    let exact = Fields::exact(&tokens, 5, 0);
    for query in 0..42 {
        let mut order: Vec<usize> = (0..42).collect();
        order.sort_by(|a, b| {
            let [a, b] = [a, b].map(|&key| tokens.product(0, query, key));
            b.total_cmp(&a)
        });
        assert_eq!(exact.matches(0, query).collect::<Vec<_>>(), order[..5]);
    }
    // One row; scores 9 8 7 1 0 2: the mode next to 9 is the 1, then the 2.
    let scores = [9.0, 8.0, 7.0, 1.0, 0.0, 2.0];
    let tokens = Tokens::new(&[1.0; 6], &scores, 1, [1, 6]).unwrap();
    let modes = |separation| {
        let fields = Fields::exact(&tokens, 3, separation);
        fields.matches(0, 3).collect::<Vec<_>>()
    };
    assert_eq!(modes(0), [0, 1, 2]);
    assert_eq!(modes(1), [0, 2, 5]);
    assert_eq!(modes(2), [0, 5]);
    assert_eq!(modes(5), [0]);
}

#[test]
fn matches_differ_and_modes_are_apart() {
    let (queries, keys) = coherent([12, 10], 9);
    let tokens = Tokens::new(&queries, &keys, 9, [12, 10]).unwrap();
    for separation in [0, 1, 4] {
        let fields = search(4, separation).search(&tokens, Key::new(8));
        let mut several = 0;
        for query in 0..120 {
            let at: Vec<_> = fields.found(query).collect();
            several += usize::from(at.len() > 1);
            for (i, a) in at.iter().enumerate() {
                for b in &at[..i] {
                    assert!(a.distance(*b) > separation as i32, "{separation} {query}");
                }
            }
        }
        assert!(several > 110, "{separation}: {several}");
    }
}

/// On a map of one key every later run must find nothing, whatever it starts from.
#[test]
fn what_is_forbidden_is_no_match() {
    let tokens = Tokens::new(&[1.0, 2.0], &[3.0, 4.0], 1, [1, 1]).unwrap();
    let fields = search(3, 0).search(&tokens, Key::new(4));
    for head in [0, 1] {
        assert_eq!(fields.matches(head, 0).collect::<Vec<_>>(), [0]);
    }
}

#[test]
fn the_search_depends_on_the_key_and_not_on_threads() {
    let (queries, keys) = coherent([12, 10], 9);
    let tokens = Tokens::new(&queries, &keys, 9, [12, 10]).unwrap();
    let short = PatchMatch {
        iterations: 1,
        ..search(2, 0)
    };
    let found = short.search(&tokens, Key::new(1));
    assert_ne!(found, short.search(&tokens, Key::new(2)));
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert_eq!(pool.install(|| short.search(&tokens, Key::new(1))), found);
    }
}

#[test]
fn candidates_are_a_set_that_ends_at_the_border() {
    // 4 x 5; matches 0, 6 and none: windows overlap.
    let fields = Fields::from_keys([4, 5], 3, &[Some(0), Some(6), None]);
    assert_eq!(fields.candidates(0, 0, 0), [0, 6]);
    assert_eq!(fields.candidates(0, 0, 1), [0, 1, 2, 5, 6, 7, 10, 11, 12]);
    assert_eq!(
        fields.candidates(0, 0, 2),
        (0..20).filter(|key| key % 5 < 4).collect::<Vec<_>>()
    );
    assert_eq!(fields.candidates(0, 0, 9), (0..20).collect::<Vec<_>>());
    assert_eq!(fields.candidates(0, 0, usize::MAX).len(), 20);
}

/// Output and gradients, class token and temperature, from matches in the file.
#[test]
fn golden() {
    for name in ["scram", "scram_windows", "scram_one_row"] {
        let golden = Golden::read(name);
        let whole = |key| golden.setting(key) as usize;
        let (keys, [_, _, queries, kept]) = golden.indices::<4>("fields");
        let grid = [whole("rows"), whole("columns")];
        let keys: Vec<_> = keys
            .into_iter()
            .map(|key| usize::try_from(key).ok())
            .collect();
        let fields = Fields::from_keys(grid, kept, &keys);
        let prefix = whole("prefix");
        assert_eq!(queries, grid[0] * grid[1]);
        let config = ScramConfig {
            kept,
            radius: whole("radius"),
            temperature: golden.setting("temperature"),
            ..ScramConfig::default()
        };
        golden.check(1e-5, |inputs| {
            let [_, heads, tokens, dim] = inputs.q.dims();
            let place = Place {
                grid: Some(grid),
                prefix,
                ..Place::new(tokens, heads * dim, heads)
            };
            let scram = made(config, &place);
            let [q, k, v] = [&inputs.q, &inputs.k, &inputs.v].map(Clone::clone);
            Outcome::new(scram.attend_to([q, k, v], &fields, &place.context(Phase::Eval)))
        });
    }
}

/// Output and gradients of a function of three leaves.
fn run(inputs: &[Tensor<4>; 3], f: impl Fn([Tensor<4>; 3]) -> Tensor<4>) -> Vec<Vec<f32>> {
    let leaves = inputs.clone().map(Tensor::require_grad);
    let out = f(leaves.clone());
    let probe: Vec<f32> = (0..out.shape().num_elements())
        .map(|i| ((i * 37) % 11) as f32 - 5.0)
        .collect();
    let probe = tensor(&probe, out.dims(), &out.device());
    let gradients: Gradients = (out.clone() * probe).sum().backward();
    let of = |leaf: &Tensor<4>| values(leaf.grad(&gradients).unwrap());
    let mut all = vec![values(out.inner())];
    all.extend(leaves.iter().map(of));
    all
}

/// With exact fields and windows of one key this is kvt's k-NN attention, in output and gradients. Ties would be broken
/// alike, towards the lower index.
#[test]
fn exact_fields_without_windows_are_knn_attention() {
    let device = Device::flex().autodiff();
    let place = place([5, 7], 0);
    let inputs = [1, 2, 3].map(|seed| input(&place, 2, seed, &device));
    for kept in [1, 4, 35] {
        let config = ScramConfig {
            kept,
            temperature: 0.7,
            ..ScramConfig::default()
        };
        let scram = made(config, &place);
        let [q, k] = [0, 1].map(|i: usize| values(inputs[i].clone().inner()));
        let tokens = Tokens::new(&q, &k, place.head_dim, [5, 7]).unwrap();
        let fields = Fields::exact(&tokens, kept, 0);
        let context = || place.context(Phase::Eval);
        let ours = run(&inputs, |[q, k, v]| {
            scram.attend_to([q, k, v], &fields, &context())
        });
        let knn = SoftmaxAttention {
            temperature: 0.7,
            ..SoftmaxAttention::knn(Neighbors::count(kept).unwrap())
        };
        let theirs = run(&inputs, |[q, k, v]| knn.attend(q, k, v, context()));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            // Measured: 4e-7.
            assert_close(&format!("kept {kept}"), ours, theirs, 3e-6);
        }
    }
}

/// Windows that cover the map make it dense, whatever was found; also for the class token.
#[test]
fn windows_over_the_whole_map_are_dense_attention() {
    let device = Device::flex().autodiff();
    for prefix in [0, 1, 2] {
        let place = place([4, 6], prefix);
        let inputs = [4, 5, 6].map(|seed| input(&place, 2, seed, &device));
        let config = ScramConfig {
            kept: 1,
            radius: 6,
            iterations: 1,
            ..ScramConfig::default()
        };
        let scram = made(config, &place);
        let context = || place.context(Phase::Eval);
        let ours = run(&inputs, |[q, k, v]| scram.attend(q, k, v, context()));
        let dense = SoftmaxAttention::dense();
        let theirs = run(&inputs, |[q, k, v]| dense.attend(q, k, v, context()));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            // Measured: 3e-7.
            assert_close(&format!("prefix {prefix}"), ours, theirs, 3e-6);
        }
    }
}

/// The class token sees all keys and is seen by all queries, but the search never finds it.
#[test]
fn the_class_token_is_dense_and_a_candidate_of_all() {
    let device = Device::flex();
    let place = place([5, 5], 1);
    let config = ScramConfig {
        kept: 3,
        ..ScramConfig::default()
    };
    let scram = made(config, &place);
    let (q, k) = (input(&place, 2, 1, &device), input(&place, 2, 2, &device));
    let weights = scram.probabilities(q.clone(), k.clone(), &place.context(Phase::Eval));
    let weights = values(weights.unwrap());
    let dense = SoftmaxAttention::dense();
    let expected = dense
        .probabilities(q, k, &place.context(Phase::Eval))
        .unwrap();
    let expected = values(expected);
    for (row, (weights, expected)) in weights.chunks(26).zip(expected.chunks(26)).enumerate() {
        if row % 26 == 0 {
            assert_close("class token", weights, expected, 1e-6);
        } else {
            assert!(weights[0] > 0.0, "row {row}");
            // The class token and three keys of the map.
            assert_eq!(weights.iter().filter(|x| **x > 0.0).count(), 4, "row {row}");
            let kept: f32 = expected
                .iter()
                .zip(weights)
                .filter(|(_, w)| **w > 0.0)
                .map(|(p, _)| p)
                .sum();
            for (p, w) in expected.iter().zip(weights).filter(|(_, w)| **w > 0.0) {
                assert!((w - p / kept).abs() < 1e-5, "row {row}: {w} {p}");
            }
        }
    }
}

/// Bit for bit, alone and among others, even in training, where all images of a step have the same draws.
#[test]
fn an_image_does_not_depend_on_its_batch() {
    let device = Device::flex();
    let place = place([6, 6], 1);
    let config = ScramConfig {
        kept: 4,
        search: ScramSearch::Mode,
        separation: 2,
        radius: 1,
        iterations: 2,
        ..ScramConfig::default()
    };
    let scram = made(config, &place);
    let inputs = [1, 2, 3].map(|seed| input(&place, 3, seed, &device));
    let attend = |inputs: &[Tensor<4>; 3], phase| {
        let [q, k, v] = inputs.clone();
        values(scram.attend(q, k, v, place.context(phase)))
    };
    for phase in [Phase::Eval, Phase::Train(Key::new(3))] {
        let all = attend(&inputs, phase);
        for (image, expected) in all.chunks(all.len() / 3).enumerate() {
            let alone = inputs.clone().map(|x| x.narrow(0, image, 1));
            assert_eq!(attend(&alone, phase), expected, "image {image}");
        }
    }
    // Different steps start from different keys; evaluation always starts from the same.
    let steps = [1, 2].map(|step| attend(&inputs, Phase::Train(Key::new(step))));
    assert_ne!(steps[0], steps[1]);
    assert_eq!(attend(&inputs, Phase::Eval), attend(&inputs, Phase::Eval));
}

/// A dropped weight is 0, and a kept one is divided by the probability of keeping it, as in dense attention.
#[test]
fn dropout_drops_weights() {
    let device = Device::flex();
    let place = Place {
        dropout: 0.25,
        ..place([8, 8], 1)
    };
    let scram = made(
        ScramConfig {
            redraw: Redraw::Never,
            ..ScramConfig::default()
        },
        &place,
    );
    let (q, k) = (input(&place, 4, 1, &device), input(&place, 4, 2, &device));
    let whole = scram
        .probabilities(q.clone(), k.clone(), &place.context(Phase::Eval))
        .unwrap();
    let whole = values(whole);
    let identity = Tensor::<2>::eye(65, &device)
        .reshape([1, 1, 65, 65])
        .expand([4, 2, 65, 65]);
    let dropped = scram.attend(q, k, identity, place.context(Phase::Train(Key::new(6))));
    let (mut kept, mut all) = (0.0, 0.0);
    for (dropped, whole) in values(dropped).into_iter().zip(whole) {
        if whole > 0.0 {
            all += 1.0;
            kept += f64::from(u8::from(dropped > 0.0));
            let full = whole / 0.75;
            assert!(
                dropped == 0.0 || (dropped - full).abs() < 1e-5 * full,
                "{dropped} {whole}"
            );
        } else {
            assert_eq!(dropped, 0.0);
        }
    }
    // Five standard deviations of a binomial.
    let bound = 5.0 * (0.25_f64 * 0.75 / all).sqrt();
    assert!((kept / all - 0.75).abs() < bound, "{kept} of {all}");
}

/// The search does not avoid a NaN.
#[test]
fn a_broken_query_or_key_is_seen() {
    let device = Device::flex();
    let place = place([4, 4], 0);
    let scram = made(ScramConfig::default(), &place);
    let [q, k, v] = [1, 2, 3].map(|seed| input(&place, 1, seed, &device));
    let broken = |x: &Tensor<4>| {
        let nan = Tensor::full([1, 1, 1, 8], f32::NAN, &device);
        x.clone().slice_assign([0..1, 0..1, 3..4, 0..8], nan)
    };
    let attend = |q, k| values(scram.attend(q, k, v.clone(), place.context(Phase::Eval)));
    let rows = |out: &[f32]| out.chunks(8).map(|row| row[0].is_nan()).collect::<Vec<_>>();
    let expected: Vec<bool> = (0..32).map(|row| row == 3).collect();
    assert_eq!(rows(&attend(broken(&q), k.clone())), expected);
    let spoilt = rows(&attend(q, broken(&k)));
    assert!(
        spoilt[..16].iter().filter(|x| **x).count() > 12,
        "{spoilt:?}"
    );
    assert!(spoilt[16..].iter().all(|x| !x));
}

#[test]
fn half_types_are_searched_in_f32() {
    use burn::tensor::DType;
    let device = Device::flex();
    let place = place([4, 4], 1);
    let scram = made(ScramConfig::default(), &place);
    // Levels are exact in half types, and so is the search.
    let [q, k, v] = [1, 2, 3].map(|seed| input(&place, 1, seed, &device));
    let attend = |x: [Tensor<4>; 3]| {
        let [q, k, v] = x;
        scram.attend(q, k, v, place.context(Phase::Eval))
    };
    let half = attend([&q, &k, &v].map(|x| x.clone().cast(DType::BF16)));
    assert_eq!(half.dtype(), DType::BF16);
    assert_close("bf16", &values(half), &values(attend([q, k, v])), 8e-3);
}

#[test]
fn costs_by_hand() {
    let place = Place {
        prefix: 1,
        grid: Some([8, 8]),
        ..Place::new(65, 24, 3)
    };
    let config = ScramConfig {
        kept: 2,
        radius: 1,
        iterations: 3,
        ..ScramConfig::default()
    };
    // 64 queries: 2 runs of a start and 3 iterations of 16 neighbours and 4 windows; then 18 keys and the class token,
    // twice. One dense query with 65 keys, twice. 24 channels.
    let expected = 24 * (64 * (2 * (1 + 3 * 20) + 2 * 19) + 2 * 65);
    let cost = config.cost(&place);
    assert_eq!(
        (cost.params, cost.macs, cost.kept),
        (0, Macs::attention(expected), 19)
    );
    let whole = ScramConfig {
        radius: 100,
        ..config
    };
    assert_eq!(whole.cost(&place).kept, 65);
}

#[test]
fn places_and_settings_that_do_not_fit_are_refused() {
    let config = ScramConfig::default();
    let map = Place {
        prefix: 1,
        grid: Some([4, 4]),
        ..Place::new(17, 12, 2)
    };
    assert_eq!(config.fits(&map), Ok(()));
    assert_eq!(config.fits(&Place { keys: 0, ..map }), Ok(()));
    assert_eq!(
        config.fits(&Place {
            dropout: 0.5,
            ..map
        }),
        Ok(())
    );
    let refused = |place: &Place| config.fits(place).unwrap_err().to_string();
    for (place, message) in [
        (
            Place { bias: true, ..map },
            "so a bias cannot be added here: use `dense` or `knn`",
        ),
        (
            Place { mask: true, ..map },
            "so keys cannot be hidden here: use `dense` or `knn`",
        ),
        (
            Place { grid: None, ..map },
            "searches on a map, which the tokens do not form here: use",
        ),
        (
            Place { keys: 5, ..map },
            "but there are 17 queries and 5 keys on a map of 4 x 4: use `dense` or `knn`, or as many keys as queries (`kv_stride = 1`)",
        ),
        (
            Place {
                grid: Some([2, 2]),
                queries: 5,
                keys: 5,
                ..map
            },
            "`kind = \"scram\"` keeps `kept` 8 keys, more than the 4 tokens of the map: set `kept` to fewer",
        ),
    ] {
        let error = refused(&place);
        assert!(error.contains(message), "{error}");
    }
    let schema = ScramConfig::json_schema(&mut SchemaGenerator::default()).to_value();
    let with = |key: &str, value: usize| {
        let mut config = config;
        *match key {
            "kept" => &mut config.kept,
            "separation" => &mut config.separation,
            "radius" => &mut config.radius,
            "iterations" => &mut config.iterations,
            _ => panic!("{key}"),
        } = value;
        config.validate()
    };
    for key in ["kept", "separation", "radius", "iterations"] {
        let range = ["minimum", "maximum"]
            .map(|end| schema["properties"][key][end].as_u64().unwrap() as usize);
        for value in range {
            assert_eq!(with(key, value), Ok(()), "{key} {value}");
        }
        let outside = [range[0].checked_sub(1), range[1].checked_add(1)];
        for value in outside.into_iter().flatten() {
            assert!(
                with(key, value).unwrap_err().to_string().contains(key),
                "{value}"
            );
        }
    }
    let cold = ScramConfig {
        temperature: 0.0,
        ..config
    };
    assert!(cold.validate().is_err());
    assert!(Tokens::new(&[0.0; 12], &[0.0; 12], 2, [2, 2]).is_err());
    assert!(Tokens::new(&[0.0; 16], &[0.0; 8], 2, [2, 2]).is_err());
    assert!(Tokens::new(&[], &[], 0, [2, 2]).is_err());
}
