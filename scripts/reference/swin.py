"""Golden numbers of Swin: timm's SwinTransformer with random weights.

Writes to `crates/kvt-models/tests/golden/`:

  swin_<case>.safetensors  weights.<timm name>, images [B,C,H,W], logits, probe, grad.images and
                           grad.<timm name> (gradients of sum(logits * probe)); metadata `config`:
                           timm's arguments and `attention`, whose `neighbors` may be one per stage
  rel_bias.safetensors     <case>.input [(2w-1)^2, heads], <case>.output of timm's
                           resize_rel_pos_bias_table; metadata `config`: {case: {window}}, the new one

k-NN attention chooses among scores that have the relative position bias and the shift mask already.
Temperature divides neither. Otherwise as in `deit.py`. timm pads maps that are no multiple of the
window, after the roll, with tokens that are keys like any others; the official code refuses them.
"""

import warnings

import torch
from timm.layers import resize_rel_pos_bias_table
from timm.models.swin_transformer import SwinTransformer

from common import DENSE, KNN, arguments, evaluate, golden, save, write_cases

# Maps of 8x8, then 4x4: four windows, then one, which is not shifted.
SMALL = dict(img_size=16, patch_size=2, in_chans=3, num_classes=5, embed_dim=8, depths=[2, 1],
             num_heads=[2, 4], window_size=4, mlp_ratio=2.0, qkv_bias=True)
# Two stages of several windows, and a third of one.
DEEP = {**SMALL, "img_size": 24, "embed_dim": 6, "depths": [2, 2, 1], "num_heads": [1, 2, 4],
        "window_size": 3}
# Maps of 10x10, 5x5 and 3x3: odd ones are padded to be merged, and all but the last for the windows.
PADDED = {**SMALL, "img_size": 20, "embed_dim": 6, "depths": [2, 2, 1], "num_heads": [1, 2, 2],
          "mlp_ratio": 1.0}
# Maps of 4x4, in four windows, and of 2x2.
TINY = {**SMALL, "img_size": 8, "embed_dim": 4, "num_heads": [1, 2], "window_size": 2, "mlp_ratio": 1.0}

CASES = {
    "dense": ({**DEEP}, DENSE),
    "knn_count": ({**SMALL}, KNN),
    "knn_fraction": ({**SMALL}, {**KNN, "neighbors": 0.5}),
    "knn_stages": ({**DEEP, "mlp_ratio": 1.0}, {**KNN, "neighbors": [6, 0.25, 5]}),
    "knn_few_left": ({**SMALL}, {**KNN, "neighbors": 12}),  # a corner window leaves some queries four keys
    "padding": ({**PADDED}, DENSE),
    "padding_knn": ({**PADDED}, KNN),
    "padding_window_3": ({**PADDED, "window_size": 3}, {**KNN, "neighbors": 4}),
    "one_window": ({**SMALL, "window_size": 8}, KNN),  # as large as the map, then larger
    "in_chans_1": ({**SMALL, "in_chans": 1}, KNN),
    "mlp_ratio": ({**SMALL, "mlp_ratio": 2.5}, DENSE),
    "no_qkv_bias": ({**SMALL, "qkv_bias": False}, KNN),
    "temperature": ({**SMALL}, {**KNN, "temperature": 0.5}),
    "small_activations": ({**TINY, "small_activations": True}, DENSE),
    "large_scores": ({**TINY, "large_scores": True}, DENSE),  # a mask of -20 would hide nothing
}


def build(config):
    # swin_tiny_patch4_window7_224 passes nothing else; every LayerNorm has eps 1e-5.
    return SwinTransformer(**arguments(config), drop_path_rate=0.0)


def run(config, attention, seed):
    return evaluate(build, config, attention, seed)


def relative_position_biases(seed=7):
    generator = torch.Generator().manual_seed(seed)
    tensors, config = {}, {}
    for old, new in ((7, 12), (7, 4), (4, 7)):
        value = torch.randn((2 * old - 1) ** 2, 3, generator=generator)
        shape = ((2 * new - 1) ** 2, 3)
        with warnings.catch_warnings():  # of its indexing
            warnings.simplefilter("ignore")
            resized = resize_rel_pos_bias_table(value, (new, new), shape)
        name = f"{old}_to_{new}"
        tensors |= {f"{name}.input": value, f"{name}.output": resized}
        config[name] = {"window": new}
    save(golden("kvt-models") / "rel_bias.safetensors", tensors, config, seed)


if __name__ == "__main__":
    for _ in write_cases("swin", CASES, run):
        pass
    relative_position_biases()
