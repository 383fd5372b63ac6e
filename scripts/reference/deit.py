"""Golden numbers of DeiT: timm's VisionTransformer(Distilled) with random weights.

Writes to `crates/kvt-models/tests/golden/`:

  deit_<case>.safetensors  weights.<timm name>, images [B,C,H,W], logits, probe, grad.images and
                           grad.<timm name> (gradients of sum(logits * probe)), or where these are of
                           more than 1,024 numbers grad_sketch.<timm name> [4]: their norm, and their
                           products with three vectors (`sketch` in common.py); metadata `config`
  deit_seeded.safetensors  the same, with weights, images and probe drawn as `seeded.py` says
  deit_nested.pth          {"model": state_dict, "epoch": 3}: the weights of deit_nested.safetensors
  pos_embed.safetensors    <case>.input, <case>.output of timm's resample_abs_pos_embed;
                           metadata `config`: {case: {grid, prefix_tokens}}

k-NN attention is timm's block with Algorithm 1 in place of its softmax. Every parameter is random,
also biases, norms and embeddings, so that a forgotten one shows. Inputs are f32, computation f64. A
seed is used only if no attention row has its k-th and (k+1)-th score closer than GAP (relative).
"""

from functools import partial

import torch
from timm.layers import resample_abs_pos_embed
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer

import seeded
from common import DENSE, KNN, arguments, evaluate, golden, patch_attention, save, sketched, write_cases, wrote

GOLDEN = golden("kvt-models")

TINY = dict(img_size=32, patch_size=8, in_chans=3, num_classes=10, embed_dim=48, depth=3, num_heads=3,
            mlp_ratio=4.0, qkv_bias=True, distilled=False)
SMALL = {**TINY, "img_size": 24, "embed_dim": 24, "depth": 2, "mlp_ratio": 2.0}

CASES = {
    "dense": ({**TINY}, DENSE),
    "knn_count": ({**SMALL, "img_size": 32, "depth": 3}, KNN),
    "knn_fraction": ({**SMALL, "img_size": 32}, {**KNN, "neighbors": 0.5}),
    "distilled_dense": ({**SMALL, "distilled": True}, DENSE),
    "distilled_knn": ({**SMALL, "distilled": True}, KNN),
    "no_qkv_bias": ({**SMALL, "qkv_bias": False}, KNN),
    "in_chans_1": ({**SMALL, "in_chans": 1, "num_classes": 3}, KNN),
    "patch_4": ({**SMALL, "patch_size": 4}, {**KNN, "neighbors": 0.3}),
    "mlp_ratio": ({**SMALL, "mlp_ratio": 2.5}, DENSE),
    "temperature": ({**SMALL}, {**KNN, "temperature": 0.5}),
    "nested": ({**SMALL, "embed_dim": 12, "num_heads": 2, "num_classes": 4}, DENSE),
    "small_activations": ({**SMALL, "img_size": 16, "embed_dim": 12, "depth": 1, "num_heads": 2,
                           "small_activations": True}, DENSE),
}

# Gradients that are stored, and gradients that are sketched.
SEEDED = {"seeded": ({**SMALL, "depth": 1}, KNN)}


def build(config):
    own = {name: value for name, value in arguments(config).items() if name != "distilled"}
    family = VisionTransformerDistilled if config["distilled"] else VisionTransformer
    # timm's deit_* entry points pass nothing else that matters; eps is DeiT's own.
    return family(**own, norm_layer=partial(torch.nn.LayerNorm, eps=1e-6))


def run(config, attention, seed):
    tensors, gap = evaluate(build, config, attention, seed)
    return sketched(tensors), gap


def models():
    for name, tensors in write_cases("deit", CASES, run):
        if name == "nested":
            state = {n.removeprefix("weights."): t for n, t in tensors.items() if n.startswith("weights.")}
            path = GOLDEN / "deit_nested.pth"
            torch.save({"model": state, "epoch": 3}, path)
            wrote(path)


def position_embeddings(seed=7):
    generator = torch.Generator().manual_seed(seed)
    cases = {  # name: (tokens, dim, new grid, prefix tokens)
        "up_4_to_7": (17, 24, (7, 7), 1),
        "down_7_to_4": (51, 8, (4, 4), 2),
        "up_7_to_10": (51, 8, (10, 10), 2),
        "up_14_to_24": (197, 4, (24, 24), 1),
        "down_7_to_3": (50, 8, (3, 3), 1),
        "rectangle_4_to_3x6": (17, 8, (3, 6), 1),
    }
    tensors, config = {}, {}
    for name, (tokens, dim, grid, prefix) in cases.items():
        value = torch.randn(1, tokens, dim, generator=generator)
        tensors[f"{name}.input"] = value
        tensors[f"{name}.output"] = resample_abs_pos_embed(value, list(grid), num_prefix_tokens=prefix)
        config[name] = {"grid": list(grid), "prefix_tokens": prefix}
    save(GOLDEN / "pos_embed.safetensors", tensors, config, seed)


def patch(model, attention, gaps):
    patch_attention(model, attention["neighbors"], attention["temperature"], gaps)


if __name__ == "__main__":
    seeded.write("deit", SEEDED, build, patch)
    models()
    position_embeddings()
