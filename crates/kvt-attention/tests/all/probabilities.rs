//! Attention probabilities, as an observer of a model gets them.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_attention::{
    Implementation, Neighbors, Score, Selection, SoftmaxAttention, attend, probabilities,
};

fn numbers(seed: usize, shape: [usize; 4]) -> Tensor<4> {
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|i: usize| ((i + seed) * 37 % 101) as f32 / 50.0 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

fn values(x: Tensor<4>) -> Vec<f32> {
    x.into_data().try_to_vec().unwrap()
}

/// The output is the probabilities times the values, for every way to select and to compute.
#[test]
fn they_make_the_output_of_the_values() {
    let knn = SoftmaxAttention::knn(Neighbors::count(3).unwrap());
    let kinds = [
        SoftmaxAttention::dense(),
        knn,
        SoftmaxAttention {
            selection: Selection::Euclidean,
            ..knn
        },
        SoftmaxAttention {
            implementation: Implementation::Masked,
            temperature: 0.5,
            ..knn
        },
        SoftmaxAttention {
            implementation: Implementation::Gathered,
            ..knn
        },
    ];
    let (q, k) = (numbers(0, [2, 3, 4, 5]), numbers(1, [2, 3, 7, 5]));
    let v = numbers(2, [2, 3, 7, 6]);
    for attention in kinds {
        for bias in [None, Some(numbers(3, [1, 3, 4, 7]))] {
            let score = || Score {
                bias: bias.clone(),
                mask: None,
            };
            let p = probabilities(q.clone(), k.clone(), score(), 0.3, &attention);
            assert_eq!(p.dims(), [2, 3, 4, 7]);
            let rows = values(p.clone());
            for row in rows.chunks_exact(7) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
                let kept = row.iter().filter(|p| **p > 0.0).count();
                assert_eq!(kept, attention.neighbors.resolve(7), "{attention:?}");
            }
            let (q, k, v) = (q.clone(), k.clone(), v.clone());
            let expected = attend(q, k, v.clone(), score(), 0.3, &attention, None).unwrap();
            let product = values(p.matmul(v));
            for (a, e) in product.iter().zip(values(expected)) {
                assert!((a - e).abs() < 1e-5, "{attention:?}: {a} for {e}");
            }
        }
    }
}
