//! Half types: every implementation computes scores in f32.

use burn::tensor::{DType, Device, Tensor};
use kvt_attention::{
    AttentionError, Dropout, Implementation, Neighbors, Score, Selection, SoftmaxAttention, attend,
};
use kvt_ops::Key;

use crate::compare::{Case, neighbors, rounded};
use crate::devices::{assert_close, devices_of, tensor, values};
use crate::naive::{Inputs, Sizes, best, dot, draw};

/// The half types of a device. The shading language of WebGPU has no bf16, and some adapters lack f16.
fn half_types(name: &str, device: &Device) -> Vec<DType> {
    let mut types = vec![DType::F16, DType::BF16];
    types.retain(|dtype| {
        let supported = device.supports_dtype(*dtype);
        if !supported {
            assert_eq!(name, "wgpu", "{dtype:?}");
            kvt_testing::skipped(&format!("the GPU adapter has no {dtype:?}"));
        }
        supported
    });
    types
}

/// Half types round inputs and outputs.
#[test]
fn half_types_agree_with_sorting() {
    for keys in [1, 9, 70] {
        let sizes = Sizes {
            images: 1,
            heads: 2,
            queries: 33,
            keys,
            dim: 16,
            value_dim: 16,
        };
        let every = |implementation| {
            neighbors(keys)
                .into_iter()
                .map(move |k| (k, implementation))
        };
        let cases = every(Implementation::Auto).chain(every(Implementation::Flash));
        let of_burn = [Implementation::Masked, Implementation::Gathered];
        let cases = cases.chain(of_burn.map(|implementation| (keys.div_ceil(2), implementation)));
        for (kept, implementation) in cases {
            // Without a selection the flash kernels are others.
            let all_kept = kept == 70 && implementation == Implementation::Flash;
            let few = keys == 70 && (kept == 35 || all_kept);
            for (name, device) in devices_of(few) {
                for dtype in half_types(name, &device) {
                    let inputs = rounded(Inputs::new(sizes, 5), dtype);
                    let case = Case::new(kept).of(dtype).by(implementation);
                    case.check(&inputs, name, &device);
                }
            }
        }
    }
}

const QUERIES: usize = 12;
const KEYS: usize = 60;
const DIM: usize = 16;
const KEPT: usize = 20;

/// Queries and keys that are exact in half types, but whose products are exact only in f32.
fn queries_and_keys() -> [Vec<f32>; 2] {
    [(1, QUERIES), (2, KEYS)].map(|(seed, tokens)| draw(seed, tokens * DIM, 61, 1.0))
}

/// Which keys every query keeps, in f64.
fn kept_by_sorting(selection: Selection) -> Vec<bool> {
    let [q, k] = queries_and_keys();
    let row = |q: &[f32]| {
        let score = |k: &[f32]| match selection {
            Selection::DotProduct => dot(q, k),
            Selection::Euclidean => {
                let differences: Vec<f32> = q.iter().zip(k).map(|(q, k)| q - k).collect();
                -dot(&differences, &differences)
            }
        };
        let scores: Vec<f64> = k.chunks(DIM).map(score).collect();
        let kept = best(&scores, KEPT);
        (0..KEYS)
            .map(move |i| kept.contains(&i))
            .collect::<Vec<_>>()
    };
    q.chunks(DIM).flat_map(row).collect()
}

