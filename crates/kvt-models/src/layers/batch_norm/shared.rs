//! Batch norms of a micro-batch that several processes share.

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use kvt_ops::{BatchNormInput, Group, rank_sum};

/// Normalises `[outer, channels, inner]` as if the images of all processes were one batch; `samples` is the
/// number of values of a channel in this process. Returns the output, and mean and unbiased variance without a graph, `[channels]`.
///
/// Takes two sums over the processes, of `channels + 1` and of `channels` numbers, and as many in the backward pass.
/// The second one is of squared differences from the common mean, so that a large mean does not cost precision.
pub(super) fn normalise(
    x: Tensor<3>,
    samples: f64,
    input: BatchNormInput,
    group: &Group,
) -> (Tensor<3>, [Tensor<1>; 2]) {
    let channels = x.dims()[1];
    let (per_channel, device) = ([1, channels, 1], x.device());
    let sum = |x: Tensor<3>| -> Tensor<1> { x.sum_dim(2).sum_dim(0).reshape([channels]) };
    let own = Tensor::<1>::full([1], samples, &device);
    let sums = rank_sum(Tensor::cat(vec![sum(x.clone()), own], 0), group);
    let all = sums.clone().narrow(0, channels, 1).detach();
    let mean = sums.narrow(0, 0, channels) / all.clone();
    let centred = x - mean.clone().reshape(per_channel);
    let squares = rank_sum(sum(centred.clone().square()), group);
    let scale = input.gamma
        * (squares.clone() / all.clone() + input.epsilon)
            .sqrt()
            .recip();
    let output = centred * scale.reshape(per_channel) + input.beta.reshape(per_channel);
    let output = match input.residual {
        Some(residual) => output + residual,
        None => output,
    };
    // One value has no unbiased variance: its biased one, 0, is kept.
    let unbiased = squares.detach() / (all - 1.0).clamp_min(1.0);
    let output = if input.relu { relu(output) } else { output };
    (output, [mean.detach(), unbiased])
}

/// The means and unbiased variances of the processes' own batches, in the order of the processes, without processes
/// that have none. `like` is any tensor of a statistic's shape.
pub(super) fn of_each(
    own: Option<[Tensor<1>; 2]>,
    like: &Tensor<1>,
    group: &Group,
) -> Vec<[Tensor<1>; 2]> {
    let like = like.clone().detach();
    let ([channels], device) = (like.dims(), like.device());
    // Mean, variance, and whether there are any. Adding zeros does not change them.
    let row = 2 * channels + 1;
    let own = own.map(|[mean, var]| {
        let one = Tensor::<1>::ones([1], &device);
        Tensor::cat(vec![mean, var, one], 0)
    });
    let rows = (0..group.size()).map(|rank| match &own {
        Some(own) if rank == group.rank() => own.clone(),
        _ => Tensor::zeros([row], &device),
    });
    let all = rank_sum(Tensor::cat(rows.collect(), 0), group);
    let rows = (0..group.size()).map(|rank| {
        let part = |from: usize, length: usize| all.clone().narrow(0, rank * row + from, length);
        let is_there = part(2 * channels, 1).into_scalar::<f32>() > 0.0;
        is_there.then(|| [part(0, channels), part(channels, channels)])
    });
    rows.flatten().collect()
}

#[cfg(test)]
mod tests;
