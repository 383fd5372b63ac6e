"""Golden numbers of the attention operation: the paper's Algorithm 1 in PyTorch.

Writes `crates/kvt-attention/tests/golden/attention_<case>.safetensors` with

  q [B,H,N,d], k [B,H,M,d], v [B,H,M,d]
  bias       optional, broadcasts to [B,H,N,M]; added after scale and temperature
  mask       optional, uint8, broadcasts to [B,H,N,M]; 1 = hidden key
  probe      [B,H,N,d]
  out        [B,H,N,d]
  grad_q, grad_k, grad_v, grad_bias   gradients of sum(out * probe)

and the metadata `config` (JSON): kind, neighbors (null for dense), scale, selection, temperature.
Inputs are f32 numbers; everything after them is computed in f64.

Tie rule of torch.topk is unspecified, so query rows whose k-th and (k+1)-th scores are closer than
1e-4 of the row's largest score are drawn again.
"""

import torch

from common import boundary_gap, golden, keep_topk, save

GAP = 1e-4

# name: (batch, heads, queries, keys, head_dim, neighbors, options)
CASES = {
    "dense": (2, 3, 17, 17, 8, None, {}),
    "knn_k5": (2, 3, 17, 17, 8, 5, {}),
    "knn_k1": (1, 2, 17, 17, 8, 1, {}),
    "knn_all_but_one": (1, 2, 17, 17, 8, 16, {}),
    "cross": (2, 2, 9, 23, 8, 7, {}),
    "cross_dense": (1, 2, 9, 23, 8, None, {}),
    "bias": (2, 2, 16, 16, 8, 6, {"bias": (1, 2, 16, 16)}),
    "bias_per_sample": (2, 2, 9, 12, 8, 5, {"bias": (2, 1, 9, 12)}),
    "mask": (2, 2, 16, 16, 8, 6, {"mask": (2, 1, 16, 16), "hidden": 0.3}),
    "mask_few_left": (2, 2, 12, 12, 8, 6, {"mask": (2, 1, 12, 12), "hidden": 0.7}),
    "mask_dense": (1, 2, 12, 12, 8, None, {"mask": (1, 1, 12, 12), "hidden": 0.4}),
    "bias_mask": (2, 2, 16, 16, 8, 6, {"bias": (1, 2, 16, 16), "mask": (2, 1, 16, 16), "hidden": 0.4}),
    "temperature_low": (1, 2, 17, 17, 8, 5, {"temperature": 0.25}),
    "temperature_high": (1, 2, 17, 17, 8, 5, {"temperature": 4.0}),
    "euclidean": (2, 2, 17, 17, 8, 6, {"selection": "euclidean"}),
    "euclidean_mask": (1, 2, 9, 14, 8, 5, {"selection": "euclidean", "mask": (1, 1, 9, 14), "hidden": 0.3}),
    "n197_k100": (1, 2, 197, 197, 16, 100, {}),
    "head_dim_7": (1, 2, 17, 17, 7, 5, {}),
}


def scores_and_ranking(q, k, bias, mask, scale, temperature, selection):
    scores = q @ k.transpose(-2, -1) * (scale / temperature)
    if bias is not None:
        scores = scores + bias
    ranking = -torch.cdist(q, k).square() if selection == "euclidean" else scores
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), float("-inf"))
        ranking = ranking.masked_fill(mask.bool(), float("-inf"))
    return scores, ranking.detach()


def attention(q, k, v, bias, mask, neighbors, scale, temperature, selection):
    scores, ranking = scores_and_ranking(q, k, bias, mask, scale, temperature, selection)
    if neighbors is not None:
        scores = keep_topk(scores, ranking, neighbors)
    return scores.softmax(dim=-1) @ v


def draw_mask(shape, hidden, generator):
    """Random, but every row keeps at least one key."""
    mask = (torch.rand(shape, generator=generator) < hidden).to(torch.uint8)
    spared = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
    return mask.scatter_(-1, spared, 0)


def write(name, case, seed):
    batch, heads, queries, keys, dim, neighbors, options = case
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(shape, generator=generator)
    q, k, v = normal(batch, heads, queries, dim), normal(batch, heads, keys, dim), normal(batch, heads, keys, dim)
    probe = normal(batch, heads, queries, dim)
    bias = normal(*options["bias"]) if "bias" in options else None
    mask = draw_mask(options["mask"], options["hidden"], generator) if "mask" in options else None
    config = {
        "kind": "dense" if neighbors is None else "knn",
        "neighbors": neighbors,
        "scale": dim**-0.5,
        "selection": options.get("selection", "dot-product"),
        "temperature": options.get("temperature", 1.0),
    }
    rule = (config["scale"], config["temperature"], config["selection"])
    wide = lambda t: None if t is None else t.double()

    while neighbors is not None:
        _, ranking = scores_and_ranking(wide(q), wide(k), wide(bias), mask, *rule)
        close = boundary_gap(ranking, neighbors) <= GAP
        if not close.any():
            break
        q[close] = normal(int(close.sum()), dim)

    leaves = {"q": wide(q), "k": wide(k), "v": wide(v), "bias": wide(bias)}
    leaves = {name: t.requires_grad_() for name, t in leaves.items() if t is not None}
    out = attention(leaves["q"], leaves["k"], leaves["v"], leaves.get("bias"), mask, neighbors, *rule)
    (out * probe.double()).sum().backward()

    tensors = {**leaves, "probe": probe, "out": out}
    tensors |= {f"grad_{name}": t.grad for name, t in leaves.items()}
    if mask is not None:
        tensors["mask"] = mask
        shown = (mask == 0).sum(-1)
        assert shown.min() >= 1
        if name == "mask_few_left":
            assert shown.min() < neighbors < shown.max()
    save(golden("kvt-attention") / f"attention_{name}.safetensors", tensors, config, seed)


if __name__ == "__main__":
    for seed, (name, case) in enumerate(CASES.items()):
        write(name, case, seed)
