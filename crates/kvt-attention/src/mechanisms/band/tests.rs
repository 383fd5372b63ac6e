#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Bool, Device, TensorData};
use kvt_ops::{Key, Phase};
use kvt_testing::devices::{assert_close, values};

use super::super::testing::numbers;
use super::*;
use crate::Dropout;

fn weighing() -> Weighing {
    let context = Place::new(0, 12, 3).context(Phase::Eval);
    Weighing::new(1.0, &context)
}

/// A map, all tokens, the tokens before the map, and a window.
const CASES: [(Option<[usize; 2]>, usize, usize, Window); 10] = {
    const fn window(radius: usize, pool: usize, stride: usize) -> Window {
        Window {
            radius,
            pool,
            stride,
        }
    }
    [
        (None, 40, 0, window(3, 1, 1)),
        (None, 41, 2, window(0, 1, 1)),
        (Some([7, 9]), 63, 0, window(2, 1, 1)),
        (Some([7, 9]), 64, 1, window(1, 1, 1)),
        (Some([3, 17]), 53, 2, window(4, 1, 1)),
        (None, 43, 1, window(5, 3, 2)),
        (None, 41, 0, window(4, 4, 4)),
        (Some([9, 11]), 100, 1, window(3, 2, 2)),
        (Some([8, 13]), 104, 0, window(2, 5, 1)),
        (Some([5, 6]), 30, 0, window(9, 5, 4)),
    ]
};

/// The pools of a map: first and last row, first and last column.
fn pools([rows, columns]: [usize; 2], window: Window) -> Vec<[usize; 4]> {
    let Window { pool, stride, .. } = window;
    let mut pools = Vec::new();
    for top in (0..rows).step_by(stride) {
        for left in (0..columns).step_by(stride) {
            let (bottom, right) = ((top + pool).min(rows) - 1, (left + pool).min(columns) - 1);
            pools.push([top, bottom, left, right]);
        }
    }
    pools
}

/// `[prefix + tokens, prefix + pools]`, from coordinates.
fn hidden_by_hand(grid: [usize; 2], prefix: usize, window: Window) -> Vec<bool> {
    let pools = pools(grid, window);
    let mut hidden = Vec::new();
    for query in 0..prefix + grid[0] * grid[1] {
        hidden.extend(std::iter::repeat_n(false, prefix));
        for [top, bottom, left, right] in &pools {
            let Some(token) = query.checked_sub(prefix) else {
                hidden.push(false);
                continue;
            };
            let (row, column) = ((token / grid[1]) as f64, (token % grid[1]) as f64);
            let away =
                |first: &usize, last: &usize, at: f64| ((first + last) as f64 / 2.0 - at).abs();
            let distance = away(top, bottom, row).max(away(left, right, column));
            hidden.push(distance > window.radius as f64);
        }
    }
    hidden
}

/// Keys and values by hand: means over the pools, after the prefix.
fn pooled_by_hand(x: &Tensor<4>, grid: [usize; 2], prefix: usize, window: Window) -> Tensor<4> {
    let mut parts = Vec::new();
    if prefix > 0 {
        parts.push(x.clone().narrow(2, 0, prefix));
    }
    for [top, bottom, left, right] in pools(grid, window) {
        let tokens =
            (top..=bottom).flat_map(|row| (left..=right).map(move |column| row * grid[1] + column));
        let tokens: Vec<Tensor<4>> = tokens
            .map(|token| x.clone().narrow(2, prefix + token, 1))
            .collect();
        parts.push(Tensor::cat(tokens, 2).mean_dim(2));
    }
    Tensor::cat(parts, 2)
}

