"""Golden numbers of Swin's pyramid: mmsegmentation's SwinTransformer, whose windows are those of the dense authors.

Writes `crates/kvt-models/tests/golden/dense/swin_<case>.safetensors` as `dense_common.py` says. Weights are drawn by the
names of `config.names`, with the prefix `backbone.`:

  mm        mmsegmentation's
  official  those of the authors' networks for segmentation and detection; one of their tables of indices is stored
  ours      timm's, and norm0 .. norm3

mmsegmentation merges patches by `unfold`: what the others order by (place, channel) it orders by (channel, place).

k-NN attention chooses after the position bias and the shift mask, by the indices of `topk`. The padding of a map is a key like
any other, `seen`, or `hidden` from all queries.
"""

import re

import mm
import torch
from common import DENSE, KNN
from dense_common import HIDDEN, weigh, write

SWIN = dict(img_size=224, patch_size=4, in_chans=3, num_classes=5, embed_dim=8, depths=[2, 2, 2, 1],
            num_heads=[1, 2, 2, 4], window_size=7, mlp_ratio=2.0, qkv_bias=True)
SMALL, PADDED, SQUARE, WHOLE = (64, 96), (52, 77), (128, 128), (224, 224)
SHARE, COUNT = {**KNN, "neighbors": 0.8}, {**KNN, "neighbors": 5}
CASES = {
    "dense_seen": ("mm", "seen", DENSE, [PADDED, SMALL, SQUARE, WHOLE]),
    "dense_hidden": ("mm", "hidden", DENSE, [PADDED, SMALL, SQUARE]),
    "dense_official": ("official", "seen", DENSE, [PADDED]),
    "dense_ours": ("ours", "seen", DENSE, [PADDED]),
    "knn_share_seen": ("mm", "seen", SHARE, [PADDED, SMALL, SQUARE]),
    "knn_share_hidden": ("mm", "hidden", SHARE, [PADDED, SMALL, SQUARE]),
    "knn_count_seen": ("mm", "seen", COUNT, [PADDED, SMALL, SQUARE]),
    "knn_count_hidden": ("mm", "hidden", COUNT, [PADDED, SMALL, SQUARE]),
}
# Places of a patch of 2x2: mmsegmentation goes along the rows, the others along the columns.
PLACES = [0, 2, 1, 3]


def mm_name(name, names):
    """mmsegmentation's name of a weight."""
    stage = re.match(r"layers\.(\d+)\.downsample\.", name)
    if stage and names == "ours":
        name = name.replace(stage[0], f"layers.{int(stage[1]) - 1}.downsample.")
    for theirs, mms in (("patch_embed.proj.", "patch_embed.projection."), ("layers.", "stages."),
                        (".attn.", ".attn.w_msa."), (".mlp.fc1.", ".ffn.layers.0.0."), (".mlp.fc2.", ".ffn.layers.1.")):
        name = name.replace(theirs, mms, 1)
    return name


def name_of(mms, names):
    """The name of one of mmsegmentation's weights in a dialect."""
    if names == "mm":
        return mms
    name = mms
    for mm_part, theirs in ((".ffn.layers.0.0.", ".mlp.fc1."), (".ffn.layers.1.", ".mlp.fc2."),
                            ("patch_embed.projection.", "patch_embed.proj."), ("stages.", "layers."), (".w_msa.", ".")):
        name = name.replace(mm_part, theirs, 1)
    stage = re.match(r"layers\.(\d+)\.downsample\.", name)
    if stage and names == "ours":
        name = name.replace(stage[0], f"layers.{int(stage[1]) + 1}.downsample.")
    if mm_name(name, names) != mms:
        raise ValueError(f"{mms} -> {name} -> {mm_name(name, names)}")
    return name


def unfolded(value):
    """The last axis by (channel, place) instead of (place, channel)."""
    return value.unflatten(-1, (4, -1))[..., PLACES, :].transpose(-1, -2).flatten(-2)


