//! Every layout of bias and mask against the naive implementation, head by head.

use burn::tensor::{Bool, Device, Tensor};
use kvt_attention::{Implementation, Neighbors, Score, SoftmaxAttention, attend};

use crate::compare::bools;
use crate::devices::{devices_of, tensor, values};
use crate::naive::{Inputs, NAMES, Sizes, draw};

const SCALE: f64 = 0.25;

/// Two windows of three heads each.
const HEADS: usize = 6;

fn sizes(queries: usize, keys: usize) -> Sizes {
    Sizes {
        images: 2,
        heads: HEADS,
        queries,
        keys,
        dim: 4,
        value_dim: 5,
    }
}

/// A problem with a bias and a mask in any layout.
struct Problem {
    inputs: Inputs,
    bias: Option<(Vec<f32>, [usize; 4])>,
    mask: Option<(Vec<bool>, [usize; 4])>,
}

/// The heads of a layout, and whether it has batch, queries and keys in full.
type Layout = Option<(usize, [bool; 3])>;

impl Problem {
    fn new(sizes: Sizes, bias: Layout, mask: Layout) -> Self {
        let shape = |(heads, [batch, queries, keys]): (usize, [bool; 3])| {
            let dim = |given: bool, size: usize| if given { size } else { 1 };
            let (queries, keys) = (dim(queries, sizes.queries), dim(keys, sizes.keys));
            [dim(batch, sizes.images), heads, queries, keys]
        };
        let bias = bias.map(shape).map(|shape| {
            // Scores are exact in f32, and have ties.
            let data = draw(7, shape.iter().product(), 9, 0.25);
            (data, shape)
        });
        let mask = mask.map(shape).map(|shape| {
            let data = draw(8, shape.iter().product(), 3, 1.0);
            // The first key stays visible.
            let keys = shape[3];
            let hidden = |(i, x): (usize, &f32)| *x > 0.0 && i % keys > 0;
            (data.iter().enumerate().map(hidden).collect(), shape)
        });
        Self {
            inputs: Inputs::new(sizes, 3),
            bias,
            mask,
        }
    }

    /// Output, and the gradients of q, k, v and the bias, by the definition: each head by itself, with its own bias,
    /// which is -inf where the mask hides.
    fn solve(&self, kept: usize) -> [Vec<f32>; 5] {
        let Sizes {
            images,
            heads,
            queries,
            keys,
            ..
        } = self.inputs.sizes;
        let flat =
            |[a, b, c, d]: [usize; 4], [_, s, t, u]: [usize; 4]| ((a * s + b) * t + c) * u + d;
        let bias_at = |shape: [usize; 4], [b, h, q, k]: [usize; 4]| {
            let place = [b % shape[0], h % shape[1], q % shape[2], k % shape[3]];
            flat(place, shape)
        };
        let mask_at = |shape: [usize; 4], [b, h, q, k]: [usize; 4]| {
            let window = h / (heads / shape[1]);
            let place = [b % shape[0], window, q % shape[2], k % shape[3]];
            flat(place, shape)
        };
        let mut solution: [Vec<f32>; 5] = Default::default();
        let mut bias_grad = vec![0.0; self.bias.as_ref().map_or(0, |(data, _)| data.len())];
        for image in 0..images {
            for head in 0..heads {
                let pairs = (0..queries).flat_map(|q| (0..keys).map(move |k| (q, k)));
                let places: Vec<_> = pairs.map(|(q, k)| [image, head, q, k]).collect();
                let total = |&place: &[usize; 4]| {
                    let bias = self
                        .bias
                        .as_ref()
                        .map_or(0.0, |(data, shape)| data[bias_at(*shape, place)]);
                    let mask = self.mask.as_ref();
                    let hidden = mask.is_some_and(|(data, shape)| data[mask_at(*shape, place)]);
                    if hidden { f32::NEG_INFINITY } else { bias }
                };
                let part = |x: &[f32]| {
                    let len = x.len() / (images * heads);
                    x[(image * heads + head) * len..][..len].to_vec()
                };
                let one = Inputs {
                    sizes: Sizes {
                        images: 1,
                        heads: 1,
                        ..self.inputs.sizes
                    },
                    q: part(&self.inputs.q),
                    k: part(&self.inputs.k),
                    v: part(&self.inputs.v),
                    probe: part(&self.inputs.probe),
                    bias: Some(places.iter().map(total).collect()),
                };
                let [out, q, k, v, scores] = one.solve(SCALE, kept);
                for (whole, part) in solution.iter_mut().zip([out, q, k, v]) {
                    whole.extend(part);
                }
                if let Some((_, shape)) = &self.bias {
                    for (place, score) in places.into_iter().zip(scores) {
                        bias_grad[bias_at(*shape, place)] += score;
                    }
                }
            }
        }
        solution[4] = bias_grad;
        solution
    }