/// Rounded scores would tie where those in f32 do not, and the lower index would win: all implementations keep the
/// same keys, with a bias of zero and without one.
#[test]
fn the_kept_keys_are_those_of_exact_scores() {
    let [q, k] = queries_and_keys();
    for selection in [Selection::DotProduct, Selection::Euclidean] {
        let expected = kept_by_sorting(selection);
        for implementation in Implementation::ALL {
            let attention = SoftmaxAttention {
                selection,
                implementation,
                ..SoftmaxAttention::knn(Neighbors::count(KEPT).unwrap())
            };
            if attention.validate().is_err() {
                continue;
            }
            for biased in [false, true] {
                // `Auto` is `Fused` or `Masked`, and a bias is added to the scores in one place.
                let of_auto = implementation == Implementation::Auto;
                let few = !of_auto && (implementation == Implementation::Fused || !biased);
                for dtype in [DType::F16, DType::BF16, DType::F32] {
                    for (name, device) in devices_of(few && dtype != DType::F32) {
                        if dtype != DType::F32 && !half_types(name, &device).contains(&dtype) {
                            continue;
                        }
                        let make = |data: &[f32], shape| tensor(data, shape, &device).cast(dtype);
                        let q = make(&q, [1, 1, QUERIES, DIM]);
                        let k = make(&k, [1, 1, KEYS, DIM]);
                        // Values that show the weights, one column per key.
                        let v = Tensor::<2>::eye(KEYS, &device)
                            .cast(dtype)
                            .reshape([1, 1, KEYS, KEYS]);
                        let bias = make(&[0.0; QUERIES * KEYS], [1, 1, QUERIES, KEYS]);
                        let score = Score {
                            bias: biased.then_some(bias),
                            mask: None,
                        };
                        // So small that no weight vanishes in f16, and a power of two, which is exact.
                        let scale = f64::from(2.0f32.powi(-12));
                        let out = attend(q, k, v, score, scale, &attention, None).unwrap();
                        let kept: Vec<bool> = values(out).iter().map(|x| *x > 0.0).collect();
                        assert!(
                            kept == expected,
                            "{name} {dtype:?} {selection:?} {implementation:?}, biased: {biased}"
                        );
                    }
                }
            }
        }
    }
}

/// Dropout drops the same weights as in f32.
#[test]
fn half_types_may_be_dropped() {
    let sizes = Sizes {
        images: 2,
        heads: 2,
        queries: 9,
        keys: 21,
        dim: 8,
        value_dim: 8,
    };
    let inputs = Inputs::new(sizes, 5);
    let device = Device::flex();
    for implementation in [
        Implementation::Auto,
        Implementation::Masked,
        Implementation::Gathered,
    ] {
        let run = |dtype: DType| {
            let make = |data: &[f32], tokens| tensor(data, [2, 2, tokens, 8], &device).cast(dtype);
            let dropout = Dropout {
                probability: 0.5,
                key: Key::new(4),
            };
            let out = attend(
                make(&inputs.q, 9),
                make(&inputs.k, 21),
                make(&inputs.v, 21),
                Score::default(),
                0.25,
                &Case::new(7).by(implementation).attention(),
                Some(dropout),
            )
            .unwrap();
            assert_eq!(out.dtype(), dtype);
            values(out)
        };
        let expected = run(DType::F32);
        for (dtype, tolerance) in [(DType::F16, 4e-3), (DType::BF16, 3e-2)] {
            let what = format!("{implementation:?} {dtype:?}");
            assert_close(&what, &run(dtype), &expected, tolerance);
        }
    }
}

#[test]
fn types_that_do_not_fit_are_named() {
    let device = Device::flex();
    let run = |inputs: [DType; 3], bias: Option<DType>| -> AttentionError {
        let make = |dtype: DType, shape| Tensor::<4>::zeros(shape, &device).cast(dtype);
        let [q, k, v] = inputs.map(|dtype| make(dtype, [1, 2, 3, 4]));
        let score = Score {
            bias: bias.map(|dtype| make(dtype, [1, 1, 3, 3])),
            mask: None,
        };
        attend(q, k, v, score, 1.0, &SoftmaxAttention::dense(), None).unwrap_err()
    };
    let (f16, f32, f64) = (DType::F16, DType::F32, DType::F64);
    for (inputs, bias, expected) in [
        (
            [f32, f32, f16],
            None,
            "`v` is F16, expected F32 as `q`: cast it first",
        ),
        (
            [f16; 3],
            Some(f32),
            "`bias` is F32, expected F16 as `q`: cast it first",
        ),
        (
            [f32; 3],
            Some(f64),
            "`bias` is F64, expected F32 as `q`: cast it first",
        ),
        (
            [f64; 3],
            None,
            "`q` is F64, but attention is computed in f32: cast `q`, `k` and `v` to f32",
        ),
    ] {
        assert_eq!(run(inputs, bias).to_string(), expected);
    }
}

/// Modules have no error to return.
#[test]
#[should_panic(expected = "attention is computed in f32")]
fn modules_are_told_that_f64_is_not_computed_in() {
    let x = Tensor::<4>::zeros([1, 1, 2, 4], &Device::flex()).cast(DType::F64);
    let score = Score::default();
    let dense = SoftmaxAttention::dense();
    let _ = kvt_attention::attend_unchecked(x.clone(), x.clone(), x, score, 1.0, &dense, None);
}
