"""Golden numbers of So-ViT: the official So_ViT with seeded weights.

  python scripts/reference/sovit.py SOVIT_CHECKOUT

SOVIT_CHECKOUT is a checkout of https://github.com/jiangtaoxie/So-ViT at c31972e, which still has So-ViT (the
repository continued with SoT); nothing of it is in this repository.

Writes `crates/kvt-models/tests/golden/sovit_<case>.safetensors`: logits, grad.images and grad.<official name> (gradients
of sum(logits * probe)) in evaluation mode; and of one forward in training mode, whose dropout is off:

  train.logits, train.grad.images, train.grad.<name> of the batch norms alone
  train.running.<name>  the running statistics after it

Weights, images and probe are drawn as `seeded.py` says; `pos_embed`, which the original computes, is drawn as well.
Metadata `config`: img_size, in_chans, num_classes, embed_dim, depth, num_heads, mlp_ratio, qkv_bias, strides, cov_dims,
and `attention`. Also `counts_sovit.json`, `params`: {name: count}, of the published sizes without what is fixed.

The official code makes the last stride from the size of the image (1 from 112 px, 2 from 224 px), and the last bottleneck
projects its shortcut only at 2. Here strides are a setting: the bottlenecks are the official ones, the shortcut is
projected wherever channels or size change, and there are as many positions as tokens. At 112 px and strides of
2, 2, 1, and at 224 px and 2, 2, 2, the model is the official one, with nothing replaced.
"""

import importlib
import importlib.util
import sys
import warnings
from functools import partial
from pathlib import Path

import torch

import seeded
from common import DENSE, KNN, arguments, golden, save_json, token_forward

BASE = dict(img_size=16, in_chans=3, num_classes=5, embed_dim=24, depth=2, num_heads=3, mlp_ratio=2.0,
            qkv_bias=False, strides=[2, 1, 1], cov_dims=[6, 4])

CASES = {
    "dense": ({**BASE}, DENSE),
    "knn_count": ({**BASE, "depth": 3, "strides": [1, 2, 1]}, KNN),
    "knn_fraction": ({**BASE, "depth": 1}, {**KNN, "neighbors": 0.5, "temperature": 0.5}),
    "strides_2_2_1": ({**BASE, "img_size": 32, "strides": [2, 2, 1], "depth": 1, "cov_dims": [12, 8]}, DENSE),
    "strides_2_2_2": ({**BASE, "img_size": 64, "strides": [2, 2, 2]}, {**KNN, "neighbors": 0.5}),
    "odd_size": ({**BASE, "img_size": 23, "in_chans": 1, "num_classes": 3, "strides": [3, 1, 2], "mlp_ratio": 2.5,
                  "qkv_bias": True, "cov_dims": [5, 9]}, KNN),
    "small_activations": (
        {**BASE, "depth": 1,
         "small_activations": r"conv|downsample\.0|stem\.0|transition|attn\.proj|mlp\.fc2|cls_token|pos_embed"}, DENSE),
}
# An input of a ReLU has to be 2e-6 of their mean from zero, the least gap being 1e-4.
FACTOR = 50
# The side of the images for which the official code has these strides.
OFFICIAL = {(2, 2, 1): 112, (2, 2, 2): 224}
# Channels, depth, heads, ratio of the MLP, channels of the covariance, dropout of its vector.
SIZES = {
    "so_vit_7": (256, 7, 4, 2.0, [48, 24], None),
    "so_vit_10": (256, 10, 4, 2.0, [48, 24], None),
    "so_vit_14": (384, 14, 6, 3.0, [64, 48], 0.5),
    "so_vit_19": (448, 19, 7, 3.0, [96, 48], 0.5),
}


def load(checkout):
    """The module src/so_vit.py. It was written for timm 0.3; imports that it does not use are replaced."""
    inception = importlib.import_module("timm.models.inception_resnet_v2")
    folder = Path(checkout) / "src"
    spec = importlib.util.spec_from_file_location(
        "so_vit_official", folder / "__init__.py", submodule_search_locations=[str(folder)])
    package = importlib.util.module_from_spec(spec)
    sys.modules["so_vit_official"] = package
    if not hasattr(inception, "BasicConv2d"):
        inception.BasicConv2d = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(package)
    return importlib.import_module("so_vit_official.so_vit")


def build(official, config, dropout=None):
    """Every dictionary is new: the official constructor takes entries out of those it is given."""
    own = arguments(config)
    strides, side, dim = own["strides"], own["img_size"], own["embed_dim"]
    official_side = OFFICIAL.get(tuple(strides), 224)
    model = official.So_ViT(
        img_size=official_side, in_chans=own["in_chans"], num_classes=own["num_classes"],
        visualTokenConfig=dict(type="ResNet", token_dim=64),
        ViTConfig=dict(
            {name: own[name] for name in ("embed_dim", "depth", "num_heads", "mlp_ratio", "qkv_bias")}, qk_scale=None,
            attn_drop=0.0, norm_layer=torch.nn.LayerNorm, act_layer=torch.nn.GELU),
        representationConfig=dict(
            type="second-order",
            args=dict(cov_type="cross", remove_mean=True, dimension_reduction=own["cov_dims"], input_dim=dim),
            normalization=dict(type="svPN", args=dict(
                alpha=0.5, iterNum=1, svNum=1, vec="full", input_dim=own["cov_dims"],
                regular=None if dropout is None else torch.nn.Dropout(dropout)))))
    if side == official_side and tuple(strides) in OFFICIAL:
        return model
    tokens = model.visual_tokens.tokens
    for number, stride in enumerate(strides):
        channels = 256 if number else 64
        tokens.stage[number] = official.Bottleneck(
            channels, 64, stride=stride, downsample=number == 0 or stride != 1)
    with torch.no_grad():
        count = tokens.eval()(torch.zeros(1, own["in_chans"], side, side)).shape[1]
    tokens.train()
    encoding = importlib.import_module("so_vit_official.model.vitBlock").get_sinusoid_encoding(count + 1, dim)
    model.pos_embed = torch.nn.Parameter(encoding, requires_grad=False)
    return model


def published(checkout, name):
    """One of `SIZES` at 224 px with 1000 classes."""
    dim, depth, heads, ratio, cov_dims, dropout = SIZES[name]
    config = dict(img_size=224, in_chans=3, num_classes=1000, embed_dim=dim, depth=depth, num_heads=heads,
                  mlp_ratio=ratio, qkv_bias=False, strides=[2, 2, 2], cov_dims=cov_dims)
    return build(load(checkout), config, dropout)


def patch(model, attention, gaps):
    for block in model.blocks:
        block.attn.head_dim = block.attn.qkv.in_features // block.attn.num_heads
        forward = token_forward(attention["neighbors"], attention["temperature"], gaps)
        block.attn.forward = forward.__get__(block.attn)
    for module in model.modules():
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_pre_hook(partial(kink, gaps))


def kink(gaps, _, inputs):
    """A ReLU has two gradients at zero: no input may be so near that rounding chooses between them."""
    sizes = inputs[0].detach().abs()
    gaps.append((FACTOR * sizes.min() / sizes.mean()).item())


if __name__ == "__main__":
    seeded.write("sovit", CASES, partial(build, load(sys.argv[1])), patch)
    params = {name: sum(p.numel() for p in published(sys.argv[1], name).parameters() if p.requires_grad)
              for name in SIZES}
    save_json(golden("kvt-models") / "counts_sovit.json", {"params": params}, seed=None)
