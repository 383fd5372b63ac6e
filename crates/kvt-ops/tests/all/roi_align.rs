//! RoIAlign beside its golden numbers: threads, NaN, images without regions, types and refusals.

use burn::tensor::{DType, Device};
use kvt_ops::{Region, roi_align};
use kvt_testing::devices::{tensor, values};
use rayon::ThreadPoolBuilder;

/// Different numbers in no order.
fn numbers(count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| (i * 7919 % 2003) as f32 / 1000.0 - 1.0)
        .collect()
}

/// Overlapping regions of images in turn, some across the border.
fn regions(count: usize, images: usize) -> Vec<Region> {
    let region = |number: usize| {
        let [x, y] = [5, 7].map(|step| (number * step % 13) as f32 * 1.5 - 3.0);
        let corners = [x, y, x + 2.0 + (number % 9) as f32, y + 5.5];
        Region {
            image: number % images,
            corners,
        }
    };
    (0..count).map(region).collect()
}

/// Output and gradient of maps `[images, 3, 16, 20]`.
fn run(images: usize, regions: &[Region], device: &Device) -> [Vec<f32>; 2] {
    let shape = [images, 3, 16, 20];
    let maps = tensor(&numbers(images * 960), shape, device).require_grad();
    let out = roi_align(maps.clone(), regions, 3, 1.0);
    let probe = tensor(&numbers(regions.len() * 27), out.dims(), device);
    let grads = (out.clone() * probe).sum().backward();
    [values(out), values(maps.grad(&grads).unwrap())]
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let device = Device::flex().autodiff();
    let results = [1, 5].map(|threads| {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| run(3, &regions(50, 3), &device))
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn an_image_without_regions_gets_a_gradient_of_zeros() {
    let [_, grad] = run(3, &regions(4, 2), &Device::flex().autodiff());
    let of_images: Vec<_> = grad.chunks_exact(960).collect();
    assert!(
        of_images[..2]
            .iter()
            .all(|grad| grad.iter().any(|x| *x != 0.0))
    );
    assert_eq!(of_images[2], [0.0; 960]);
}

#[test]
fn no_regions_have_no_output_and_a_gradient_of_zeros() {
    let [out, grad] = run(2, &[], &Device::flex().autodiff());
    assert!(out.is_empty());
    assert_eq!(grad, [0.0; 1920]);
}

#[test]
fn a_nan_is_not_hidden() {
    let mut pixels = numbers(64);
    pixels[9] = f32::NAN;
    let maps = tensor(&pixels, [1, 1, 8, 8], &Device::flex());
    let corners = [[0.0, 0.0, 4.0, 4.0], [4.0, 4.0, 8.0, 8.0]];
    let regions = corners.map(|corners| Region { image: 0, corners });
    let out = values(roi_align(maps, &regions, 2, 1.0));
    let is_nan: Vec<_> = out.iter().map(|x| x.is_nan()).collect();
    // The first of four bins of the first region.
    let expected: Vec<_> = (0..8).map(|bin| bin == 0).collect();
    assert_eq!(is_nan, expected);
}

/// The type stays, and the pooling is in f32: rounded once.
#[test]
fn half_types_are_pooled_in_f32() {
    let maps = tensor(&numbers(1920), [2, 3, 16, 20], &Device::flex()).cast(DType::BF16);
    let regions = regions(6, 2);
    let expected = roi_align(maps.clone().cast(DType::F32), &regions, 3, 0.5).cast(DType::BF16);
    let out = roi_align(maps, &regions, 3, 0.5);
    assert_eq!(out.dtype(), DType::BF16);
    assert_eq!(values(out), values(expected));
}

#[test]
#[should_panic(expected = "not among the 2 of the batch")]
fn a_region_of_another_batch_is_refused() {
    run(2, &regions(3, 3), &Device::flex().autodiff());
}

#[test]
#[should_panic(expected = "cannot be pooled to 0 bins")]
fn no_bins_are_refused() {
    let maps = tensor(&[0.0; 4], [1, 1, 2, 2], &Device::flex());
    roi_align(maps, &[], 0, 1.0);
}
