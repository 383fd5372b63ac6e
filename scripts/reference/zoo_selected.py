"""Attention that selects: Informer's ProbSparse, clustered and improved clustered attention, and windows with something
cheaper beyond them: low rank + band (FMMformer's formula) and Poolingformer.

Writes `crates/kvt-attention/tests/golden/zoo/{informer,clustered,clustered-improved,low-rank-band,poolingformer}*.safetensors`
in the layout of `zoo_common.py`. Besides q, k, v the files hold

  informer*      sample [N,S] int64, the keys that a query is judged by
  clustered*     planes [bits,d+1] (the last column is the offset), start [C] int64, the first members of the clusters
  low-rank-band* near [H], far [maps,H], the weights of both parts (learned)

Each mechanism is written here in a few lines. Where a choice could depend on rounding, another seed is taken: `GAP`.
"""

import math

import torch
import torch.nn.functional as F

from zoo_common import draw, write

GAP = 1e-4


def dense(q, k, v, hidden=None):
    """softmax(q k^T / sqrt(d)) v over the keys that are not `hidden`."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ v


def best(scores, kept):
    """Indices of the largest, of equal ones the lower, and that rounding does not decide."""
    order = scores.detach().sort(dim=-1, descending=True, stable=True)
    if kept < scores.shape[-1]:
        gap = order.values[..., kept - 1] - order.values[..., kept]
        assert gap.min() > GAP, f"another seed: a gap of {gap.min():.1e}"
    return order.indices[..., :kept]


def behind_prefix(function, q, prefix):
    """`function` for the queries after the prefix, whose own queries attend densely."""
    def attend(k, v):
        return torch.cat([dense(q[:, :, :prefix], k, v), function(q[:, :, prefix:], k, v)], 2)
    return attend


# Informer


def informer(chosen, prefix=0, official_mean=False):
    """Dense attention for the `chosen` queries whose best sampled score is furthest above the mean, and for the prefix;
    the mean value for the others. Zhou et al. divide the sum by the sample, their code by all keys."""

    def attend(q, k, v, sample):
        scores = (q.unsqueeze(3) * k[:, :, sample]).sum(-1)  # [b, h, n, sample]
        count = k.shape[2] if official_mean else sample.shape[1]
        ranking = scores.amax(-1) - scores.sum(-1) / count
        ranking[:, :, :prefix] = math.inf
        rows = best(ranking, chosen).unsqueeze(-1)
        attended = dense(q.gather(2, rows.expand(-1, -1, -1, q.shape[-1])), k, v)
        others = v.mean(2, keepdim=True).expand(-1, -1, q.shape[2], -1)
        return others.scatter(2, rows.expand(-1, -1, -1, v.shape[-1]), attended)

    return attend


def sampled(queries, keys, size):
    return lambda generator: {"sample": torch.randint(keys, (queries, size), generator=generator)}


# Clustered attention


def assign(q, planes, start, iterations):
    """k-means of hashes, one bit for each plane, by Hamming distance: the number of each query's cluster."""
    side = q @ planes[:, :-1].T - planes[:, -1]
    assert side.abs().min() > 1e-5, "another seed: a query is on a plane"
    bits = side > 0
    centroids = bits[:, :, start]
    for _ in range(iterations):
        members = F.one_hot(nearest(bits, centroids), len(start)).double()  # [b, h, n, C]
        ones, zeros = members.mT @ bits.double(), members.mT @ (~bits).double()
        # A cluster that lost its members keeps its centroid.
        centroids = torch.where(members.sum(2).unsqueeze(-1) > 0, ones > zeros, centroids)
    return nearest(bits, centroids)


def nearest(bits, centroids):
    distance = (bits.unsqueeze(3) != centroids.unsqueeze(2)).sum(-1)
    return distance.sort(dim=-1, stable=True).indices[..., 0]


def means(q, members):
    return members.mT @ q / members.sum(2).clamp_min(1).unsqueeze(-1)


def clustered(iterations, prefix=0):
    """Every query gets the attention of the mean of its cluster."""

    def attend(q, k, v, planes, start):
        def rest(q, k, v):
            members = F.one_hot(assign(q, planes, start, iterations), len(start)).double()
            return members @ dense(means(q, members), k, v)

        return behind_prefix(rest, q, prefix)(k, v)

    return attend


def clustered_improved(iterations, kept, prefix=0):
    """Every query gives the `kept` best keys of its cluster exact weights, scaled to what the cluster gives
    them together, and all others the weights of the cluster."""

    def attend(q, k, v, planes, start):
        def rest(q, k, v):
            groups = assign(q, planes, start, iterations)
            members = F.one_hot(groups, len(start)).double()
            scores = means(q, members) @ k.mT / math.sqrt(q.shape[-1])
            weights = scores.softmax(-1)  # [b, h, C, n]
            # Clusters without members may tie: no query has their weights.
            occupied = members.sum(2) > 0
            best(scores[occupied], kept)
            chosen = torch.zeros_like(scores).scatter(-1, scores.topk(kept).indices, 1.0)
            mass = (weights * chosen).sum(-1, keepdim=True)
            exact = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(members @ chosen == 0, -math.inf).softmax(-1)
            return (members @ mass) * (exact @ v) + members @ ((weights * (1 - chosen)) @ v)

        return behind_prefix(rest, q, prefix)(k, v)

    return attend