def to_mm(weights, names):
    """mmsegmentation's state of the weights of a dialect."""
    if names == "mm":
        return dict(weights)
    state = {}
    for name, value in weights.items():
        merges = "downsample.reduction.weight" in name or "downsample.norm." in name
        state[mm_name(name, names)] = unfolded(value) if merges else value
    return state


def windows_of(shifted, size):
    """Which tokens of the windows are not padding, [windows, tokens]."""
    height, width = size
    side = shifted.window_size
    real = torch.zeros(1, height + -height % side, width + -width % side, 1, dtype=torch.bool)
    real[:, :height, :width] = True
    real = real.roll((-shifted.shift_size, -shifted.shift_size), (1, 2))
    return shifted.window_partition(real).flatten(1)


def attend(shifted, neighbors, hidden, gaps):
    inner, real = shifted.w_msa, []

    def outer(query, hw_shape):
        real[:] = [windows_of(shifted, hw_shape)]
        return type(shifted).forward(shifted, query, hw_shape)

    def forward(x, mask=None):
        windows, tokens, dim = x.shape
        q, k, v = inner.qkv(x).reshape(windows, tokens, 3, inner.num_heads, -1).permute(2, 0, 3, 1, 4)
        bias = inner.relative_position_bias_table[inner.relative_position_index.flatten()]
        scores = q @ k.transpose(-2, -1) * inner.scale + bias.unflatten(0, (tokens, tokens)).permute(2, 0, 1)
        images = windows // len(real[0])
        token = real[0].repeat(images, 1)[:, None]  # [windows, 1, tokens]
        ranking = scores
        if mask is not None:  # 0 or -100, [windows of an image, tokens, tokens]
            mask = mask.repeat(images, 1, 1).unsqueeze(1)
            scores, ranking = scores + mask, scores.masked_fill(mask != 0, HIDDEN)
        ranking = ranking.masked_fill(~token[..., None], HIDDEN)
        if hidden:
            scores, ranking = (t.masked_fill(~token[:, :, None], HIDDEN) for t in (scores, ranking))
        x = weigh(scores, v, neighbors, gaps, ranking)
        return inner.proj(x.transpose(1, 2).reshape(windows, tokens, dim))

    shifted.forward, inner.forward = outer, forward


def patch(model, neighbors, hidden=False, gaps=None):
    """Gives every block of a Swin Algorithm 1 and a kind of padding."""
    for stage in model.stages:
        for block in stage.blocks:
            attend(block.attn, neighbors, hidden, gaps)


def make(weights, config):
    """The model in f64."""
    model = mm.swin(config).double()
    model.eval()
    state = to_mm({name.removeprefix("backbone."): value.double() for name, value in weights.items()}, config["names"])
    state |= {name: value for name, value in model.state_dict().items() if name.endswith("relative_position_index")}
    model.load_state_dict(state)
    return model


def table(config):
    """What the authors' files hold besides weights."""
    if config["names"] != "official":
        return {}
    index = mm.swin(config).state_dict()["stages.0.blocks.0.attn.w_msa.relative_position_index"]
    return {"weights.backbone.layers.0.blocks.0.attn.relative_position_index": index}


def case(names, padding, attention, sizes):
    config = {**SWIN, "names": names, "padding": padding, "attention": attention}
    dims = [SWIN["embed_dim"] * 2**stage for stage in range(4)]
    state = {name: value for name, value in mm.swin(config).state_dict().items() if value.is_floating_point()}
    shapes = {f"backbone.{name_of(name, names)}": value for name, value in state.items()}
    rename = lambda grads: {f"backbone.{name}": grad for name, grad in grads.items()}
    give = lambda model, gaps: patch(model, attention["neighbors"], padding == "hidden", gaps)
    return config, sizes, shapes, dims, names == "mm", give, rename


if __name__ == "__main__":
    write("swin", {name: case(*settings) for name, settings in CASES.items()}, make, own="seen", more=table)
