"""Golden numbers of the metrics of layers, in f64: timm's DeiT with random weights, dense and k-NN.

Writes to `crates/kvt-train/tests/golden/`:

  analysis_dense.safetensors, analysis_knn.safetensors
    weights.<timm name>, images [5,3,16,16]
    <measure> [layers], <measure>_se [layers]     mean and standard error over the 5 images

Every metric is computed directly from its definition: cosines of all pairs, `torch.std` of rows, distances of all pairs of patches.
Tensors come from hooks on timm's blocks (the stream that enters each branch, and the branch's output), attention weights from
Algorithm 1 instead of timm's softmax.
"""

import math

import torch

import common
from common import DENSE, KNN, golden, prepare, save
from deit import SMALL, build

CONFIG = {**SMALL, "img_size": 16, "patch_size": 4, "embed_dim": 12, "num_heads": 3, "depth": 3, "num_classes": 5}
CASES = {"dense": DENSE, "knn": {**KNN, "neighbors": 5}}
IMAGES = 5


def cosine(tokens):
    unit = tokens / tokens.norm(dim=-1, keepdim=True)
    n = len(tokens)
    return sum((unit[i] @ unit[j]).item() for i in range(n) for j in range(n) if i != j) / (n * (n - 1))


def deviation(weights, unbiased, kept):
    rows = weights.reshape(-1, weights.shape[-1])
    rows = [row[row > 0] if kept else row for row in rows]
    return sum(row.std(unbiased=unbiased).item() for row in rows) / len(rows)


def ratio(branch, stream):
    return (branch.norm(dim=-1) / stream.norm(dim=-1)).mean().item()


def nonlocality(weights, renormalise):
    weights = weights[:, 1:, 1:]
    if renormalise:
        weights = weights / weights.sum(-1, keepdim=True)
    side = math.isqrt(weights.shape[-1])
    total = 0.0
    for i in range(side * side):
        for j in range(side * side):
            distance = math.dist(divmod(i, side), divmod(j, side))
            total += distance * weights[:, i, j].mean().item()
    return total / (side * side)


def watch(model):
    """The streams, branches and weights of each block, filled while the model runs."""
    seen = [{} for _ in model.blocks]
    for block, values in zip(model.blocks, seen):
        block.register_forward_pre_hook(lambda _, x, v=values: v.update(input=x[0]))
        block.attn.register_forward_hook(lambda _m, _x, y, v=values: v.update(attention=y))
        block.norm2.register_forward_pre_hook(lambda _, x, v=values: v.update(middle=x[0]))
        block.mlp.register_forward_hook(lambda _m, _x, y, v=values: v.update(mlp=y))
        block.register_forward_hook(lambda _m, _x, y, v=values: v.update(output=y))
    return seen


def measures(values, image):
    values = {name: value[image] for name, value in values.items()}
    weights, patches = values["weights"], lambda name: values[name][1:]
    return {
        "cosine": cosine(values["output"]),
        "cosine_patches": cosine(patches("output")),
        "std": deviation(weights, True, False),
        "std_population": deviation(weights, False, False),
        "std_kept": deviation(weights, True, True),
        "std_kept_population": deviation(weights, False, True),
        "kept": (weights > 0).double().sum(-1).mean().item(),
        "attention_ratio": ratio(values["attention"], values["input"]),
        "attention_ratio_patches": ratio(patches("attention"), patches("input")),
        "attention_ratio_whole": (values["attention"].norm() / values["input"].norm()).item(),
        "mlp_ratio": ratio(values["mlp"], values["middle"]),
        "mlp_ratio_patches": ratio(patches("mlp"), patches("middle")),
        "mlp_ratio_whole": (values["mlp"].norm() / values["middle"].norm()).item(),
        "nonlocality": nonlocality(weights, True),
        "nonlocality_raw": nonlocality(weights, False),
    }


def main():
    for number, (name, attention) in enumerate(CASES.items()):
        seed = 40 + number
        weighed = []

        def weigh(scores, v, neighbors, gaps, ranking=None):
            if neighbors is not None:
                count = common.resolve(neighbors, scores.shape[-1])
                gaps.append(common.boundary_gap(scores, count).min().item())
                scores = common.keep_topk(scores, scores, count)
            weighed.append(scores.softmax(dim=-1))
            return weighed[-1] @ v

        common.weigh = weigh
        model, tensors, gaps = prepare(build, CONFIG, attention, seed)
        generator = torch.Generator().manual_seed(seed)
        images = torch.randn(IMAGES, 3, CONFIG["img_size"], CONFIG["img_size"], generator=generator)
        seen = watch(model)
        with torch.no_grad():
            model(images.double())
        assert min(gaps, default=1) > common.GAP
        result = {}
        for values, weights in zip(seen, weighed, strict=True):
            values["weights"] = weights
            for measure in (found := [measures(values, image) for image in range(IMAGES)])[0]:
                numbers = torch.tensor([each[measure] for each in found])
                result.setdefault(measure, []).append(numbers.mean())
                result.setdefault(f"{measure}_se", []).append(numbers.std() / IMAGES**0.5)
        print(name, {measure: [round(x.item(), 4) for x in values] for measure, values in result.items()})
        tensors = {key: value for key, value in tensors.items() if key.startswith("weights.")}
        tensors |= {"images": images} | {measure: torch.stack(values) for measure, values in result.items()}
        save(golden("kvt-train") / f"analysis_{name}.safetensors", tensors, {**CONFIG, "attention": attention}, seed)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float32)
    main()
