//! Every micro-batch of every epoch draws its own attention dropout.

use crate::support::{Workspace, steps};

#[test]
fn every_batch_draws_its_own_dropout() {
    let workspace = Workspace::with_data(12, 1);
    // Batches of 6 in the order of the classes: two per class, with the same images.
    for class in ["a", "b", "c"] {
        let folder = workspace.path("data/train").join(class);
        for index in 1..12 {
            fs_err::copy(
                folder.join("000.png"),
                folder.join(format!("{index:03}.png")),
            )
            .unwrap();
        }
    }
    let losses = |run: &str, attn_drop: &str| -> Vec<f64> {
        // The weights do not change.
        let still = [
            "data.shuffle=false",
            "optim.lr=1e-20",
            "schedule.warmup_lr=0.0",
            "schedule.min_lr=0.0",
        ];
        let events = workspace.train(run, &[&still[..], &[attn_drop]].concat());
        steps(&events).iter().map(|step| step.loss).collect()
    };
    let plain = losses("plain", "model.attn_drop=0.0");
    let dropping = losses("dropping", "model.attn_drop=0.5");
    assert_eq!([plain.len(), dropping.len()], [12; 2], "two epochs of six");
    for class in 0..3 {
        // Two batches in the first epoch, two in the second.
        let batches = [0, 1, 6, 7].map(|step| 2 * class + step);
        for (i, &a) in batches.iter().enumerate() {
            for &b in &batches[..i] {
                assert_eq!(plain[a], plain[b], "{a} and {b}");
                assert_ne!(dropping[a], dropping[b], "{a} and {b}");
            }
        }
    }
    // Another run with the same seed is the same.
    assert_eq!(losses("again", "model.attn_drop=0.5"), dropping);
}
