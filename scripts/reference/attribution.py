"""Golden numbers of Transformer Attribution, computed by its authors' code in f64. Takes a checkout of
https://github.com/hila-chefer/Transformer-Explainability: its code is run, never copied (it needs `einops`).

Writes to `crates/kvt-train/tests/golden/`:

  attribution_dense.safetensors, attribution_knn.safetensors
    weights.<timm name>, images [2,3,16,16]
    logits [2,5], class [2]                          the class of the first image is its largest logit, of the second the smallest
    patches [2,16]                                   the attribution: the row of the class token, without itself
    relevance, gradient [2,layers,heads,tokens,tokens]   of the attention weights of each block

Two things differ from a plain use of their code: the last norm has timm's epsilon 1e-6 (theirs has PyTorch's 1e-5), and k-NN attention
is Algorithm 1 instead of the softmax; relevance passes through it unchanged, as through theirs. A seed is accepted only if f32
agrees to 1e-4 of the largest number, so that no divisor of the rules is near 0.
"""

import itertools
import sys

import torch

from common import GAP, boundary_gap, golden, keep_topk, randomize, save

CONFIG = dict(img_size=16, patch_size=4, in_chans=3, num_classes=5, embed_dim=12, depth=3, num_heads=3, mlp_ratio=2.0,
              qkv_bias=True)
CASES = {"dense": None, "knn": 5}


class KnnSoftmax(torch.nn.Module):
    """Algorithm 1, with the authors' rule for a softmax."""

    def __init__(self, count, gaps):
        super().__init__()
        self.count, self.gaps = count, gaps

    def forward(self, scores):
        self.gaps.append(boundary_gap(scores, self.count).min().item())
        return keep_topk(scores, scores, self.count).softmax(-1)

    def relprop(self, relevance, **_):
        return relevance


def build(transformer, state, neighbors, gaps):
    model = transformer(**CONFIG)
    model.norm.eps = 1e-6
    if state is not None:
        model.load_state_dict(state)
    if neighbors is not None:
        for block in model.blocks:
            block.attn.softmax = KnnSoftmax(neighbors, gaps)
    return model.eval()


def explain(model, image, pick):
    """As `LRP.generate_LRP` of the authors."""
    output = model(image[None])
    number = getattr(output, pick)(-1).item()
    one_hot = torch.zeros_like(output)
    one_hot[0, number] = 1
    model.zero_grad()
    (one_hot * output).sum().backward(retain_graph=True)
    patches = model.relprop(one_hot, method="transformer_attribution", alpha=1)
    attention = [block.attn for block in model.blocks]
    return {
        "logits": output[0], "class": torch.tensor(number), "patches": patches[0],
        "relevance": torch.stack([each.get_attn_cam()[0] for each in attention]),
        "gradient": torch.stack([each.get_attn_gradients()[0] for each in attention]),
    }


def run(model, images):
    found = [explain(model, image, pick) for image, pick in zip(images, ("argmax", "argmin"))]
    return {name: torch.stack([each[name].detach() for each in found]) for name in found[0]}


def main(checkout):
    sys.path.insert(0, checkout)
    from baselines.ViT.ViT_LRP import VisionTransformer

    for number, (name, neighbors) in enumerate(CASES.items()):
        for seed in itertools.count(1000 * number):
            generator = torch.Generator().manual_seed(seed)
            gaps = []
            model = build(VisionTransformer, None, neighbors, gaps)
            randomize(model, generator)
            state = {key: value.clone() for key, value in model.state_dict().items()}
            images = torch.randn(2, 3, CONFIG["img_size"], CONFIG["img_size"], generator=generator)
            rough = run(model, images)
            exact = run(build(VisionTransformer, state, neighbors, gaps).double(), images.double())
            off = max(((rough[key] - value).abs().max() / value.abs().max()).item()
                      for key, value in exact.items() if key != "class")
            if off < 1e-4 and min(gaps, default=1) > GAP:
                break
        print(name, seed, off, {key: list(value.shape) for key, value in exact.items()}, exact["patches"][0])
        tensors = {f"weights.{key}": value for key, value in state.items()} | {"images": images} | exact
        save(golden("kvt-train") / f"attribution_{name}.safetensors", tensors, {**CONFIG, "neighbors": neighbors}, seed)


if __name__ == "__main__":
    main(sys.argv[1])
