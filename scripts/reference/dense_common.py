"""What the scripts of pyramids share: drawing weights by the names of a dialect, Algorithm 1 over padded maps, results.

A case is `(config, names, padding, attention)`. Weights, images and probes are drawn as in `seeded.py`, so a file holds results:

  maps.<HxW>.<stage>        the four normed maps of the image `images.<HxW>`, or
  map_sketch.<HxW>.<stage>  their `sketch`, of maps of more than STORED numbers
  grad.<name>, grad_sketch.<name>
                            gradients of the sum over the stages of sum(map * probe.<HxW>.<stage>) for the first size,
                            by mmsegmentation's names (Swin) or the authors' (Twins), and of `images`

The metadata `config` has what the classifiers' files have, and `names` and `padding`: `seen` if windows attend to padding,
`hidden` if not.
"""

import itertools

import mm
import seeded
import torch
from common import boundary_gap, golden, keep_topk, resolve, save, sketch

GAP = 1e-5
STORED = 2200
LARGE = 64
HIDDEN = float("-inf")


def key(size):
    return "x".join(str(side) for side in size)


def laws(shapes, dims, sizes):
    """name -> [shape, center, spread] of weights, images and probes. `shapes`: name -> tensor."""
    tensors = {f"weights.{name}": [list(value.shape), *seeded.law(name, value, seeded.SHARPENED)]
               for name, value in shapes.items()}
    for height, width in sizes:
        tensors[f"images.{key((height, width))}"] = [[1, 3, height, width], 0.0, seeded.WIDTH]
    height, width = (-(-side // 4) for side in sizes[0])
    for stage, dim in enumerate(dims):
        tensors[f"probe.{key(sizes[0])}.{stage}"] = [[1, dim, height, width], 0.0, seeded.WIDTH]
        height, width = -(-height // 2), -(-width // 2)
    exact = lambda x: float(torch.tensor(x, dtype=torch.float32))
    return {name: [shape, exact(center), exact(spread)] for name, (shape, center, spread) in sorted(tensors.items())}


def weigh(scores, v, neighbors, gaps, ranking):
    """softmax(scores) @ v over the best `neighbors` of each row, by the indices of `topk`.

    `ranking`: the scores, -inf where another choice would change nothing: behind a mask, and in rows of padding.
    """
    if neighbors is not None:
        count = resolve(neighbors, scores.shape[-1])
        if gaps is not None:
            gaps.append(boundary_gap(ranking, count).min().item())
        scores = keep_topk(scores, scores, count)
    return scores.softmax(-1) @ v


def results(model, drawn, sizes, differentiate, rename):
    """What a file holds. `rename(gradients)` gives the gradients the names of the file."""
    found = {}
    for place, size in enumerate(sizes):
        images = drawn[f"images.{key(size)}"].double().requires_grad_()
        maps = model(images)
        for stage, value in enumerate(maps):
            small = value.numel() <= STORED
            name = f"{'maps' if small else 'map_sketch'}.{key(size)}.{stage}"
            found[name] = value if small else sketch(value.detach())
        if place == 0 and differentiate:
            model.zero_grad()
            sum((value * drawn[f"probe.{key(size)}.{stage}"].double()).sum()
                for stage, value in enumerate(maps)).backward()
            grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            grads = rename(grads) | {"images": images.grad}
            for name, grad in grads.items():
                if grad.abs().max() > 1e-9:
                    large = grad.numel() > LARGE
                    found[f"{'grad_sketch' if large else 'grad'}.{name}"] = sketch(grad) if large else grad
    return found


def maps_of(model, images):
    with torch.no_grad():
        return model(images.double())


def write(family, cases, make, own, more=lambda config: {}):
    """Writes `<family>_<case>.safetensors`, with the first seed that leaves no choice of a key open.

    `cases`: name -> (config, sizes, shapes, dims, differentiate, patch, rename): `shapes` are those of the weights,
    `patch(model, gaps)` gives the model the attention of the case. `make(weights, config)`: the original model of f64 in
    evaluation mode. `own`: the kind of padding that it has, where dense attention must not change it at the first size.
    `more(config)`: tensors that are stored, too.
    """
    for number, (name, case) in enumerate(cases.items()):
        config, sizes, shapes, dims, differentiate, patch, rename = case
        rules = laws(shapes, dims, sizes)
        for seed in itertools.count(1000 * number):
            drawn, metadata = seeded.draw(rules, seed)
            weights = {n.removeprefix("weights."): t for n, t in drawn.items() if n.startswith("weights.")}
            model, gaps = make(weights, config), []
            first = drawn[f"images.{key(sizes[0])}"]
            originals = maps_of(model, first)
            patch(model, gaps)
            if (config["padding"], config["attention"]["kind"]) == (own, "dense"):
                torch.testing.assert_close(maps_of(model, first), originals, rtol=1e-10, atol=1e-10)
                gaps.clear()
            found = results(model, drawn, sizes, differentiate, rename)
            if min(gaps, default=1.0) > GAP:
                break
        found |= more(config)
        path = golden("kvt-models") / "dense" / f"{family}_{name}.safetensors"
        save(path, found, config, seed, seeded=metadata, mm=mm.VERSIONS)
