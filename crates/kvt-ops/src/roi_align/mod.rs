//! RoIAlign, the contents of boxes of any size as maps of one size, forward and backward.
//!
//! Burn has no such operation. Here the CPU has a kernel of its own. Elsewhere it is two matrix products, one per axis, and its
//! gradient the products with the transposed matrices; CUDA may round their factors to TF32, as in all of Burn's products.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension, tensor::FloatTensor};
use burn::tensor::{DType, Tensor};

use crate::autodiff::{record, split};
use crate::convert::in_type;

mod cpu;
mod products;
mod weights;

use weights::{Bin, bins as bins_of};

/// A box on one image of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// The image's number.
    pub image: usize,
    /// `x1`, `y1`, `x2`, `y2` in pixels of the network's input, measured from the upper left corner of the image.
    pub corners: [f32; 4],
}

/// The bins of a region.
#[derive(Debug)]
struct Bins {
    image: usize,
    /// Rows and columns.
    axes: [Vec<Bin>; 2],
}

/// The bins of all regions of a batch of maps.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Images.
    batch: usize,
    /// Height and width of a map.
    size: [usize; 2],
    /// Rows and columns of bins in a region.
    bins: usize,
    regions: Vec<Bins>,
}

impl Plan {
    fn new(
        [batch, _, height, width]: [usize; 4],
        regions: &[Region],
        bins: usize,
        scale: f32,
    ) -> Self {
        let bins_of_region = |region: &Region| {
            let [x1, y1, x2, y2] = region.corners;
            let rows = bins_of([y1, y2], bins, height, scale);
            let columns = bins_of([x1, x2], bins, width, scale);
            Bins {
                image: region.image,
                axes: [rows, columns],
            }
        };
        Self {
            batch,
            size: [height, width],
            bins,
            regions: regions.iter().map(bins_of_region).collect(),
        }
    }
}

/// RoIAlign on a backend, of non-empty maps `[batch, channels, height, width]` in f32.
/// The default implementations are composed of Burn's operations.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait RoiAlignOps: Backend {
    /// The bins of each region, `[regions, channels, bins, bins]`.
    #[fusion(default)]
    fn roi_aligned(maps: FloatTensor<Self>, plan: Arc<Plan>) -> FloatTensor<Self> {
        products::forward::<Self>(&maps, &plan)
    }

    /// The gradient of the maps, from that of the bins.
    #[fusion(default)]
    fn roi_aligned_backward(grad: FloatTensor<Self>, plan: Arc<Plan>) -> FloatTensor<Self> {
        products::backward::<Self>(&grad, &plan)
    }
}

#[cfg(feature = "cube")]
impl RoiAlignOps for burn_cubecl::CubeBackend {}

impl<B: RoiAlignOps, C: CheckpointStrategy> RoiAlignOps for Autodiff<B, C> {
    fn roi_aligned(maps: FloatTensor<Self>, plan: Arc<Plan>) -> FloatTensor<Self> {
        let (node, [maps]) = split([maps]);
        let out = B::roi_aligned(maps, plan.clone());
        record::<B, C, _, _>(node, out, plan, |plan, grad| {
            [B::roi_aligned_backward(grad, plan)]
        })
    }
}

/// The contents of regions, as maps of `bins` rows and columns of bins, on any device: torchvision's `roi_align(maps, regions, bins,
/// scale, sampling_ratio=-1, aligned=True)`. A pixel of the network's input is `scale` pixels of the maps.
///
/// A bin is the mean of the map at points in it, interpolated bilinearly, about one for each pixel. Points more than a pixel outside
/// of the map count 0. A region without an area is 0, and so is one whose sides are not finite numbers. Without regions, the output
/// has no elements, and the maps get a gradient of zeros.
///
/// The regions get no gradient. All types are computed in f32. On other devices than the CPU, regions of one image should follow each
/// other: the products for some are separate for each change of the image. There a NaN of a map also reaches regions and bins of its
/// image that do not contain it, since its weight in them is 0, and not left out.
///
/// # Shapes
/// `[batch, channels, height, width]` to `[regions, channels, bins, bins]`.
///
/// # Panics
/// If the maps are empty, `bins` is 0, `scale` is not positive, or a region's image is not in the batch.
pub fn roi_align(maps: Tensor<4>, regions: &[Region], bins: usize, scale: f32) -> Tensor<4> {
    let dims = maps.dims();
    assert!(
        !dims.contains(&0) && bins > 0 && scale > 0.0,
        "roi_align: maps of shape {dims:?} cannot be pooled to {bins} bins at a scale of {scale}"
    );
    let [batch, ..] = dims;
    assert!(
        regions.iter().all(|region| region.image < batch),
        "roi_align: a region is on an image that is not among the {batch} of the batch"
    );
    let plan = Arc::new(Plan::new(dims, regions, bins, scale));
    let dtype = maps.dtype();
    let out = Dispatch::roi_aligned(in_type(maps, DType::F32).into_dispatch(), plan);
    in_type(Tensor::from_dispatch(out), dtype)
}
