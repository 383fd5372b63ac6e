//! The numbers of a batch and of an image, computed again.

use kvt_ops::Key;

use super::run::workspace;
use super::*;
use crate::data::{Batch, View};
use crate::world::Alone;

const CLASSES: usize = 4;

/// Different numbers in no order.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| (i * 7919 % 2003) as f32 / 500.0 - 2.0;
    (0..count).map(number).collect()
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

/// The losses of both heads are means over all pixels, that of the auxiliary one counts 0.4, and the accuracy is that of pixels with a
/// class.
#[test]
fn a_batch_has_the_losses_and_signals_of_its_pixels() {
    let workspace = workspace();
    let plan = workspace.plan("run", &[]);
    let model = plan.model.config(Some(1)).unwrap();
    let device = Device::flex().autodiff();
    let network = UperNet::build(&plan, &model, CLASSES, &device).unwrap();
    let pixels = TensorData::new(numbers(6 * 32 * 32), [2, 3, 32, 32]);
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
    let unread = task.signals(Position::default()).unwrap();
    let told = unread.numbers.try_into_vec_as::<f64>().unwrap();
    let told = (unread.tell)(&told).metrics;

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

/// Evaluates a plan's network on an image of (height, width) with labels of 20 x 30, and compares that with logits of the image's size:
/// these are resized again, as by mmsegmentation, and the loss is the mean over pixels with a class.
fn assert_evaluated(
    set: &[&str],
    size @ (height, width): (usize, usize),
    logits: impl FnOnce(&UperNet, Tensor<4>) -> Tensor<4>,
) {
    let plan = workspace().plan("run", set);
    let model = plan.model.config(Some(1)).unwrap();
    let device = Device::flex();
    let network = UperNet::build(&plan, &model, CLASSES, &device).unwrap();
    let view = View::whole(numbers(3 * height * width), 3, size);
    let target = map(20, 30);
    let labels = target.labels.clone();
    let batch = Batch {
        views: vec![view.clone()],
        targets: vec![target],
        indices: vec![0],
    };
    let batches = Ok(std::iter::once(Ok(batch)));
    let settings = (CLASSES, &plan.segment);
    let found = evaluate_segments(&network, batches, settings, &device, &Alone, |_| {}).unwrap();

    let logits = logits(&network, view.upload(&device));
    assert_eq!(logits.dims(), [1, CLASSES, height, width]);
    let (loss, predicted) = judged(resize_bilinear(logits, [20, 30]), &labels);
    let mut counts = SegmentCounts::new(CLASSES);
    counts.add(&predicted, &labels);
    assert_eq!((found.images, &found.counts), (1, &counts));
    assert_near(found.loss, loss / counts.pixels() as f64, "loss");
}

#[test]
fn an_evaluation_resizes_logits_twice() {
    assert_evaluated(&[], (32, 32), |network, image| {
        resize_bilinear(network.forward(image, Phase::Eval).main, [32, 32])
    });
}

/// Six windows of 16 x 32 pixels in an image of 32 x 48, which overlap: a pixel is in one, two or four of them.
#[test]
fn windows_give_the_mean_of_their_logits() {
    let set = [
        "segment.eval=slide",
        "segment.eval_crop=[16, 32]",
        "segment.eval_stride=[8, 16]",
    ];
    assert_evaluated(&set, (32, 48), |network, image| {
        let mut sums = vec![0f32; CLASSES * 32 * 48];
        let mut counts = vec![0f32; 32 * 48];
        for (top, left) in [
            (0_usize, 0_usize),
            (0, 16),
            (8, 0),
            (8, 16),
            (16, 0),
            (16, 16),
        ] {
            let window = [0..1, 0..3, top..top + 16, left..left + 32];
            let logits = network.forward(image.clone().slice(window), Phase::Eval);
            let logits = resize_bilinear(logits.main, [16, 32]);
            let logits = logits.try_into_vec_as::<f32>().unwrap();
            for (at, logit) in logits.into_iter().enumerate() {
                let (class, row, column) = (at / 512, top + at % 512 / 32, left + at % 32);
                sums[(class * 32 + row) * 48 + column] += logit;
                counts[row * 48 + column] += if class == 0 { 1.0 } else { 0.0 };
            }
        }
        let means = sums.iter().enumerate();
        let means = means.map(|(at, sum)| sum / counts[at % (32 * 48)]);
        let means = TensorData::new(means.collect::<Vec<f32>>(), [1, CLASSES, 32, 48]);
        Tensor::from_data(means, &image.device())
    });
}
