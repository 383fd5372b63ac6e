//! Small models of all families.

use burn::tensor::{Device, Tensor, TensorData};
use kvt_models::{Model, ModelConfig, ModelOverrides};
use kvt_ops::Key;

/// Side of their images in pixels.
pub(crate) const SIDE: usize = 16;

/// For small images and a few classes.
pub(crate) fn small(overrides: ModelOverrides) -> ModelOverrides {
    ModelOverrides {
        img_size: Some(SIDE.into()),
        num_classes: Some(3),
        ..overrides
    }
}

/// The smallest model of each family.
pub(crate) fn families() -> Vec<(&'static str, ModelOverrides)> {
    let one = ModelOverrides {
        patch_size: Some(4),
        embed_dim: Some(12.into()),
        depth: Some(1.into()),
        num_heads: Some(2.into()),
        ..ModelOverrides::default()
    };
    let so_vit = ModelOverrides {
        patch_size: None,
        strides: Some(vec![2, 1, 1]),
        cov_dims: Some([5, 3]),
        ..one.clone()
    };
    let two = ModelOverrides {
        embed_dim: Some(vec![4, 8].into()),
        depth: Some(vec![1, 1].into()),
        num_heads: Some(vec![1, 2].into()),
        ..ModelOverrides::default()
    };
    vec![
        ("deit_tiny_patch16_224", one.clone()),
        (
            "swin_tiny_patch4_window7_224",
            ModelOverrides {
                patch_size: Some(2),
                window_size: Some(4.into()),
                embed_dim: Some(4.into()),
                ..two.clone()
            },
        ),
        (
            "pit_s_224",
            ModelOverrides {
                patch_size: Some(4),
                patch_stride: Some(4),
                ..two.clone()
            },
        ),
        (
            "cvt_13",
            ModelOverrides {
                patch_stride: Some(4),
                ..two.clone()
            },
        ),
        (
            "twins_svt_small",
            ModelOverrides {
                strides: Some(vec![2, 2]),
                window_size: Some(4.into()),
                sr_ratio: Some(vec![2, 1].into()),
                ..two.clone()
            },
        ),
        (
            "volo_d1_224",
            ModelOverrides {
                strides: Some(vec![1, 2]),
                stem_dim: Some(4),
                ..two
            },
        ),
        (
            "tnt_s_patch16_224",
            ModelOverrides {
                inner_dim: Some(6),
                inner_num_heads: Some(2),
                inner_stride: Some(2),
                ..one.clone()
            },
        ),
        (
            "visformer_tiny",
            ModelOverrides {
                strides: Some(vec![2, 2, 1, 2]),
                embed_dim: Some(8.into()),
                depth: Some(vec![1, 1, 1].into()),
                num_heads: Some(2.into()),
                ..ModelOverrides::default()
            },
        ),
        ("so_vit_7", so_vit),
        (
            "t2t_vit_t_14",
            ModelOverrides {
                strides: Some(vec![2, 2, 1]),
                token_dim: Some(6),
                patch_size: None,
                ..one
            },
        ),
    ]
}

/// A model on the CPU.
pub(crate) fn build(name: &str, overrides: &ModelOverrides) -> Model {
    let config = ModelConfig::by_name(name).unwrap().with(overrides).unwrap();
    config.init(&Device::flex(), Key::new(1)).unwrap()
}

/// All families with `img_size` of [`SIDE`], and with some blocks in each of their stages.
pub(crate) fn configs(change: &ModelOverrides) -> Vec<ModelConfig> {
    let configs = families().into_iter().map(|(name, overrides)| {
        let config = ModelConfig::by_name(name).unwrap();
        let lists = overrides.depth.clone().unwrap();
        let config = config.with(&small(overrides)).unwrap();
        let stages = lists.values().len();
        let depth: Vec<usize> = match name {
            // With initial running statistics its numbers grow with every block.
            "visformer_tiny" => vec![1, 1, 2],
            // Its other stages have one layer each.
            "t2t_vit_t_14" => vec![2],
            _ => (2..2 + stages).collect(),
        };
        let deeper = ModelOverrides {
            depth: Some(depth.into()),
            ..change.clone()
        };
        config.with(&deeper).unwrap()
    });
    configs.collect()
}

/// Images of any size.
pub(crate) fn images([height, width]: [usize; 2], device: &Device) -> Tensor<4> {
    let pixels: Vec<f32> = (0..2 * 3 * height * width)
        .map(|i| (i * 29 % 97) as f32 / 48.0 - 1.0)
        .collect();
    Tensor::from_data(TensorData::new(pixels, [2, 3, height, width]), device)
}

/// The numbers of a tensor.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// Fails if two tensors differ by more than rounding.
#[track_caller]
pub(crate) fn assert_close(actual: &[f32], expected: &[f32], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    assert!(largest > 0.0, "{what}: all zeros");
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        let difference = (a - e).abs();
        assert!(
            difference < 2e-5 * largest.max(1.0),
            "{what} {i}: {a} for {e}"
        );
    }
}