#[test]
fn windows_are_attention_with_a_mask_from_coordinates() {
    for (number, (grid, tokens, prefix, window)) in CASES.into_iter().enumerate() {
        let band = Band::new(tokens, prefix, grid, window);
        let grid = grid.unwrap_or([1, tokens - prefix]);
        let [q, k, v] = [1, 2, 3].map(|seed| numbers([2, 3, tokens, 4], seed));
        let hand = [&k, &v].map(|x| pooled_by_hand(x, grid, prefix, window));
        let pooled = [k, v].map(|x| band.pool(x));
        for (pooled, hand) in pooled.iter().zip(&hand) {
            let [pooled, hand] = [pooled, hand].map(|x| values(x.clone()));
            assert_close(&format!("pools of {number}"), &pooled, &hand, 1e-6);
        }
        let [k, v] = hand;
        let keys = k.dims()[2];
        let hidden = hidden_by_hand(grid, prefix, window);
        let pairs = hidden.iter().filter(|hidden| !**hidden).count();
        assert_eq!(band.pairs(), pairs, "{number}");
        let hidden = TensorData::new(hidden, [1, 1, tokens, keys]);
        let hidden = Tensor::<4, Bool>::from_data(hidden, &Device::flex());
        let expected = weighing().attend_visible([q.clone(), k, v], Some(hidden));
        let expected = values(expected);
        let [k, v] = pooled;
        let run = |tiles| {
            let [q, k, v] = [&q, &k, &v].map(Clone::clone);
            values(band.attend_tiles([q, k, v], &weighing(), tiles))
        };
        let whole = band.axes.map(|axis| axis.tiles(true, 1));
        assert_eq!(whole.map(|tiles| tiles.count), [1, 1]);
        assert_close(&format!("{number} whole"), &run(whole), &expected, 1e-6);
        // The smallest tiles, and some larger ones.
        for least in [1, 3] {
            let tiles = band.axes.map(|axis| axis.tiles(false, least));
            assert!(number == 9 || tiles[0].count * tiles[1].count > 1);
            let label = format!("{number} in tiles of {least}: {tiles:?}");
            assert_close(&label, &run(tiles), &expected, 1e-6);
        }
    }
}

/// Gradients through tiles agree with those through the mask.
#[test]
fn gradients_through_tiles_are_those_of_the_whole() {
    let device = Device::flex().autodiff();
    for (grid, tokens, prefix, window) in CASES {
        let band = Band::new(tokens, prefix, grid, window);
        let run = |whole: bool| {
            let inputs = [1, 2, 3].map(|seed| {
                let x: Tensor<4> = numbers([1, 2, tokens, 4], seed);
                Tensor::<4>::from_data(x.into_data(), &device).require_grad()
            });
            let [q, k, v] = inputs.clone();
            let tiles = band.axes.map(|axis| axis.tiles(whole, 1));
            let out = band.attend_tiles([q, band.pool(k), band.pool(v)], &weighing(), tiles);
            let weights = Tensor::from_data(numbers(out.dims(), 4).into_data(), &device);
            let gradients = (out * weights).sum().backward();
            inputs.map(|x| values(x.grad(&gradients).unwrap()))
        };
        let (whole, tiled) = (run(true), run(false));
        for (name, (a, b)) in ["q", "k", "v"].iter().zip(whole.iter().zip(&tiled)) {
            assert!(a.iter().all(|x| x.is_finite()));
            assert_close(&format!("{name} {grid:?}"), b, a, 2e-6);
        }
    }
}