    /// The same on a device.
    fn run(&self, kept: usize, implementation: Implementation, device: &Device) -> [Vec<f32>; 5] {
        let Sizes {
            images,
            queries,
            keys,
            dim,
            value_dim,
            ..
        } = self.inputs.sizes;
        let device = device.clone().autodiff();
        let leaf = |x: &[f32], tokens, dim| {
            tensor(x, [images, HEADS, tokens, dim], &device).require_grad()
        };
        let q = leaf(&self.inputs.q, queries, dim);
        let k = leaf(&self.inputs.k, keys, dim);
        let v = leaf(&self.inputs.v, keys, value_dim);
        let bias = self
            .bias
            .as_ref()
            .map(|(data, shape)| tensor(data, *shape, &device).require_grad());
        let mask = self
            .mask
            .as_ref()
            .map(|(data, shape)| bools(data, *shape, &device));
        let score = Score {
            bias: bias.clone(),
            mask,
        };
        let attention = SoftmaxAttention {
            implementation,
            ..SoftmaxAttention::knn(Neighbors::count(kept).unwrap())
        };
        let (a, b, c) = (q.clone(), k.clone(), v.clone());
        let out = attend(a, b, c, score, SCALE, &attention, None).unwrap();
        let probe = leaf(&self.inputs.probe, queries, value_dim);
        let grads = (out.clone() * probe).sum().backward();
        let grad = |x: &Tensor<4>| values(x.grad(&grads).unwrap());
        let bias = bias.as_ref().map_or_else(Vec::new, grad);
        [values(out), grad(&q), grad(&k), grad(&v), bias]
    }

    /// One number of q, k, v or the bias.
    fn number(&mut self, which: usize, at: usize) -> &mut f32 {
        let Inputs { q, k, v, .. } = &mut self.inputs;
        match which {
            0 => &mut q[at],
            1 => &mut k[at],
            2 => &mut v[at],
            _ => &mut self.bias.as_mut().unwrap().0[at],
        }
    }

    #[track_caller]
    fn check(&self, kept: usize, implementation: Implementation, name: &str, device: &Device) {
        let expected = self.solve(kept);
        let actual = self.run(kept, implementation, device);
        let shape = |shape: Option<&[usize; 4]>| format!("{shape:?}");
        let bias = shape(self.bias.as_ref().map(|(_, shape)| shape));
        let mask = shape(self.mask.as_ref().map(|(_, shape)| shape));
        for ((what, actual), expected) in NAMES.iter().zip(actual).zip(expected) {
            assert_eq!(actual.len(), expected.len());
            // All are of order one, or sums that cancel.
            let scale = expected.iter().fold(1.0f32, |m, x| m.max(x.abs()));
            for (a, e) in actual.iter().zip(expected) {
                assert!(
                    (a - e).abs() <= 2e-5 * scale,
                    "{name} {implementation:?}, {kept} kept, bias {bias}, mask {mask}: {what} is {a}, not {e}"
                );
            }
        }
    }
}

