"""Golden numbers of TNT: timm's TNT with random weights.

Writes `crates/kvt-models/tests/golden/tnt_<case>.safetensors` (see `seeded.py`). Metadata `config`: the arguments of timm's
TNT, and `attention`, whose `neighbors` may be one for the inner and one for the outer transformers.
"""

from timm.models.tnt import TNT

from common import DENSE, KNN, arguments, weigh
from seeded import write

# 16 patches of 16 pixels.
BASE = dict(img_size=32, patch_size=8, in_chans=3, num_classes=10, embed_dim=48, inner_dim=12, depth=2, num_heads_inner=2,
            num_heads_outer=3, mlp_ratio=4.0, qkv_bias=False, first_stride=2, legacy=False)
# 9 patches of 4 pixels.
SMALL = {**BASE, "img_size": 24, "num_classes": 5, "embed_dim": 24, "inner_dim": 6, "mlp_ratio": 2.0, "first_stride": 4}
# What reaches a norm.
STREAMS = (r"pixel_embed\.proj\.|pixel_pos|patch_pos|cls_token|attn_(in|out)\.proj\.|mlp(_in)?\.fc2\.|(^|\d\.)proj\."
           r"|norm2_proj\.")

CASES = {
    "dense": ({**BASE}, DENSE),
    "knn_count": ({**SMALL, "first_stride": 2}, KNN),
    "knn_fraction": ({**SMALL}, {**KNN, "neighbors": 0.5}),
    "knn_stages": ({**SMALL, "first_stride": 3}, {**KNN, "neighbors": [3, 0.7]}),
    "knn_outer": ({**SMALL}, {**KNN, "neighbors": [None, 4]}),
    "qkv_bias": ({**SMALL, "qkv_bias": True}, {**KNN, "neighbors": 3}),
    "in_chans_1": ({**SMALL, "in_chans": 1}, DENSE),
    "mlp_ratio": ({**SMALL, "mlp_ratio": 2.5, "num_heads_inner": 3}, DENSE),
    # A patch that the stride does not divide.
    "odd_size": ({**SMALL, "img_size": 35, "patch_size": 7, "first_stride": 3}, {**KNN, "neighbors": [5, 9]}),
    "legacy": ({**SMALL, "legacy": True, "first_stride": 2}, DENSE),
    "legacy_knn": ({**SMALL, "legacy": True, "qkv_bias": True}, {**KNN, "neighbors": [2, 6]}),
    "temperature": ({**SMALL}, {**KNN, "neighbors": [2, 6], "temperature": 0.5}),
    "small_activations": ({**SMALL, "depth": 1, "small_activations": STREAMS}, DENSE),
}


def build(config):
    return TNT(**arguments(config))


def forward(neighbors, temperature, gaps):
    """Of timm's `Attention` in `tnt.py`, with Algorithm 1."""

    def run(self, x):
        q, k = self.qk(x).unflatten(-1, (2, self.num_heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        v = self.v(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) * self.scale / temperature
        return self.proj(weigh(scores, v, neighbors, gaps).transpose(1, 2).flatten(2))

    return run


def patch(model, attention, gaps):
    """Gives the inner and the outer attention of every block Algorithm 1."""
    neighbors = attention["neighbors"]
    inner, outer = neighbors if isinstance(neighbors, list) else [neighbors] * 2
    for block in model.blocks:
        for layer, count in ((block.attn_in, inner), (block.attn_out, outer)):
            layer.forward = forward(count, attention["temperature"], gaps).__get__(layer)


if __name__ == "__main__":
    write("tnt", CASES, build, patch)
