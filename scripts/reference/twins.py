"""Golden numbers of Twins-SVT: timm's Twins with random weights.

Writes `crates/kvt-models/tests/golden/twins_<case>.safetensors` as `seeded.py` says. Metadata `config`: img_size,
in_chans, num_classes, per stage the strides, embed_dims, num_heads, depths, wss and sr_ratios of timm, one mlp_ratio,
qkv_bias, and `attention`, whose `neighbors` may be one per stage.

timm's first stride is free (`patch_size`) and the others are 2: of another one the stage's embedding is made here.
Without `qkv_bias`, as the authors' code allows, the biases of timm's projections are taken away.

Where a map does not divide, timm pads it and keeps the padding among the keys. So does dense attention here. Where a
query keeps fewer keys than there are, the padding is hidden before the selection, unlike in timm.
"""

import torch
import torch.nn.functional as F
from timm.models.twins import LocallyGroupedAttn, PatchEmbed, Twins

import seeded
from common import DENSE, KNN, resolve, weigh

# Maps of 8x8 in four windows, and of 4x4 in one: 16 keys everywhere.
SMALL = dict(img_size=16, in_chans=3, num_classes=5, strides=[2, 2], embed_dims=[8, 12], num_heads=[2, 3],
             depths=[2, 2], wss=[4, 4], sr_ratios=[2, 1], mlp_ratio=2.0, qkv_bias=True)
# Maps of 16x16, 8x8, 4x4 and 2x2. The second stage has more keys of the whole map than of a window, the third fewer.
DEEP = {**SMALL, "img_size": 64, "strides": [4, 2, 2, 2], "embed_dims": [4, 6, 6, 8], "num_heads": [1, 2, 3, 4],
        "depths": [2, 3, 2, 1], "wss": [4, 2, 4, 2], "sr_ratios": [4, 2, 2, 1]}
# Maps of 10x10 and 5x5: padded to windows, and with a rest that no key comes from.
PADDED = {**SMALL, "img_size": 20, "sr_ratios": [4, 2], "mlp_ratio": 1.0}
# Maps of 6x6 and 2x2.
TINY = {**SMALL, "img_size": 12, "strides": [2, 3], "embed_dims": [4, 6], "num_heads": [1, 2], "depths": [2, 1],
        "wss": [3, 2], "sr_ratios": [3, 1], "mlp_ratio": 1.0}
# The weights that write to the input of a norm.
RESIDUAL = r"patch_embeds\.\d\.(proj|norm)\.|attn\.(proj|sr)\.|mlp\.fc2\.|pos_block\."

CASES = {
    "dense": ({**DEEP}, DENSE),
    "knn_count": ({**SMALL}, KNN),
    "knn_fraction": ({**SMALL, "sr_ratios": [4, 1]}, {**KNN, "neighbors": 0.5}),  # of 16 keys and of 4
    "knn_stages": ({**DEEP}, {**KNN, "neighbors": [6, 0.25, 3, 2]}),
    "padding": ({**PADDED}, DENSE),
    "padding_knn": ({**PADDED}, KNN),  # a corner leaves four tokens, the other map one
    "padding_all": ({**PADDED}, {**KNN, "neighbors": 16}),  # as many as there are: dense
    "large_window": ({**SMALL, "wss": [9, 7]}, {**KNN, "neighbors": 20}),  # larger than the map
    "strides": ({**TINY}, KNN),
    "in_chans_1": ({**SMALL, "in_chans": 1}, KNN),
    "mlp_ratio": ({**SMALL, "mlp_ratio": 2.5}, DENSE),
    "no_qkv_bias": ({**SMALL, "qkv_bias": False}, KNN),
    "temperature": ({**SMALL}, {**KNN, "temperature": 0.5}),
    "small_activations": ({**TINY, "small_activations": RESIDUAL}, DENSE),
}


def build(config):
    strides, dims, stages = config["strides"], config["embed_dims"], len(config["depths"])
    model = Twins(
        img_size=strides[0] * 2 ** (stages - 1), patch_size=strides[0], in_chans=config["in_chans"],
        num_classes=config["num_classes"], embed_dims=dims, num_heads=config["num_heads"],
        mlp_ratios=[config["mlp_ratio"]] * stages, depths=config["depths"], sr_ratios=config["sr_ratios"],
        wss=config["wss"])
    for stage in range(1, stages):
        if strides[stage] != 2:
            side = strides[stage]
            model.patch_embeds[stage] = PatchEmbed(side, side, dims[stage - 1], dims[stage])
    if not config["qkv_bias"]:
        for blocks in model.blocks:
            for attention in (block.attn for block in blocks):
                for name in ("qkv", "q", "kv"):
                    if hasattr(attention, name):
                        getattr(attention, name).register_parameter("bias", None)
    return model


def local_forward(neighbors, temperature, gaps):
    def forward(self, x, size):
        (batch, tokens, dim), (rows, columns), side = x.shape, size, self.ws
        pad = [0, -columns % side, 0, -rows % side]
        cut = lambda t: (F.pad(t, [0, 0, *pad]).unflatten(2, (-1, side)).unflatten(1, (-1, side))
                         .transpose(2, 3).flatten(3, 4).flatten(1, 2))
        # [batch, windows, area, channels]
        split = lambda t: t.unflatten(-1, (3, self.num_heads, -1)).permute(3, 0, 1, 4, 2, 5)
        q, k, v = split(self.qkv(cut(x.reshape(batch, rows, columns, dim))))
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        if neighbors is not None and resolve(neighbors, side * side) < side * side:
            real = cut(torch.ones(1, rows, columns, 1))[..., 0]  # [1, windows, area]
            scores = scores.masked_fill(real[:, :, None, None, :] == 0, float("-inf"))
        x = weigh(scores, v, neighbors, gaps).transpose(2, 3).flatten(3)
        down, right = (rows + pad[3]) // side, (columns + pad[1]) // side
        x = x.reshape(batch, down, right, side, side, dim).transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return self.proj(x[:, :rows, :columns].reshape(batch, tokens, dim))

    return forward


def global_forward(neighbors, temperature, gaps):
    def forward(self, x, size):
        split = lambda t, parts: t.unflatten(-1, (parts, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        (q,) = split(self.q(x), 1)
        if self.sr is not None:
            x = self.norm(self.sr(x.transpose(1, 2).unflatten(2, size)).flatten(2).transpose(1, 2))
        k, v = split(self.kv(x), 2)
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        return self.proj(weigh(scores, v, neighbors, gaps).transpose(1, 2).flatten(2))

    return forward


def patch(model, attention, gaps):
    neighbors = attention["neighbors"]
    counts = neighbors if isinstance(neighbors, list) else [neighbors] * len(model.blocks)
    for blocks, count in zip(model.blocks, counts, strict=True):
        for own in (block.attn for block in blocks):
            forward = local_forward if isinstance(own, LocallyGroupedAttn) else global_forward
            own.forward = forward(count, attention["temperature"], gaps).__get__(own)


if __name__ == "__main__":
    seeded.write("twins", CASES, build, patch)
