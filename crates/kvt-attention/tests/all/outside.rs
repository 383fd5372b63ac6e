//! What a program outside of the workspace does with this crate. `tests/outside` compiles this file as such a program.

use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Tensor};
use kvt_attention::{
    AttentionConfig, AttentionError, InducingConfig, Key, MultiHeadAttention,
    MultiHeadAttentionConfig, Neighbors, Phase,
};

/// Four sequences of six tokens with eight channels.
fn tokens(device: &Device) -> Tensor<3> {
    let values: Vec<f32> = (0..4 * 6 * 8).map(|i| (1.7 * i as f32).sin()).collect();
    Tensor::<1>::from_floats(values.as_slice(), device).reshape([4, 6, 8])
}

fn output(layer: &MultiHeadAttention, device: &Device) -> Vec<f32> {
    let out = layer.forward(tokens(device), Phase::Eval);
    out.into_data().try_to_vec().unwrap()
}

/// It learns to give every token the mean of its sequence.
#[test]
fn a_layer_is_trained_by_an_optimizer_of_burn() -> Result<(), AttentionError> {
    let device = Device::flex().autodiff();
    let x = tokens(&device);
    let target = x.clone().mean_dim(1);
    let mut layer = MultiHeadAttentionConfig::new(8, 2).init(&device)?;
    let mut optimizer = AdamConfig::new().init();
    let mut losses: Vec<f32> = Vec::new();
    for step in 0..100 {
        let phase = Phase::Train(Key::new(1).child(step));
        let error = layer.forward(x.clone(), phase) - target.clone();
        let loss = error.square().mean();
        losses.push(loss.clone().into_scalar());
        let gradients = GradientsParams::from_grads(loss.backward(), &layer);
        layer = optimizer.step(0.01, layer, gradients);
    }
    assert!(losses[99] < losses[0] / 4.0, "{losses:?}");
    Ok(())
}

#[test]
fn a_layer_switches_its_kind_and_keeps_its_weights() -> Result<(), AttentionError> {
    let device = Device::flex();
    let config = MultiHeadAttentionConfig::new(8, 2);
    let mut layer = config.init(&device)?;
    let dense = output(&layer, &device);

    let knn = AttentionConfig::knn(Neighbors::count(2)?);
    let mut built = config.clone().with_attention(knn.clone()).init(&device)?;
    built.qkv = layer.qkv.clone();
    built.proj = layer.proj.clone();
    layer.set_attention(&knn)?;
    assert_eq!(output(&layer, &device), output(&built, &device));
    assert_ne!(output(&layer, &device), dense);

    // A kind with weights of its own, in both directions.
    let points = AttentionConfig::Inducing(InducingConfig::default());
    let refused = layer.set_attention(&points).unwrap_err().to_string();
    assert!(refused.contains("weights of its own"), "{refused}");
    assert_eq!(output(&layer, &device), output(&built, &device));
    let mut other = config.with_attention(points).init(&device)?;
    let refused = other.set_attention(&knn).unwrap_err().to_string();
    assert!(refused.contains("weights of its own"), "{refused}");

    layer.set_attention(&AttentionConfig::dense())?;
    assert_eq!(output(&layer, &device), dense);
    Ok(())
}
