"""Golden numbers of attention over fewer keys than there are tokens.

    linformer           learned sums of keys and of values (arXiv 2006.04768)
    inducing, luna      a summary that learned points read, and that the tokens read (1810.00825, 2106.01540)
    nystrom             landmarks on both sides of an iterative inverse (2102.03902); with a ridge of 1 CSALR
    memory-compressed   strided convolutions of keys and of values (1801.10198)

`zoo_common.py` says what a file holds. The mechanisms are written from the formulas of the papers, one function each.
"""

import torch
import torch.nn.functional as F

from zoo_common import draw, write

HEADS = 3
DIM = 8


def weights(q, k, temperature=1.0):
    """softmax(q k^T / sqrt(d) / temperature), [B,H,N,M]."""
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 / temperature).softmax(-1)


def split(x, heads):
    """[B,N,H*d] to [B,H,N,d]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    """[B,H,N,d] to [B,N,H*d]."""
    return x.transpose(1, 2).flatten(2)


def linformer(q, k, v, proj_k, proj_v=None, temperature=1.0):
    """proj [M,rank]; all heads share them, and without proj_v the values have those of the keys."""
    proj_v = proj_k if proj_v is None else proj_v
    short_k = torch.einsum("bhnd,nr->bhrd", k, proj_k)
    short_v = torch.einsum("bhnd,nr->bhrd", v, proj_v)
    return weights(q, short_k, temperature) @ short_v


def induced(q, k, v, points, kv_weight, kv_bias, temperature=1.0):
    """points [1,P,H*d] attend to the tokens, the tokens to what the points made of them. kv_weight [H*d,2*H*d] makes
    its keys and values; [H*d,H*d] one that is both."""
    heads = q.shape[1]
    summary = merge(weights(split(points, heads), k, temperature) @ v)
    made = (summary @ kv_weight + kv_bias).split(summary.shape[-1], -1)
    return weights(q, split(made[0], heads), temperature) @ split(made[-1], heads)


def segments(x, count):
    """Means of `count` consecutive segments; their lengths differ by one at most, the shorter come first."""
    length, longer = divmod(x.shape[2], count)
    sizes = [length] * (count - longer) + [length + 1] * longer
    return torch.stack([part.mean(2) for part in x.split(sizes, 2)], 2)


def landmarks(x, count, prefix):
    """A token of the prefix is its own landmark."""
    return torch.cat([x[:, :, :prefix], segments(x[:, :, prefix:], count - prefix)], 2)


def inverse(a, iterations):
    """The start A^T / (|A|_1 |A|_inf) is one for each matrix."""
    norms = a.sum(-2).amax(-1) * a.sum(-1).amax(-1)
    z = a.transpose(-1, -2) / norms[..., None, None]
    eye = torch.eye(a.shape[-1], dtype=a.dtype)
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az))) / 4
    return z


def nystrom(q, k, v, conv_weight=None, count=8, iterations=6, ridge=0.0, prefix=0, temperature=1.0):
    """conv_weight [H,1,kernel,1]: convolves the values of a head over the tokens."""
    q_mean, k_mean = landmarks(q, count, prefix), landmarks(k, count, prefix)
    middle = weights(q_mean, k_mean, temperature) + ridge * torch.eye(count, dtype=q.dtype)
    out = weights(q, k_mean, temperature) @ inverse(middle, iterations) @ weights(q_mean, k, temperature) @ v
    if conv_weight is None:
        return out
    return out + F.conv2d(v, conv_weight, padding=(conv_weight.shape[2] // 2, 0), groups=v.shape[1])


def memory_compressed(q, k, v, weight_k, bias_k, weight_v=None, bias_v=None, prefix=0, temperature=1.0):
    """weight [H,ratio,d,d] (tap, input, output), bias [H,d]: a convolution with stride `ratio` for each head, zeros after
    the last token. The prefix is not compressed. Without weight_v the values have what the keys have."""

    def compress(x, weight, bias):
        heads, ratio, dim, _ = weight.shape
        start, x = x[:, :, :prefix], x[:, :, prefix:]
        x = F.pad(x, (0, 0, 0, -x.shape[2] % ratio)).transpose(2, 3).flatten(1, 2)
        kernel = weight.permute(0, 3, 2, 1).flatten(0, 1)
        short = F.conv1d(x, kernel, bias.flatten(), stride=ratio, groups=heads)
        return torch.cat([start, short.unflatten(1, (heads, dim)).transpose(2, 3)], 2)

    short_k = compress(k, weight_k, bias_k)
    short_v = compress(v, weight_k, bias_k) if weight_v is None else compress(v, weight_v, bias_v)
    return weights(q, short_k, temperature) @ short_v


def case(name, mechanism, settings=None, learned=None, renamed=None, **sizes):
    """`settings`: those in the file; `renamed`: those that `mechanism` takes under its own names."""
    function = lambda q, k, v, **weights: mechanism(q, k, v, **weights, **(renamed or {}))
    write(name, function, settings=settings, learned=learned, **sizes)


def main():
    # Powers of two: all numbers stay f32.
    projections = lambda rank, keys, names: lambda g: {name: draw(g, keys, rank) / 4 for name in names}
    case("linformer", linformer, {"rank": 11}, projections(11, 33, ["proj_k", "proj_v"]))
    case("linformer_shared", linformer, {"rank": 6, "temperature": 2.0}, projections(6, 21, ["proj_k"]),
         {"temperature": 2.0}, keys=21, seed=1)

    width = HEADS * DIM

    def summary(points, outputs):
        return lambda g: {"points": draw(g, 1, points, width), "kv_weight": draw(g, width, outputs) / 4,
                          "kv_bias": draw(g, outputs) / 4}

    case("inducing", induced, {"points": 5}, summary(5, 2 * width), seed=2)
    case("luna", induced, {"points": 6, "temperature": 2.0}, summary(6, width), {"temperature": 2.0}, keys=21, seed=3)

    case("nystrom", nystrom, {"landmarks": 8, "iterations": 6}, seed=4)
    case("nystrom_cross", nystrom, {"landmarks": 5, "iterations": 4, "temperature": 2.0},
         renamed={"count": 5, "iterations": 4, "temperature": 2.0}, keys=21, seed=5)
    case("nystrom_conv", nystrom, {"landmarks": 9, "iterations": 6, "prefix": 1},
         lambda g: {"conv_weight": draw(g, HEADS, 1, 5, 1) / 2}, {"count": 9, "prefix": 1}, seed=6)
    case("nystrom_ridge", nystrom, {"landmarks": 12, "iterations": 6, "ridge": 1.0},
         renamed={"count": 12, "ridge": 1.0}, batch=1, heads=1, queries=65, keys=65, dim=32, seed=7)

    def kernels(ratio, names):
        return lambda g: {f"{part}_{name}": draw(g, HEADS, *shape) / 4
                          for name in names for part, shape in (("weight", (ratio, DIM, DIM)), ("bias", (DIM,)))}

    case("memory-compressed", memory_compressed, {"ratio": 3, "prefix": 1}, kernels(3, "kv"), {"prefix": 1}, seed=8)
    case("memory-compressed_shared", memory_compressed, {"ratio": 4, "temperature": 2.0}, kernels(4, "k"),
         {"temperature": 2.0}, keys=21, seed=9)


if __name__ == "__main__":
    main()
