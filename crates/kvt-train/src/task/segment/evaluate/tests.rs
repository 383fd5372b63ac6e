#![expect(clippy::unwrap_used, reason = "tests")]

use kvt_ops::{PixelAverage, pixel_cross_entropy};

use super::*;

#[test]
fn windows_reach_the_end_and_stay_inside() {
    let all = |length, window, stride| starts(length, window, stride).collect::<Vec<_>>();
    assert_eq!(all(10, 4, 3), [0, 3, 6]);
    assert_eq!(all(11, 4, 3), [0, 3, 6, 7]);
    assert_eq!(all(4, 4, 3), [0]);
    // A smaller image is one smaller window.
    assert_eq!(all(3, 4, 3), [0]);
}

/// Classes one after the other give the prediction and the loss of all at once; of equal logits, the first class is predicted.
#[test]
fn classes_can_be_looked_at_in_parts() {
    let device = Device::flex();
    let (classes, pixels) = (7, 12);
    let values: Vec<f32> = (0..classes * pixels)
        .map(|i| ((i * 37 % 23) as f32 / 4.0).floor())
        .collect();
    let logits = Tensor::<4>::from_data(TensorData::new(values.clone(), [1, 7, 3, 4]), &device);
    let labels: Vec<i32> = (0..pixels).map(|i| [0, 6, 3, 255][i % 4]).collect();
    let data = TensorData::new(labels.clone(), [1, 1, 3, 4]);
    let labels = Tensor::<4, Int>::from_data(data, &device);
    let whole = Seen::of(logits.clone(), 0, Some(&labels));
    let part =
        |first, count| Seen::of(logits.clone().narrow(1, first, count), first, Some(&labels));
    let parts = part(0, 3).and(part(3, 2)).and(part(5, 2));

    let class = |seen: &Seen| seen.class.clone().try_into_vec_as::<u8>().unwrap();
    let largest = |pixel: usize| {
        let logit = |class: usize| values[class * pixels + pixel];
        let better = |a: usize, b: usize| if logit(b) > logit(a) { b } else { a };
        (0..classes).reduce(better).unwrap() as u8
    };
    let expected: Vec<u8> = (0..pixels).map(largest).collect();
    assert_eq!(class(&whole), expected);
    assert_eq!(class(&parts), expected);

    let ignored = labels.clone().equal_elem(255);
    let loss = |seen: Seen| {
        let losses = seen.largest + seen.sum.log() - seen.own;
        let sum = losses.mask_fill(ignored.clone(), 0.0).sum();
        sum.into_scalar::<f32>()
    };
    let labels = labels.squeeze_dim::<3>(1);
    let mean = pixel_cross_entropy(logits, labels, 255, PixelAverage::Valid);
    let expected = mean.into_scalar::<f32>() * 9.0;
    for found in [loss(whole), loss(parts)] {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
}
