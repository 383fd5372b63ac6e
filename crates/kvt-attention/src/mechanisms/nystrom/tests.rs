#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, TensorData};
use kvt_ops::Phase;
use kvt_testing::devices::{assert_close, error, values};

use super::super::golden::{Golden, Inputs, Outcome};
use super::*;
use crate::{BurnInit, SoftmaxAttention};

fn config(landmarks: usize) -> NystromConfig {
    NystromConfig {
        landmarks,
        ..NystromConfig::default()
    }
}

fn made(config: &NystromConfig) -> Nystrom {
    let place = Place::new(33, 24, 3);
    config.init(&place, &BurnInit::new(&Device::flex()))
}

fn context() -> Context {
    Place::new(33, 24, 3).context(Phase::Eval)
}

fn qkv() -> [Tensor<4>; 3] {
    let golden = Golden::read("nystrom");
    ["q", "k", "v"].map(|name| golden.tensor(name, &Device::flex()))
}

#[test]
fn same_as_pytorch() {
    let cross = NystromConfig {
        iterations: 4,
        temperature: 2.0,
        ..config(5)
    };
    let conv = NystromConfig {
        conv: 5,
        ..config(9)
    };
    let ridge = NystromConfig {
        ridge: 1.0,
        ..config(12)
    };
    for (name, config, place) in [
        ("nystrom", config(8), Place::new(33, 24, 3)),
        ("nystrom_cross", cross, Place::new(33, 24, 3)),
        ("nystrom_ridge", ridge, Place::new(65, 32, 1)),
        (
            "nystrom_conv",
            conv,
            Place {
                prefix: 1,
                ..Place::new(33, 24, 3)
            },
        ),
    ] {
        let golden = Golden::read(name);
        golden.check(1e-4, |inputs| {
            let Inputs { q, k, v, .. } = inputs;
            let mut module = config.init(&place, &BurnInit::new(&inputs.device));
            if let Some(conv) = &mut module.conv {
                let weight = golden.tensor::<4>("conv_weight", &inputs.device);
                assert_eq!(weight.dims(), conv.weight.dims());
                conv.weight = Param::from_tensor(weight);
            }
            let context = place.context(Phase::Eval);
            let out = module.attend(q.clone(), k.clone(), v.clone(), context);
            let outcome = Outcome::new(out);
            match module.conv {
                Some(conv) => outcome.learned("conv_weight", conv.weight.val()),
                None => outcome,
            }
        });
    }
}

/// The iteration converges: the largest error of the 33 landmarks in f64 is 0.03, 2e-3 and 5e-7 after 6, 10 and 20 steps.
#[test]
fn as_many_landmarks_as_tokens_tend_to_dense_attention() {
    let [q, k, v] = qkv();
    let dense = SoftmaxAttention::dense().attend(q.clone(), k.clone(), v.clone(), context());
    // The number of landmarks is limited to the tokens if their number was not known.
    let error = |landmarks, iterations| {
        let module = made(&NystromConfig {
            iterations,
            ..config(landmarks)
        });
        let out = module.attend(q.clone(), k.clone(), v.clone(), context());
        let error: f32 = (out - dense.clone()).abs().max().into_scalar();
        error
    };
    let errors = [error(33, 6), error(33, 10), error(40, 25)];
    assert!(
        errors[0] < 0.06 && errors[1] < 4e-3 && errors[2] < 3e-4,
        "{errors:?}"
    );
    assert!(errors[0] > 5.0 * errors[1], "{errors:?}");
}

#[test]
fn an_image_does_not_depend_on_its_batch() {
    let module = made(&config(8));
    let [q, k, v] = qkv();
    let both = module.attend(q.clone(), k.clone(), v.clone(), context());
    for image in 0..2 {
        let [q, k, v] = [&q, &k, &v].map(|x| x.clone().narrow(0, image, 1));
        let alone = module.attend(q, k, v, context());
        let expected = both.clone().narrow(0, image, 1);
        assert_close("alone", &values(alone), &values(expected), 1e-6);
    }
}

#[test]
fn the_iteration_inverts() {
    let device = Device::flex();
    let golden = Golden::read("nystrom");
    let scores = golden.tensor::<4>("q", &device).narrow(2, 0, 8);
    let a = softmax(scores, 3);
    let z = inverse(&a, 30);
    let again = a.clone().matmul(z).matmul(a.clone());
    assert_close("A Z A", &values(again), &values(a), 1e-4);

    // Singular without the identity, whose weight is the ridge.
    let config = NystromConfig {
        ridge: 1.0,
        ..config(4)
    };
    let equal = Tensor::<4>::ones([1, 1, 4, 8], &device);
    let a = made(&config).between(equal.clone(), equal, 1.0);
    let diagonal: Vec<f32> = values(a.clone()).into_iter().step_by(5).collect();
    assert_close("diagonal", &diagonal, &[1.25; 4], 1e-6);
    let product = a.clone().matmul(inverse(&a, 20));
    let identity = values(Tensor::<2>::eye(4, &device));
    assert_close("ridge", &values(product), &identity, 1e-5);
}

