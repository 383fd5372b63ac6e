"""Golden numbers of T2T-ViT: the official T2T_ViT, as `seeded.py` says.

  python scripts/reference/t2t.py T2T_CHECKOUT

T2T_CHECKOUT is a checkout of https://github.com/yitu-opensource/T2T-ViT; nothing of it is in this repository.

Writes to `crates/kvt-models/tests/golden/`:

  t2t_<case>.safetensors       metadata `config`: img_size, in_chans, num_classes, the official arguments, `strides` of
                               the soft splits, and `attention`, whose `neighbors` may be one per stage
  counts_t2t.json              {name: {params, fixed, linear, attention}} of the published models: parameters that are
                               trained and that are not, multiply-accumulate operations at 224 px
  pos_embed_plain.safetensors  <case>.input, <case>.output of PyTorch's bicubic `interpolate`, with which the original
                               resizes positions; metadata `config`: {case: {grid, prefix_tokens}}

The original's soft splits have strides of 4, 2 and 2; other ones are put in its place, with the padding that keeps all pixels.
Its Performers drop out with a rate of 0.1 in training, here with 0, and round to f32, here not at all.
"""

import contextlib
import functools
import importlib
import importlib.util
import io
import sys
import warnings
from pathlib import Path
from unittest import mock

import torch
from torch.utils.flop_counter import FlopCounterMode

import seeded
from common import DENSE, KNN, arguments, golden, save, save_json, weigh

# Maps of 8x8, 4x4 and 2x2.
SMALL = dict(img_size=32, in_chans=3, num_classes=5, tokens_type="transformer", embed_dim=24, depth=2, num_heads=3,
             mlp_ratio=2.0, qkv_bias=False, token_dim=8, strides=[4, 2, 2])
# Maps of 8x8, 4x4 and 4x4, so that there is a choice of keys.
FINE = {**SMALL, "img_size": 16, "strides": [2, 2, 1]}
PERFORMER = {**FINE, "tokens_type": "performer"}
# What writes to the residual stream: all that a norm sees, but for the image that the first one sees.
STREAM = (r"tokens_to_token\..*\.(qkv|proj|fc2)\.|tokens_to_token\.project\.bias|^blocks\..*\.(proj|fc2)\."
          r"|cls_token|pos_embed")

CASES = {
    "dense": (SMALL, DENSE),
    "knn_count": (FINE, KNN),
    "knn_fraction": ({**SMALL, "img_size": 48}, {**KNN, "neighbors": 0.5}),
    "knn_stages": (FINE, {**KNN, "neighbors": [40, 0.5, 3]}),
    "temperature": (FINE, {**KNN, "temperature": 0.5}),
    "qkv_bias": ({**FINE, "qkv_bias": True}, KNN),
    "mlp_ratio": ({**FINE, "mlp_ratio": 2.6}, DENSE),
    "in_chans_1": ({**FINE, "in_chans": 1}, DENSE),
    "strides": ({**FINE, "img_size": 18, "strides": [3, 1, 3]}, DENSE),
    "small_activations": ({**FINE, "depth": 1, "small_activations": STREAM}, DENSE),
    "performer": ({**PERFORMER, "img_size": 32, "strides": [4, 2, 2]}, DENSE),
    "performer_knn": (PERFORMER, KNN),
    "performer_token_dim": ({**PERFORMER, "token_dim": 13, "in_chans": 2}, DENSE),
}
PUBLISHED = [f"t2t_vit_{size}" for size in (7, 10, 12, 14, 19, 24, "t_14", "t_19", "t_24", "14_resnext", "14_wide")]


def load(checkout):
    """The package models/, which says at each model what it adopts."""
    folder = Path(checkout) / "models"
    spec = importlib.util.spec_from_file_location(
        "t2t_official", folder / "__init__.py", submodule_search_locations=[str(folder)])
    package = importlib.util.module_from_spec(spec)
    sys.modules["t2t_official"] = package
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(package)
    return importlib.import_module("t2t_official.t2t_vit")


