//! Sums over the processes that train one model together, inside the graph: what a batch norm over all of them needs.
//!
//! Every process must ask for the same sums in the same order, forwards and backwards. So [`with_group`] surrounds the
//! forward and the backward pass of a micro-batch, and no sum is taken outside of it.

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

/// What connects the processes that take part in a micro-batch.
pub trait Collective: Debug + Send + Sync {
    /// The number of this process, from 0.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Replaces each number by its sum over the processes: NaN in all places if one of them is lost, so that the loss
    /// tells.
    fn sum(&self, values: &mut [f32]);
}

/// The processes of a micro-batch, and what their batch norms do.
#[derive(Clone, Debug)]
pub struct Group {
    collective: Arc<dyn Collective>,
    joint: bool,
}

impl Group {
    /// With `joint`, batch norms normalise by the statistics of all processes' images, as if they were one micro-batch.
    /// Without it each process normalises by its own, and the running statistics take in those of each process in turn, as
    /// if its images had come one after another.
    pub fn new(collective: Arc<dyn Collective>, joint: bool) -> Self {
        Self { collective, joint }
    }

    /// Whether batch norms normalise by the statistics of all processes.
    pub fn is_joint(&self) -> bool {
        self.joint
    }

    /// The number of this process, from 0.
    pub fn rank(&self) -> usize {
        self.collective.rank()
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.collective.size()
    }
}

/// Sums over processes on a backend.
#[backend_extension(Cube: cfg(feature = "cube"), Flex, Autodiff, Fusion: cfg(feature = "cube"))]
pub(crate) trait CollectiveOps: Backend {
    /// See [`rank_sum`]. By way of the host.
    #[fusion(default)]
    fn rank_sum(x: FloatTensor<Self>, group: Group) -> FloatTensor<Self> {
        let (device, shape, dtype) = (x.device(), x.shape(), x.dtype());
        let data = read_sync(Self::float_into_data(x));
        let values = data.map(|data| data.convert::<f32>().try_into_vec::<f32>());
        let mut values = match values {
            Ok(Ok(values)) => values,
            // The others wait for the sum: they get to know by it.
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

/// Each process has the sum, so each of its gradients is the sum of what all of them made of it.
impl<B: CollectiveOps, C: CheckpointStrategy> CollectiveOps for Autodiff<B, C> {
    fn rank_sum(x: FloatTensor<Self>, group: Group) -> FloatTensor<Self> {
        let (node, [x]) = split([x]);
        let out = B::rank_sum(x, group.clone());
        record::<B, C, _, _>(node, out, group, |group, grad| [B::rank_sum(grad, group)])
    }
}

/// The sum of a tensor over the processes of a group, in f32, in each of them; differentiable.
pub fn rank_sum<const D: usize>(x: Tensor<D>, group: &Group) -> Tensor<D> {
    Tensor::from_dispatch(Dispatch::rank_sum(x.into_dispatch(), group.clone()))
}

#[cfg(test)]
mod tests;