const WHOLE: [bool; 3] = [true; 3];
const SHARED: [bool; 3] = [false, true, true];
const KEYS: [bool; 3] = [false, false, true];

/// With the heads of all windows, of one, and one for all; for all images or each; for all queries, all keys, or both.
const BIASES: [Layout; 10] = [
    None,
    Some((6, SHARED)),
    Some((6, WHOLE)),
    Some((3, SHARED)),
    Some((3, WHOLE)),
    Some((1, SHARED)),
    Some((1, [true, false, true])),
    Some((6, KEYS)),
    Some((3, [false, true, false])),
    Some((1, [false; 3])),
];

/// For all heads, for those of a window, and for each.
const MASKS: [Layout; 6] = [
    None,
    Some((1, KEYS)),
    Some((1, [true, false, true])),
    Some((2, SHARED)),
    Some((2, WHOLE)),
    Some((6, SHARED)),
];

#[test]
fn every_layout_agrees_with_sorting_on_the_cpu() {
    let device = Device::flex();
    for (queries, keys) in [(5, 7), (70, 9), (40, 70)] {
        for bias in BIASES {
            for mask in MASKS {
                let problem = Problem::new(sizes(queries, keys), bias, mask);
                for kept in [3, keys] {
                    problem.check(kept, Implementation::Auto, "flex", &device);
                }
            }
        }
    }
}

#[test]
fn every_device_and_implementation_agrees_with_sorting() {
    let layouts = [
        (BIASES[3], None),
        (None, MASKS[3]),
        (BIASES[4], MASKS[4]),
        (BIASES[8], MASKS[1]),
    ];
    for (index, (bias, mask)) in layouts.into_iter().enumerate() {
        let problem = Problem::new(sizes(6, 9), bias, mask);
        for implementation in [
            Implementation::Auto,
            Implementation::Flash,
            Implementation::Masked,
            Implementation::Gathered,
        ] {
            for kept in [4, 9] {
                // On a GPU all are made of Burn's products; `Flash` is `Auto`, since its kernels take no bias.
                let is_own = implementation == Implementation::Auto && index > 1;
                let is_burns = implementation != Implementation::Flash && index == 2;
                for (name, device) in devices_of(kept == 4 && (is_own || is_burns)) {
                    problem.check(kept, implementation, name, &device);
                }
            }
        }
    }
}

/// The rows that are NaN throughout; no row is partly NaN.
fn broken(x: &[f32], width: usize) -> Vec<bool> {
    let rows = x.chunks(width);
    rows.map(|row| {
        let count = row.iter().filter(|x| x.is_nan()).count();
        assert!(count == 0 || count == width, "{row:?}");
        count > 0
    })
    .collect()
}

/// A query without a visible key: by a mask alone, and by a mask and a bias of -inf together. Its output is NaN, and
/// with it the gradients of all values, but its scores have no gradient.
#[test]
fn a_row_without_a_visible_key_is_nan_and_has_no_gradient() {
    let (queries, keys, hidden_query) = (6, 9, 2);
    for by_bias in [0, 2] {
        let mut problem = Problem::new(sizes(queries, keys), BIASES[5], Some((1, SHARED)));
        let (bias, _) = problem.bias.as_mut().unwrap();
        let (mask, _) = problem.mask.as_mut().unwrap();
        mask.fill(false);
        mask[hidden_query * keys..][by_bias..keys].fill(true);
        bias[hidden_query * keys..][..by_bias].fill(f32::NEG_INFINITY);
        for implementation in [
            Implementation::Auto,
            Implementation::Masked,
            Implementation::Gathered,
        ] {
            for kept in [3, keys] {
                for (name, device) in devices_of(by_bias == 0 && kept == 3) {
                    let [out, q, k, v, bias] = problem.run(kept, implementation, &device);
                    let what = format!("{name} {implementation:?} {kept} {by_bias}");
                    let one: Vec<bool> = (0..2 * HEADS * queries)
                        .map(|row| row % queries == hidden_query)
                        .collect();
                    assert_eq!(broken(&out, 5), one, "{what}");
                    // Gathered values are those of the keys that fill up the row.
                    let gathered = implementation == Implementation::Gathered;
                    assert!(gathered || v.iter().all(|x| x.is_nan()), "{what}");
                    if by_bias == 0 {
                        let finite = |x: &[f32]| x.iter().all(|x| x.is_finite());
                        assert!(finite(&q) && finite(&k) && finite(&bias), "{what}");
                        let row = &q[hidden_query * 4..][..4];
                        assert!(row.iter().all(|x| *x == 0.0), "{what}: {row:?}");
                    }
                }
            }
        }
    }
}