def build(official, config):
    own = {name: value for name, value in arguments(config).items() if name != "strides"}
    with contextlib.redirect_stdout(io.StringIO()):
        model = official.T2T_ViT(**own)
    module, side = model.tokens_to_token, config["img_size"]
    for number, stride in enumerate(config["strides"]):
        kernel = 7 if number == 0 else 3
        padding = max(0, kernel - stride + 1) // 2
        setattr(module, f"soft_split{number}", torch.nn.Unfold(kernel, stride=stride, padding=padding))
        side = (side + 2 * padding - kernel) // stride + 1
    sinusoid = sys.modules["t2t_official.transformer_block"].get_sinusoid_encoding
    positions = sinusoid(side**2 + 1, config["embed_dim"])
    model.pos_embed = torch.nn.Parameter(positions, requires_grad=False)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return exact(model)


def published(checkout, name):
    with contextlib.redirect_stdout(io.StringIO()):
        return exact(getattr(load(checkout), name)())


def exact(model):
    """Without the rounding to f32 in Performers, which does not support f64."""
    module = model.tokens_to_token
    forward = module.forward

    def forward_exactly(x):
        with mock.patch.object(torch.Tensor, "float", lambda self: self):
            return forward(x)

    module.forward = forward_exactly
    return model


def attend(token, neighbors, temperature, gaps):
    """For the official `Attention` of a token transformer, where the skip connection starts at the values, and of a block."""

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        x = weigh(scores, v, neighbors, gaps).transpose(1, 2).flatten(2)
        return v.squeeze(1) + self.proj(x) if token else self.proj(x)

    return forward


def patch(model, attention, gaps):
    """Algorithm 1 in the stages that have scores: both token transformers, and the blocks."""
    module = model.tokens_to_token
    tokens = [layer.attn for layer in (module.attention1, module.attention2) if hasattr(layer, "attn")]
    parts = [(True, [layer]) for layer in tokens] + [(False, [block.attn for block in model.blocks])]
    counts = attention["neighbors"]
    counts = counts if isinstance(counts, list) else [counts] * len(parts)
    for (token, layers), count in zip(parts, counts, strict=True):
        for layer in layers:
            layer.forward = attend(token, count, attention["temperature"], gaps).__get__(layer)
    return model


def costs(model):
    trained = {p.requires_grad: 0 for p in model.parameters()}
    for parameter in model.parameters():
        trained[parameter.requires_grad] += parameter.numel()
    with FlopCounterMode(display=False) as counter:
        model.to("meta").eval()(torch.zeros(1, 3, 224, 224, device="meta"))
    macs = {"linear": 0, "attention": 0}
    for operation, flops in counter.get_flop_counts()["Global"].items():
        macs["attention" if operation is torch.ops.aten.bmm else "linear"] += flops // 2
    return {"params": trained[True], "fixed": trained[False], **macs}


def position_embeddings(seed=8):
    generator = torch.Generator().manual_seed(seed)
    tensors, config = {}, {}
    for case, side, grid in [("grow", 4, [6, 6]), ("shrink", 7, [3, 3]), ("oblong", 5, [2, 9]), ("one", 1, [3, 2])]:
        embedding = torch.randn(1, 1 + side * side, 6, generator=generator)
        token, patches = embedding[:, :1], embedding[:, 1:]
        patches = patches.reshape(1, side, side, 6).permute(0, 3, 1, 2)
        patches = torch.nn.functional.interpolate(patches, size=grid, mode="bicubic")
        tensors[f"{case}.input"] = embedding
        tensors[f"{case}.output"] = torch.cat([token, patches.permute(0, 2, 3, 1).flatten(1, 2)], dim=1)
        config[case] = {"grid": grid, "prefix_tokens": 1}
    save(golden("kvt-models") / "pos_embed_plain.safetensors", tensors, config, seed)


if __name__ == "__main__":
    seeded.write("t2t", CASES, functools.partial(build, load(sys.argv[1])), patch)
    counts = {name: costs(published(sys.argv[1], name)) for name in PUBLISHED}
    save_json(golden("kvt-models") / "counts_t2t.json", {"models": counts}, seed=None)
    position_embeddings()
