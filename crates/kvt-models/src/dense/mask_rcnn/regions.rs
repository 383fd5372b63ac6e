//! The contents of regions, each read from the level of the pyramid that fits its size.

use burn::tensor::Tensor;
use kvt_ops::{Region, roi_align};

use super::anchors::FINEST_STRIDE;
use super::layers::places;
use crate::dense::boxes::level;

/// The levels that regions are read from, the finest first; the last level of the pyramid is for proposals alone.
const LEVELS: usize = 4;

/// The contents of regions as maps of `bins` rows and columns, in the order of the regions, of which there is at least one.
///
/// # Shapes
///
/// Levels `[batch, channels, height, width]`, the finest first, to `[regions, channels, bins, bins]`.
///
/// # Panics
///
/// If a region's image is not in the batch.
pub(super) fn align(levels: &[Tensor<4>], regions: &[Region], bins: usize) -> Tensor<4> {
    let (mut order, mut parts) = (Vec::with_capacity(regions.len()), Vec::new());
    for (number, map) in levels.iter().take(LEVELS).enumerate() {
        let is_here = |region: &Region| level(&region.corners, LEVELS) == number;
        let here = regions.iter().enumerate();
        let here = here.filter(|(_, region)| is_here(region));
        let (here, of_level): (Vec<usize>, Vec<Region>) =
            here.map(|(place, region)| (place, *region)).unzip();
        if !here.is_empty() {
            let scale = 1.0 / (FINEST_STRIDE << number) as f32;
            parts.push(roi_align(map.clone(), &of_level, bins, scale));
            order.extend(here);
        }
    }
    let aligned = Tensor::cat(parts, 0);
    if order.is_sorted() {
        return aligned;
    }
    // Where each region is among those that were read level by level.
    let mut back = vec![0; order.len()];
    for (place, region) in order.iter().enumerate() {
        back[*region] = place;
    }
    let back = places(&back, &aligned.device());
    aligned.select(0, back)
}
