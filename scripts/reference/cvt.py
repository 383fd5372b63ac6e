"""Golden numbers of CvT: the official ConvolutionalVisionTransformer with random weights.

  python scripts/reference/cvt.py CVT_CHECKOUT

CVT_CHECKOUT is a checkout of https://github.com/microsoft/CvT; nothing of it is in this repository.

Writes `crates/kvt-models/tests/golden/cvt_<case>.safetensors`: weights.<official name>, running
statistics among them, images [B,C,H,W], logits, probe, grad.images and grad.<official name>
(gradients of sum(logits * probe)) in evaluation mode; and of one forward in training mode:

  train.logits, train.grad.images, train.grad.<name> of the batch norms alone
  train.running.<name>  the running statistics after it

Metadata `config`: img_size, in_chans, num_classes, the official SPEC in lower case, and `attention`,
whose `neighbors` may be one per stage. Otherwise as in `deit.py`.
"""

import collections.abc
import importlib
import importlib.util
import sys
import types
import warnings
from functools import partial
from pathlib import Path

import torch
import yaml

from common import DENSE, KNN, arguments, check_dense, differentiate, prepare, write_cases

# Maps of 9x9, 5x5 and 3x3. Smaller ones would leave the last batch norms of k and v too few values.
DEEP = dict(
    img_size=36, in_chans=3, num_classes=5, num_stages=3, patch_size=[7, 3, 3], patch_stride=[4, 2, 2],
    patch_padding=[2, 1, 1], dim_embed=[8, 12, 18], num_heads=[1, 2, 3], depth=[1, 1, 2], mlp_ratio=[2.0] * 3,
    drop_rate=[0.0] * 3, attn_drop_rate=[0.0] * 3, drop_path_rate=[0.0] * 3, qkv_bias=[True] * 3,
    cls_token=[False, False, True], qkv_proj_method=["dw_bn"] * 3, kernel_qkv=[3] * 3, padding_q=[1] * 3,
    stride_q=[1] * 3, padding_kv=[1] * 3, stride_kv=[2] * 3)
# A finer stem for smaller images: maps of 12x12, 6x6 and 3x3.
SMALL = {**DEEP, "img_size": 26, "patch_stride": [2, 2, 2], "dim_embed": [6, 8, 12], "depth": [1, 1, 1]}
# Few shapes, where every one takes a while: for a GPU, whose kernels are tuned for each.
ONE_STAGE = {name: value[:1] if isinstance(value, list) else value for name, value in SMALL.items()}

CASES = {
    "dense": ({**DEEP}, DENSE),
    "knn_fraction": ({**SMALL, "depth": [1, 1, 2]}, {**KNN, "neighbors": 0.5}),
    "knn_stages": ({**SMALL, "depth": [1, 2, 1]}, {**KNN, "neighbors": [20, 0.5, 3]}),
    "stride_kv_1": ({**SMALL, "img_size": 20, "stride_kv": [1] * 3}, KNN),
    "odd_size": ({**SMALL, "img_size": 37, "patch_stride": [4, 2, 2], "in_chans": 2}, KNN),
    "in_chans_1": ({**SMALL, "in_chans": 1}, DENSE),
    "mlp_ratio": ({**SMALL, "img_size": 20, "mlp_ratio": [2.5] * 3}, DENSE),
    "temperature": ({**SMALL, "img_size": 20, "depth": [1, 1, 2]}, {**KNN, "temperature": 0.5}),
    "one_stage": ({**ONE_STAGE, "num_stages": 1, "img_size": 20, "cls_token": [True]}, KNN),
    "small_activations": ({**ONE_STAGE, "num_stages": 1, "img_size": 20, "cls_token": [True], "mlp_ratio": [1.0],
                           "small_activations": True}, DENSE),
}


def load(checkout):
    """The module lib/models/cls_cvt.py; imports that today's PyTorch lacks are replaced."""
    six = types.ModuleType("torch._six")
    six.container_abcs = collections.abc
    stubs = {"torch._six": six}
    if importlib.util.find_spec("scipy") is None:  # it resizes position embeddings, which CvT has none of
        stubs["scipy"] = types.ModuleType("scipy")
    folder = Path(checkout) / "lib" / "models"
    spec = importlib.util.spec_from_file_location(
        "cvt_official", folder / "__init__.py", submodule_search_locations=[str(folder)])
    package = importlib.util.module_from_spec(spec)
    sys.modules |= {"cvt_official": package, **stubs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(package)
    for name in stubs:
        del sys.modules[name]
    return importlib.import_module("cvt_official.cls_cvt")


def build(official, config):
    spec = {name.upper(): value for name, value in arguments(config).items()}
    # The official LayerNorm computes in f32 whatever it gets.
    return official.ConvolutionalVisionTransformer(
        in_chans=config["in_chans"], num_classes=config["num_classes"], act_layer=official.QuickGELU,
        norm_layer=partial(torch.nn.LayerNorm, eps=1e-5), spec=spec)


def published(checkout, name):
    """`cvt_13`, `cvt_21` or `cvt_w24` with 1000 classes; no parameter depends on the size of the images."""
    configs = Path(checkout) / "experiments" / "imagenet" / "cvt"
    spec = yaml.safe_load((configs / f"{name.replace('_', '-')}-384x384.yaml").read_text())["MODEL"]["SPEC"]
    spec = {key.lower(): value for key, value in spec.items() if key not in ("INIT", "POS_EMBED")}
    return build(load(checkout), {"in_chans": 3, "num_classes": 1000, **spec})


def run(build, config, attention, seed):
    model, tensors, gaps = prepare(build, config, attention, seed)
    tensors |= differentiate(model, tensors)
    if attention["kind"] == "dense":
        check_dense(build, config, model, tensors)
    trained = differentiate(model.train(), tensors)
    tensors |= {f"train.{name}": value for name, value in trained.items()
                if name in ("logits", "grad.images") or ".bn." in name}
    tensors |= {f"train.running.{name}": value.clone() for name, value in model.named_buffers()
                if value.is_floating_point()}
    return tensors, min(gaps, default=float("inf"))


if __name__ == "__main__":
    for _ in write_cases("cvt", CASES, partial(run, partial(build, load(sys.argv[1])))):
        pass