/// All gradients against finite differences of the output.
#[test]
fn gradients_are_the_slopes() {
    let device = Device::flex();
    let mut problem = Problem::new(sizes(3, 5), BIASES[3], MASKS[3]);
    let [_, grads @ ..] = problem.run(5, Implementation::Auto, &device);
    let loss = |problem: &Problem| -> f64 {
        let [out, ..] = problem.run(5, Implementation::Auto, &device);
        let pairs = out.iter().zip(&problem.inputs.probe);
        pairs.map(|(x, p)| f64::from(*x) * f64::from(*p)).sum()
    };
    let step = 1.0 / 64.0;
    for (which, grad) in grads.iter().enumerate() {
        for at in (0..grad.len()).step_by(7) {
            let mut side = |by: f32| {
                *problem.number(which, at) += by;
                let loss = loss(&problem);
                *problem.number(which, at) -= by;
                loss
            };
            let slope = (side(step) - side(-step)) / (2.0 * f64::from(step));
            let error = (slope - f64::from(grad[at])).abs();
            assert!(
                error < 1e-3,
                "{}: {slope}, not {}",
                NAMES[which + 1],
                grad[at]
            );
        }
    }
}

/// Bias and mask that are views: transposed, and expanded over the dimensions that share them.
#[test]
fn bias_and_mask_are_read_where_they_lie() {
    let device = Device::flex();
    let (queries, keys) = (6, 9);
    let inputs = Inputs::new(sizes(queries, keys), 4);
    let floats =
        |shape: [usize; 4]| tensor(&draw(5, shape.iter().product(), 9, 0.25), shape, &device);
    let whole = [2, HEADS, queries, keys];
    let turned = floats([1, HEADS, keys, queries]).swap_dims(2, 3);
    let expanded = floats([2, 1, 1, keys]).expand(whole);
    let part = floats([1, HEADS, queries + 1, keys + 2]).slice([
        0..1,
        0..HEADS,
        1..queries + 1,
        1..keys + 1,
    ]);
    let flipped = floats([1, HEADS, queries, keys]).flip([2]);
    let run = |bias: Tensor<4>, mask: Tensor<4, Bool>| {
        let (q, k, v) = (
            tensor(&inputs.q, [2, HEADS, queries, 4], &device),
            tensor(&inputs.k, [2, HEADS, keys, 4], &device),
            tensor(&inputs.v, [2, HEADS, keys, 5], &device),
        );
        let attention = SoftmaxAttention::knn(Neighbors::count(4).unwrap());
        let score = Score {
            bias: Some(bias),
            mask: Some(mask),
        };
        values(attend(q, k, v, score, SCALE, &attention, None).unwrap())
    };
    let mask = bools(&[false, true, true], [1, 1, 1, 3], &device).repeat_dim(3, 3);
    for view in [turned, expanded, part, flipped] {
        let copy = tensor(&values(view.clone()), view.dims(), &device);
        assert_eq!(run(view, mask.clone()), run(copy, mask.clone()));
    }
    let expanded = mask.clone().expand(whole);
    let bias = Tensor::zeros([1; 4], &device);
    assert_eq!(run(bias.clone(), mask), run(bias, expanded));
}