def hashed(bits, clusters, dim, tokens):
    return lambda generator: {
        "planes": draw(generator, bits, dim + 1),
        "start": torch.randperm(tokens, generator=generator)[:clusters],
    }


# Windows


def positions(grid, tokens):
    """Row and column of every token of a map; without a map all are in one row."""
    rows, columns = grid or (1, tokens)
    assert rows * columns == tokens
    return torch.stack([torch.arange(tokens) // columns, torch.arange(tokens) % columns], -1).double()


def far_apart(queries, keys, radius):
    """Which keys are outside of the square around a query."""
    return (queries.unsqueeze(1) - keys.unsqueeze(0)).abs().amax(-1) > radius


def band(q, k, v, radius, prefix, grid):
    """Each token sees those within the radius and the prefix, which sees all."""
    at = positions(grid, q.shape[2] - prefix)
    hidden = torch.zeros(q.shape[2], k.shape[2], dtype=torch.bool)
    hidden[prefix:, prefix:] = far_apart(at, at, radius)
    return dense(q, k, v, hidden)


def pool_matrix(grid, tokens, pool, stride):
    """[pools, tokens]: means of pool x pool tokens, of fewer at the far edges; and the centres of what is there."""
    rows, columns = grid or (1, tokens)
    matrix, centres = [], []
    for top in range(0, rows, stride):
        for left in range(0, columns, stride):
            cover = torch.zeros(rows, columns, dtype=torch.double)
            cover[top:top + pool, left:left + pool] = 1
            matrix.append(cover.flatten() / cover.sum())
            covered = cover.nonzero().double()
            centres.append((covered.amin(0) + covered.amax(0)) / 2)
    return torch.stack(matrix), torch.stack(centres)


def poolingformer(radius, pool_radius, pool, stride, prefix=0, grid=None):
    """The sum of the attention to a window and the attention to pooled tokens in a larger window."""

    def attend(q, k, v):
        tokens = q.shape[2] - prefix
        matrix, centres = pool_matrix(grid, tokens, pool, stride)
        squeeze = lambda x: torch.cat([x[:, :, :prefix], matrix @ x[:, :, prefix:]], 2)
        hidden = torch.zeros(q.shape[2], prefix + len(matrix), dtype=torch.bool)
        hidden[prefix:, prefix:] = far_apart(positions(grid, tokens), centres, pool_radius)
        return band(q, k, v, radius, prefix, grid) + dense(q, squeeze(k), squeeze(v), hidden)

    return attend


MAPS = [lambda x: F.elu(x) + 1, lambda x: F.elu(-x) + 1, lambda x: x.tanh() + 1]


def low_rank_band(radius, epsilon, prefix=0, grid=None):
    """FMMformer: a weighted sum of the attention to a window and of kernel attentions to all tokens."""

    def attend(q, k, v, near, far):
        out = near.reshape(-1, 1, 1) * band(q, k, v, radius, prefix, grid)
        for weight, phi in zip(far, MAPS):
            kernel = phi(q) @ phi(k).mT
            out = out + weight.reshape(-1, 1, 1) * (kernel @ v / (kernel.sum(-1, keepdim=True) + epsilon))
        return out

    return attend


def blend(maps, heads):
    return lambda generator: {"near": draw(generator, heads), "far": draw(generator, maps, heads)}


if __name__ == "__main__":
    write("informer", informer(8), dict(chosen=8), sampled(33, 33, 8), seed=1)
    write("informer_prefix", informer(8, prefix=2, official_mean=True), dict(chosen=8, prefix=2),
          sampled(33, 33, 8), batch=1, seed=2)
    write("informer_cross", informer(6), dict(chosen=6), sampled(33, 21, 7), keys=21, batch=1, seed=3)

    write("clustered", clustered(10), dict(iterations=10), hashed(32, 6, 8, 33), seed=4)
    write("clustered_prefix", clustered(3, prefix=1), dict(iterations=3, prefix=1), hashed(63, 5, 8, 32), keys=21,
          batch=1, seed=5)
    write("clustered-improved", clustered_improved(10, 7), dict(iterations=10, kept=7), hashed(32, 6, 8, 33), seed=6)
    write("clustered-improved_prefix", clustered_improved(3, 5, prefix=1), dict(iterations=3, kept=5, prefix=1),
          hashed(32, 5, 8, 32), keys=21, batch=1, seed=7)

    line = dict(radius=3, epsilon=1e-6)
    write("low-rank-band", low_rank_band(**line), line, learned=blend(3, 3), seed=8)
    grid = dict(radius=1, epsilon=1e-3, prefix=1)
    write("low-rank-band_map", low_rank_band(**grid, grid=(4, 8)), grid | dict(rows=4, columns=8),
          learned=blend(1, 3), batch=1, seed=9)

    line = dict(radius=2, pool_radius=8, pool=5, stride=4)
    write("poolingformer", poolingformer(**line), line, seed=10)
    grid = dict(radius=1, pool_radius=3, pool=3, stride=2, prefix=1)
    write("poolingformer_map", poolingformer(**grid, grid=(8, 8)), grid | dict(rows=8, columns=8), batch=1, heads=1,
          queries=65, keys=65, dim=32, seed=11)
