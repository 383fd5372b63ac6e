//! Sums over the processes that train one model together, inside the graph, as needed by a batch norm over all of them.
//!
//! Every process must request the same sums in the same order, in the forward and the backward pass. So [`with_group`]
//! surrounds both passes of a micro-batch, and no sum is computed outside of it.

mod current;

use std::fmt::Debug;
use std::sync::Arc;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{
    Autodiff, Backend, Dispatch, TensorMetadata, backend_extension, tensor::FloatTensor,
};
use burn::tensor::{Tensor, TensorData, read_sync};

pub use self::current::{current_group, with_group};
use crate::autodiff::{record, split};

/// Connects the processes that take part in a micro-batch.
pub trait Collective: Debug + Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;

    /// The number of processes.
    fn size(&self) -> usize;

    /// Replaces each number by its sum over the processes, or by NaN if a process is lost, so that the loss reveals it.
    fn sum(&self, values: &mut [f32]);
}

/// The processes of a micro-batch, and whether batch norms share statistics.
#[derive(Clone, Debug)]
pub struct Group {
    collective: Arc<dyn Collective>,
    joint: bool,
}

impl Group {
    /// With `joint`, batch norms normalise with the statistics of the images of all processes, as if they were one
    /// micro-batch. Otherwise each process normalises with its own statistics, and the running statistics are updated with
    /// those of each process in turn, as if their images had been processed one after another.
    pub fn new(collective: Arc<dyn Collective>, joint: bool) -> Self {
        Self { collective, joint }
    }

    /// Whether batch norms normalise with the statistics of all processes.
    pub fn is_joint(&self) -> bool {
        self.joint
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.collective.rank()
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.collective.size()
    }
}

/// Sums over processes on a backend.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait CollectiveOps: Backend {
    /// See [`rank_sum`]. The sum is computed on the host.
    #[fusion(default)]
    fn rank_sum(x: FloatTensor<Self>, group: Group) -> FloatTensor<Self> {
        let (device, shape, dtype) = (x.device(), x.shape(), x.dtype());
        let data = read_sync(Self::float_into_data(x));
        let values = data.map(|data| data.convert::<f32>().try_into_vec::<f32>());
        let mut values = match values {
            Ok(Ok(values)) => values,
            // The other processes wait for the sum: NaN shows them that this one failed.
            _ => vec![f32::NAN; shape.num_elements()],
        };
        group.collective.sum(&mut values);
        let data = TensorData::new(values, shape).convert_dtype(dtype);
        Self::float_from_data(data, &device)
    }
}

impl CollectiveOps for burn::backend::Flex {}
#[cfg(feature = "cube")]
impl CollectiveOps for burn_cubecl::CubeBackend {}

/// Every process uses the sum, so the gradient of each input is the sum of the output gradients of all processes.
impl<B: CollectiveOps, C: CheckpointStrategy> CollectiveOps for Autodiff<B, C> {
    fn rank_sum(x: FloatTensor<Self>, group: Group) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::rank_sum(x, group.clone());
        record::<B, C, _, _>(node, out, group, |group, grad| [B::rank_sum(grad, group)])
    }
}

/// The sum of a tensor over the processes of a group, computed in f32 and returned to each of them; differentiable.
pub fn rank_sum<const D: usize>(x: Tensor<D>, group: &Group) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::rank_sum(x.into_dispatch(), group.clone()))
}

#[cfg(test)]
mod tests;