/// The public method uses the mask up to `WHOLE` tokens, and tiles beyond. For long sequences, one window is compared
/// with dense attention to the keys that it holds.
#[test]
fn long_sequences_are_cut_into_tiles() {
    let window = Window::of_tokens(2);
    for (grid, tokens, prefix) in [(Some([40, 30]), 1201, 1), (None, 1100, 0)] {
        let band = Band::new(tokens, prefix, grid, window);
        let [_, columns] = grid.unwrap_or([1, tokens]);
        let [q, k, v] = [1, 2, 3].map(|seed| numbers([1, 2, tokens, 4], seed));
        let out = band.attend([&q, &k, &v].map(Clone::clone), &weighing());
        assert_eq!(out.dims(), [1, 2, tokens, 4]);
        for token in [0, 1, 31, 77, 600, tokens - prefix - 1] {
            let at = |token: usize| [token / columns, token % columns];
            let [row, column] = at(token);
            let near = (0..tokens - prefix).filter(|other| {
                let [other_row, other_column] = at(*other);
                row.abs_diff(other_row) <= 2 && column.abs_diff(other_column) <= 2
            });
            let seen = (0..prefix).chain(near.map(|other| prefix + other));
            let seen: Vec<usize> = seen.collect();
            let take = |x: &Tensor<4>| {
                let tokens = seen.iter().map(|token| x.clone().narrow(2, *token, 1));
                Tensor::cat(tokens.collect(), 2)
            };
            let one = q.clone().narrow(2, prefix + token, 1);
            let expected = values(weighing().attend(one, take(&k), take(&v)));
            let actual = values(out.clone().narrow(2, prefix + token, 1));
            assert_close(&format!("{grid:?} {token}"), &actual, &expected, 1e-6);
        }
    }
}

#[test]
fn a_window_over_everything_hides_nothing() {
    let band = Band::new(33, 1, Some([4, 8]), Window::of_tokens(7));
    let tiles = band.axes.map(|axis| axis.tiles(true, 1));
    assert!(band.hidden(tiles, &Device::flex()).is_none());
    let less = Band::new(33, 1, Some([4, 8]), Window::of_tokens(6));
    assert!(less.hidden(tiles, &Device::flex()).is_some());
    assert_eq!((band.reach(), less.reach()), (33, 33));
    assert_eq!(
        Band::new(65, 1, Some([8, 8]), Window::of_tokens(2)).reach(),
        26
    );
}

#[test]
fn a_prefix_without_a_map_is_dense() {
    let band = Band::new(2, 2, None, Window::of_tokens(0));
    let [q, k, v] = [1, 2, 3].map(|seed| numbers([1, 3, 2, 4], seed));
    let out = band.attend([q.clone(), band.pool(k.clone()), v.clone()], &weighing());
    let expected = weighing().attend(q, k, v);
    assert_eq!(values(out), values(expected));
    assert_eq!(band.pairs(), 4);
}

/// Weights are dropped in whole and in tiled windows.
#[test]
fn weights_are_dropped() {
    let (grid, tokens) = (Some([6, 8]), 50);
    let band = Band::new(tokens, 2, grid, Window::of_tokens(1));
    let [q, k] = [1, 2].map(|seed| numbers([2, 3, tokens, 4], seed));
    let ones = q.ones_like();
    let dropped = Weighing {
        dropout: Some(Dropout {
            probability: 0.5,
            key: Key::new(3),
        }),
        ..weighing()
    };
    for whole in [true, false] {
        let tiles = band.axes.map(|axis| axis.tiles(whole, 1));
        let out = band.attend_tiles([&q, &k, &ones].map(Clone::clone), &dropped, tiles);
        let sums = values(out);
        let mean = sums.iter().sum::<f32>() / sums.len() as f32;
        assert!((mean - 1.0).abs() < 0.15, "{mean}");
        assert!(sums.iter().filter(|x| (**x - 1.0).abs() > 0.01).count() > sums.len() / 2);
    }
}

#[test]
fn cross_attention_is_refused() {
    let place = Place::new(64, 12, 3);
    assert!(fits("poolingformer", &place).is_ok());
    let cross = Place { keys: 16, ..place };
    assert_eq!(
        fits("poolingformer", &cross).unwrap_err().to_string(),
        "`kind = \"poolingformer\"` needs queries and keys at the same positions, but there are 64 queries \
         and 16 keys: use another kind, or a stage whose keys are not reduced"
    );
    let biased = Place {
        bias: true,
        ..place
    };
    assert!(fits("poolingformer", &biased).is_err());
}
