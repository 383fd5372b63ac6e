//! The numbers of a batch and of an image, computed again.

use kvt_ops::Key;

use super::run::workspace;
use super::*;
use crate::data::{Batch, View};

const CLASSES: usize = 4;

/// Images of 32 x 32 pixels of different numbers in no order.
fn images(count: usize) -> Vec<f32> {
    let number = |i: usize| (i * 7919 % 2003) as f32 / 500.0 - 2.0;
    (0..count * 3 * 32 * 32).map(number).collect()
}

/// Every fifth pixel has no class.
fn map(height: usize, width: usize) -> LabelMap {
    let label = |at: usize| match at % 5 {
        0 => IGNORED,
        _ => (at * 7 % CLASSES) as u8,
    };
    LabelMap {
        labels: (0..height * width).map(label).collect(),
        size: (height, width),
    }
}

/// The cross-entropies of all pixels with a class together, and the most likely class of each pixel.
fn judged(logits: Tensor<4>, labels: &[u8]) -> (f64, Vec<u8>) {
    let [_, classes, height, width] = logits.dims();
    let (pixels, values) = (height * width, logits.try_into_vec_as::<f32>().unwrap());
    let (mut loss, mut best) = (0.0, Vec::new());
    for (place, label) in labels.iter().enumerate() {
        let logit = |class: usize| {
            let at = (place / pixels * classes + class) * pixels + place % pixels;
            f64::from(values[at])
        };
        if *label != IGNORED {
            let sum: f64 = (0..classes).map(|class| logit(class).exp()).sum();
            loss += sum.ln() - logit(usize::from(*label));
        }
        let better = |a: usize, b: usize| if logit(b) > logit(a) { b } else { a };
        best.push((0..classes).reduce(better).unwrap() as u8);
    }
    (loss, best)
}

fn assert_near(found: f64, expected: f64, what: &str) {
    let difference = (found - expected).abs();
    assert!(
        difference <= 1e-4 * expected.abs(),
        "{what}: {found}, not {expected}"
    );
}

/// The losses of both heads are means over all pixels, that of the auxiliary one counts 0.4, and the accuracy is that of pixels with a class.
#[test]
fn a_batch_has_the_losses_and_signals_of_its_pixels() {
    let workspace = workspace();
    let plan = workspace.plan("run", &[]);
    let model = plan.model.config(Some(1)).unwrap();
    let device = Device::flex().autodiff();
    let network = UperNet::build(&plan, &model, CLASSES, &device).unwrap();
    let pixels = TensorData::new(images(2), [2, 3, 32, 32]);
    let pixels = Tensor::<4>::from_data(pixels, &device);
    let targets = vec![map(32, 32); 2];
    let labels: Vec<u8> = targets.iter().flat_map(|map| map.labels.clone()).collect();
    let batch = DeviceBatch {
        views: vec![pixels.clone()],
        targets,
        indices: vec![0, 1],
    };
    let mut task = Segment::new(&plan).unwrap();
    let phase = Phase::Train(Key::new(1));
    let loss = task.loss(&network, batch, Position::default(), phase);
    let loss = loss.unwrap().try_into_vec_as::<f64>().unwrap()[0];
    let Unread { numbers, tell } = task.signals(Position::default()).unwrap();
    let told = tell(&numbers.try_into_vec_as::<f64>().unwrap()).metrics;

    let SegmentLogits { main, auxiliary } = network.forward(pixels, phase);
    let resized = |logits: Tensor<4>| resize_bilinear(logits.inner(), [32, 32]);
    let (main, predicted) = judged(resized(main), &labels);
    let (auxiliary, _) = judged(resized(auxiliary.unwrap()), &labels);
    let all = labels.len() as f64;
    let labelled = labels.iter().filter(|label| **label != IGNORED).count() as f64;
    let pairs = predicted.iter().zip(&labels);
    let right = pairs.filter(|(class, label)| class == label).count() as f64;
    for (name, expected) in [
        ("main_loss", main / all),
        ("auxiliary_loss", auxiliary / all),
        ("pixel_accuracy", 100.0 * right / labelled),
    ] {
        assert_near(told.get(name).unwrap(), expected, name);
    }
    assert_near(loss, (main + 0.4 * auxiliary) / all, "loss");
}

/// As mmsegmentation resizes logits: to the size of the input, and then to that of the labels. The loss is the mean over pixels with a class.
#[test]
fn an_evaluation_resizes_logits_twice() {
    let workspace = workspace();
    let plan = workspace.plan("run", &[]);
    let model = plan.model.config(Some(1)).unwrap();
    let device = Device::flex();
    let network = UperNet::build(&plan, &model, CLASSES, &device).unwrap();
    let (view, target) = (View::whole(images(1), 3, (32, 32)), map(20, 30));
    let labels = target.labels.clone();
    let batch = Batch {
        views: vec![view.clone()],
        targets: vec![target],
        indices: vec![0],
    };
    let batches = std::iter::once(Ok(batch));
    let settings = (CLASSES, &plan.segment);
    let found = evaluate_segments(&network, batches, settings, &device, |_| {}).unwrap();

    let logits = network.forward(view.upload(&device), Phase::Eval).main;
    let logits = resize_bilinear(resize_bilinear(logits, [32, 32]), [20, 30]);
    let (loss, predicted) = judged(logits, &labels);
    let mut counts = SegmentCounts::new(CLASSES);
    counts.add(&predicted, &labels);
    assert_eq!((found.images, &found.counts), (1, &counts));
    assert_near(found.loss(), loss / counts.pixels() as f64, "loss");
}
