//! The rows of a tensor in another order, with rows of zeros between them: windows that are cut from a map, and put together again.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::{Shape, Tensor, TensorData};

use crate::autodiff::{record, split};

mod cpu;

/// An order of rows: every row of the input has at most one place in the output.
#[derive(Clone, Debug)]
pub struct RowOrder {
    /// For each row of the output, the row of the input; `None` is a row of zeros.
    sources: Arc<[Option<u32>]>,
    /// For each row of the input, the row of the output.
    places: Arc<[Option<u32>]>,
}

impl RowOrder {
    /// From the source of each row of the output, among `rows` rows.
    ///
    /// # Panics
    /// If a source is not below `rows`, or is there twice.
    pub fn new(sources: impl IntoIterator<Item = Option<usize>>, rows: usize) -> Self {
        let mut places = vec![None; rows];
        let sources = sources.into_iter().zip(0..).map(|(source, place)| {
            let source = source?;
            assert!(places[source].is_none(), "row {source} has two places");
            places[source] = Some(place);
            Some(source as u32)
        });
        Self {
            sources: sources.collect(),
            places: places.into(),
        }
    }

    /// The order that puts every row back: rows without a place become zeros.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            sources: self.places.clone(),
            places: self.sources.clone(),
        }
    }
}

/// Orders of rows on a backend.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Capture: cfg(feature = "export"), Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait RowOps: Backend {
    /// The rows of x `[batch, rows, dim]` in an order.
    #[fusion(default)]
    fn reordered(x: FloatTensor<Self>, order: RowOrder) -> FloatTensor<Self> {
        selected::<Self>(x, &order)
    }
}

#[cfg(feature = "cube")]
impl RowOps for burn_cubecl::CubeBackend {}

impl<B: RowOps, C: CheckpointStrategy> RowOps for Autodiff<B, C> {
    fn reordered(x: FloatTensor<Self>, order: RowOrder) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::reordered(x, order.clone());
        record::<B, C, _, _>(node, out, order, |order, grad| {
            [B::reordered(grad, order.reversed())]
        })
    }
}

/// [`RowOps::reordered`] composed of Burn's operations: where rows of zeros are, one follows the others.
fn selected<B: Backend>(x: FloatTensor<B>, order: &RowOrder) -> FloatTensor<B> {
    let [batch, rows, dim] = x.shape().dims();
    let device = x.device();
    let x = if order.sources.contains(&None) {
        // An operation, not data: an export takes any batch.
        let zeros = B::float_zeros(Shape::new([batch, 1, dim]), &device, x.dtype().into());
        B::float_cat(vec![x, zeros], 1)
    } else {
        x
    };
    let sources = order.sources.iter();
    let sources: Vec<i32> = sources
        .map(|source| source.map_or(rows as i32, |source| source as i32))
        .collect();
    let count = sources.len();
    let sources = B::int_from_data(TensorData::new(sources, [count]), &device);
    B::float_select(x, 1, sources)
}

/// The rows of a tensor in an order, on any device.
///
/// # Shapes
/// `[batch, rows, dim]` to `[batch, places, dim]`.
///
/// # Panics
/// If the order is one of another number of rows.
pub fn reorder_rows(x: Tensor<3>, order: RowOrder) -> Tensor<3> {
    let [_, rows, _] = x.dims();
    let of = order.places.len();
    assert!(
        rows == of,
        "reorder_rows: an order of {of} rows, not of {rows}"
    );
    Tensor::from_dispatch(Dispatch::reordered(x.into_dispatch(), order))
}
