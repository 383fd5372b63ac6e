"""Golden numbers of Twins-SVT's pyramid: mmsegmentation's SVT.

Writes `crates/kvt-models/tests/golden/dense/twins_<case>.safetensors` as `dense_common.py` says. Weights are drawn by the
authors' names with the prefix `backbone.`, among them a classifier's `norm` and `head`, which nothing reads.

The norm of a stage is in the stream, as in the authors' network for segmentation: the next stage embeds the normed map.
The epsilons are the authors': 1e-5 after the convolutions of embeddings and of keys, else 1e-6.

`hidden`: windows do not attend to padding. mmsegmentation (and the authors) mean to hide it, but hide nothing where a map is padded
on one side only, as at 128x224: there the numbers here differ from theirs. k-NN attention is only computed with hidden
padding, since padding keys tie. The global attention has no padding.
"""

import mm
import torch
import torch.nn.functional as F
from common import DENSE, KNN
from dense_common import HIDDEN, weigh, write
from mmseg.models.backbones.twins import LocallyGroupedSelfAttention

TWINS = dict(img_size=224, in_chans=3, num_classes=5, strides=[4, 2, 2, 2], embed_dims=[8, 16, 24, 32],
             num_heads=[1, 2, 2, 4], depths=[2, 2, 2, 2], wss=[7, 7, 7, 7], sr_ratios=[8, 4, 2, 1], mlp_ratio=2.0,
             qkv_bias=True)
SMALL, ONE_SIDE, WHOLE = (64, 96), (128, 224), (224, 224)
CASES = {
    "dense_hidden": ("hidden", DENSE, [SMALL, ONE_SIDE, WHOLE]),
    "dense_seen": ("seen", DENSE, [SMALL, ONE_SIDE]),
    "knn_share_hidden": ("hidden", {**KNN, "neighbors": 0.8}, [SMALL, ONE_SIDE]),
    "knn_count_hidden": ("hidden", {**KNN, "neighbors": 5}, [SMALL, ONE_SIDE]),
}
# Beginnings and parts of names: mmsegmentation's and the authors'.
RENAMES = [(".projection.", ".proj."), ("layers.", "blocks.", 1), (".ffn.layers.0.0.", ".mlp.fc1."),
           (".ffn.layers.1.", ".mlp.fc2."), (".attn.attn.out_proj.", ".attn.proj.")]


def name_of(mms):
    """The authors' name of one of mmsegmentation's weights; of a joint one that of the keys and values."""
    name = mms
    if name.startswith("position_encodings."):
        return name.replace("position_encodings.", "pos_block.").replace(".proj.", ".proj.0.")
    for part, theirs, *count in RENAMES:
        if part == "layers." and not name.startswith(part):
            continue
        name = name.replace(part, theirs, *count)
    return name.replace(".attn.attn.in_proj_", ".attn.kv.")


def split(state):
    """The authors' state of one of mmsegmentation's, or of its gradients."""
    found = {}
    for mms, value in state.items():
        name = name_of(mms)
        if "in_proj_" in mms:
            width = len(value) // 3
            found |= {name.replace(".kv.", ".q."): value[:width], name: value[width:]}
        else:
            found[name] = value
    return found


def join(weights, model):
    """mmsegmentation's state of the authors' weights."""
    state = {}
    for mms in model.state_dict():
        name = name_of(mms)
        value = weights[name]
        state[mms] = torch.cat([weights[name.replace(".kv.", ".q.")], value]) if "in_proj_" in mms else value
    return state


def local_forward(own, neighbors, hidden, gaps):
    def forward(x, hw_shape):
        (batch, tokens, dim), (rows, columns), side = x.shape, hw_shape, own.window_size
        pad = [0, -columns % side, 0, -rows % side]
        cut = lambda t: (F.pad(t, [0, 0, *pad]).unflatten(2, (-1, side)).unflatten(1, (-1, side))
                         .transpose(2, 3).flatten(3, 4).flatten(1, 2))
        # [batch, windows, area, channels]
        parts = own.qkv(cut(x.reshape(batch, rows, columns, dim)))
        q, k, v = parts.unflatten(-1, (3, own.num_heads, -1)).permute(3, 0, 1, 4, 2, 5)
        real = cut(torch.ones(1, rows, columns, 1))[..., 0] > 0  # [1, windows, area]
        scores = q @ k.transpose(-2, -1) * own.scale
        if hidden:
            scores = scores.masked_fill(~real[:, :, None, None], HIDDEN)
        ranking = scores.masked_fill(~real[:, :, None, :, None], HIDDEN)
        x = weigh(scores, v, neighbors, gaps, ranking).transpose(2, 3).flatten(3)
        down, right = (rows + pad[3]) // side, (columns + pad[1]) // side
        x = x.reshape(batch, down, right, side, side, dim).transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return own.proj(x[:, :rows, :columns].reshape(batch, tokens, dim))

    return forward


def global_forward(own, neighbors, gaps):
    def forward(x, hw_shape, identity):
        kept, keys = own.attn, x
        if own.sr_ratio > 1:
            keys = own.norm(own.sr(x.transpose(1, 2).unflatten(2, hw_shape)).flatten(2).transpose(1, 2))
        heads = lambda t: t.unflatten(-1, (kept.num_heads, -1)).transpose(1, 2)
        weights, biases = kept.in_proj_weight.chunk(3), kept.in_proj_bias.chunk(3)
        q, k, v = (heads(F.linear(t, w, b)) for t, w, b in zip((x, keys, keys), weights, biases))
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        return identity + kept.out_proj(weigh(scores, v, neighbors, gaps, scores).transpose(1, 2).flatten(2))

    return forward


def patch(model, neighbors, hidden=True, gaps=None):
    """Gives every block of an SVT Algorithm 1 and a kind of padding."""
    for blocks in model.layers:
        for own in (block.attn for block in blocks):
            if isinstance(own, LocallyGroupedSelfAttention):
                own.forward = local_forward(own, neighbors, hidden, gaps)
            else:
                own.forward = global_forward(own, neighbors, gaps)


def make(weights, config):
    """The model in f64."""
    model = mm.twins(config).double()
    model.eval()
    weights = {name.removeprefix("backbone."): value.double() for name, value in weights.items()}
    model.load_state_dict(join(weights, model))
    return model


def case(padding, attention, sizes):
    config = {**TWINS, "names": "ours", "padding": padding, "attention": attention}
    dims = TWINS["embed_dims"]
    prefixed = lambda state: {f"backbone.{name}": value for name, value in state.items()}
    unread = {"norm.weight": torch.empty(dims[-1]), "norm.bias": torch.empty(dims[-1]),
              "head.weight": torch.empty(TWINS["num_classes"], dims[-1]), "head.bias": torch.empty(TWINS["num_classes"])}
    shapes = prefixed(split(mm.twins(config).state_dict()) | unread)
    give = lambda model, gaps: patch(model, attention["neighbors"], padding == "hidden", gaps)
    return config, sizes, shapes, dims, True, give, lambda grads: prefixed(split(grads))


if __name__ == "__main__":
    write("twins", {name: case(*settings) for name, settings in CASES.items()}, make, own="hidden")
