"""Golden numbers of Visformer: timm's Visformer with random weights.

Writes `crates/kvt-models/tests/golden/visformer_<case>.safetensors` (see `seeded.py`), in evaluation and in training mode, with
running statistics. Metadata `config`: the arguments of timm's Visformer, and `attention`, whose `neighbors` may be one for
each of the two stages with attention.
"""

import torch
from timm.models.visformer import Visformer

from common import DENSE, KNN, arguments, weigh
from seeded import write

# Maps of 8 x 8, 4 x 4 and 2 x 2.
BASE = dict(img_size=64, patch_size=16, in_chans=3, num_classes=10, init_channels=8, embed_dim=32, depth=[1, 1, 1], num_heads=2,
            mlp_ratio=4.0)
# Maps of 5 x 5 throughout, since the last embeddings have strides of 1.
FLAT = {**BASE, "img_size": 20, "patch_size": 8, "num_classes": 5, "init_channels": 6, "embed_dim": 16, "mlp_ratio": 2.0}
# What reaches a norm; beyond the first embedding maps are small already.
STREAMS = (r"stem\.0\.|patch_embed1\.proj\.|patch_embed[23]\.proj\.bias|patch_embed\d\.norm\.|pos_embed|attn\.proj\."
           r"|mlp\.conv3\.")

CASES = {
    "dense": ({**BASE}, DENSE),
    "knn_count": ({**FLAT}, KNN),
    "knn_fraction": ({**BASE, "depth": [1, 2, 1], "embed_dim": 16, "num_classes": 5}, {**KNN, "neighbors": 0.5}),
    "knn_stages": ({**FLAT, "depth": [2, 2, 1]}, {**KNN, "neighbors": [10, 0.3]}),
    # Maps of 6 x 6.
    "no_stem": ({**FLAT, "img_size": 24, "init_channels": None}, {**KNN, "neighbors": [None, 2]}),
    # Borders of maps that embeddings do not see: 36, 9, 4 and 2.
    "odd_size": ({**BASE, "img_size": 72, "embed_dim": 16, "num_classes": 5}, {**KNN, "neighbors": [5, 3]}),
    "in_chans_1": ({**FLAT, "in_chans": 1, "num_heads": 4}, DENSE),
    "mlp_ratio": ({**FLAT, "mlp_ratio": 2.5}, DENSE),
    "temperature": ({**FLAT}, {**KNN, "temperature": 0.5}),
    "small_activations": ({**FLAT, "small_activations": STREAMS}, DENSE),
}


def build(config):
    return Visformer(**arguments(config), group=8, attn_stage="011", spatial_conv="100", norm_layer=torch.nn.BatchNorm2d,
                     conv_init=True, embed_norm=torch.nn.BatchNorm2d)


def forward(neighbors, temperature, gaps):
    """Of timm's `Attention` in `visformer.py`, with Algorithm 1."""

    def run(self, x):
        qkv = self.qkv(x).flatten(2).unflatten(1, (3, self.num_heads, self.head_dim))
        q, k, v = qkv.permute(1, 0, 2, 4, 3)
        scores = q @ k.transpose(-2, -1) * self.scale / temperature
        mixed = weigh(scores, v, neighbors, gaps).transpose(-2, -1).flatten(1, 2)
        return self.proj(mixed.unflatten(-1, x.shape[2:]))

    return run


def patch(model, attention, gaps):
    """Gives the attention of every block of the two stages Algorithm 1."""
    neighbors = attention["neighbors"]
    counts = neighbors if isinstance(neighbors, list) else [neighbors] * 2
    for stage, count in zip((model.stage2, model.stage3), counts, strict=True):
        for block in stage:
            block.attn.fused_attn = False
            block.attn.forward = forward(count, attention["temperature"], gaps).__get__(block.attn)


if __name__ == "__main__":
    # Scores are large enough: running statistics are not those of the batch, so that norms leave more.
    write("visformer", CASES, build, patch, sharpened="^$")