/// Means of seven tokens by hand.
#[test]
fn landmarks_are_means_of_segments_behind_the_prefix() {
    let data: Vec<f32> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].into();
    let x = Tensor::from_data(TensorData::new(data, [1, 1, 7, 1]), &Device::flex());
    for (count, prefix, expected) in [
        (1, 0, vec![127.0 / 7.0]),
        (3, 0, vec![1.5, 6.0, 112.0 / 3.0]),
        (3, 1, vec![1.0, 14.0 / 3.0, 112.0 / 3.0]),
        (5, 1, vec![1.0, 2.0, 4.0, 12.0, 48.0]),
        (4, 2, vec![1.0, 2.0, 6.0, 112.0 / 3.0]),
        (7, 1, vec![1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
    ] {
        let means = values(landmarks(&x, count, prefix));
        assert_close(&format!("{count} {prefix}"), &means, &expected, 1e-6);
    }
}

/// A kernel that picks the previous token adds its value.
#[test]
fn the_convolution_goes_over_the_tokens_of_the_values() {
    let device = Device::flex();
    let kernel = TensorData::new([1.0f32, 0.0, 0.0].repeat(3), [3, 1, 3, 1]);
    let mut module = made(&NystromConfig {
        conv: 3,
        ..config(8)
    });
    let weight = Tensor::<4>::from_data(kernel, &device);
    module.conv.as_mut().unwrap().weight = Param::from_tensor(weight);
    let [q, k, v] = qkv();
    let plain = made(&config(8)).attend(q.clone(), k.clone(), v.clone(), context());
    let added = module.attend(q, k, v.clone(), context()) - plain;
    let first = Tensor::zeros([2, 3, 1, 8], &device);
    let expected = Tensor::cat(vec![first, v.narrow(2, 0, 32)], 2);
    assert_close("conv", &values(added), &values(expected), 1e-5);
}

#[test]
fn half_types_stay_what_they_are() {
    let module = made(&NystromConfig {
        conv: 3,
        ..config(8)
    });
    let rounded = qkv().map(|x| x.cast(DType::F16));
    let [q, k, v] = rounded.clone().map(|x| x.cast(DType::F32));
    let exact = module.attend(q, k, v, context());
    let [q, k, v] = rounded;
    let half = module.attend(q, k, v, context());
    assert_eq!(half.dtype(), DType::F16);
    assert!(error(&values(half), &values(exact)) < 1e-3);
}

#[test]
fn costs_by_hand() {
    let place = Place::new(50, 24, 3);
    let products = 2 * (50 + 50 + 4) * 4 * 24;
    for (conv, params, linear) in [(0, 0, 0), (5, 15, 50 * 5 * 24)] {
        let config = NystromConfig {
            conv,
            iterations: 7,
            ..config(4)
        };
        let expected = Cost {
            params,
            // Four products of 4 x 4 matrices per iteration, in three heads.
            macs: Macs {
                linear,
                attention: products + 3 * 7 * 4 * 64,
            },
            kept: 50,
        };
        assert_eq!(config.cost(&place), expected);
        let module = config.init(&place, &BurnInit::new(&Device::flex()));
        assert_eq!(module.num_params(), params);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let place = Place {
        prefix: 1,
        ..Place::new(65, 24, 3)
    };
    let conv = NystromConfig {
        conv: 3,
        ..config(5)
    };
    for config in [config(2), config(65), conv] {
        assert_eq!(config.fits(&place), Ok(()));
    }
    assert_eq!(config(66).fits(&Place::new(0, 24, 3)), Ok(()));
    let refused = |config: NystromConfig, place: Place, expected: &str| {
        let message = config.fits(&place).unwrap_err().to_string();
        assert_eq!(message, format!("`kind = \"nystrom\"` {expected}"));
    };
    let fewer = Place { keys: 5, ..place };
    refused(
        config(64),
        fewer,
        "cannot make `landmarks` 64 of 5 tokens: set `landmarks` to 5 or less",
    );
    refused(
        config(1),
        place,
        "needs more than 1 `landmarks`: each of the 1 tokens before the map is one: set `landmarks` to 2 or more",
    );
    refused(
        config(1),
        Place {
            queries: 1,
            ..place
        },
        "needs tokens after the prefix for its landmarks: use `dense` or `knn` here",
    );
    refused(
        conv,
        fewer,
        "adds a convolution of 5 values to the output of 65 queries: set `conv` to 0",
    );
    for place in [
        Place {
            bias: true,
            ..place
        },
        Place {
            dropout: 0.1,
            ..place
        },
    ] {
        assert!(config(8).fits(&place).is_err());
    }
    let even = NystromConfig {
        conv: 4,
        ..config(8)
    };
    assert!(even.validate().unwrap_err().to_string().contains("odd"));
    assert_eq!(conv.validate(), Ok(()));
}
