//! The gradients of several small batches match those of one large batch.

use crate::support::{Workspace, assert_each_close, floats, read_weights, steps};

#[test]
fn eight_images_four_times_are_thirty_two() {
    let workspace = Workspace::with_data(22, 1);
    let train = |run: &str, batch: &[&str]| {
        // AdamW is insensitive to the scale of the gradients unless `eps` is large, and the gradient of the keys' bias is only
        // rounding error.
        let mut all = vec![
            "optim.eps=0.01",
            "model.qkv_bias=false",
            "data.shuffle=false",
            "train.epochs=1",
        ];
        all.extend(batch);
        let events = workspace.train(run, &all);
        let values = steps(&events)
            .iter()
            .flat_map(|step| [step.loss, step.grad_norm, step.lr])
            .collect::<Vec<f64>>();
        let file = workspace.last_checkpoint(run).join("model.safetensors");
        (values, read_weights(&file))
    };
    let (large, large_weights) = train("large", &["train.batch_size=32"]);
    let (small, small_weights) = train("small", &["train.batch_size=8", "train.accumulate=4"]);
    assert_eq!(large.len(), 2 * 3, "two updates of 32 images, out of 66");
    assert_each_close("step", &small, &large, 1e-5);
    for (name, _) in large_weights.iter() {
        let (large, small) = (floats(&large_weights, name), floats(&small_weights, name));
        let scale = large.iter().fold(0.0f32, |max, x| max.max(x.abs()));
        for (l, s) in large.iter().zip(&small) {
            assert!((l - s).abs() <= 1e-5 * scale, "{name}: {s} instead of {l}");
        }
    }
}
