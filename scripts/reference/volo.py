"""Golden numbers of VOLO: timm's VOLO, and the official one for training with MixToken, with random weights.

  python scripts/reference/volo.py VOLO_CHECKOUT

VOLO_CHECKOUT is a checkout of https://github.com/sail-sg/volo; nothing of it is in this repository.

Writes `crates/kvt-models/tests/golden/volo_<case>.safetensors` as `seeded.py` says, and in each

  logits.class [B,C], logits.aux [B,N,C]  what the two outputs say in evaluation mode, where `logits` is what they say
                                          together
  mix.box [4]                             first row, end row, first column, end column on the coarse map
  mix.class, mix.aux                      of the official model in training mode, with the tokens of this box from the image at the
                                          other end of the batch; the tokens' logits are put back to their own image
  grad_sketch.mix.images                  of sum(mix.class * probe) + sum(mix.aux * probe of each image)

Metadata `config`: timm's arguments, `strides` of the stem and of its patches, and `attention`, whose `neighbors` may be one
per stage of transformer blocks, with `class_neighbors` for the class token.
"""

import importlib.util
import sys
import warnings
from functools import partial
from pathlib import Path

import timm.layers
import torch
from timm.models.volo import VOLO

import seeded
from common import DENSE, KNN, arguments, sketch, weigh

# Maps of 8x8 and 4x4.
SMALL = dict(img_size=64, in_chans=3, num_classes=5, strides=[2, 4], stem_hidden_dim=6, layers=[1, 1, 1],
             embed_dims=[8, 12, 12], num_heads=[2, 3, 3], mlp_ratio=2.0, qkv_bias=False)
DEEP = {**SMALL, "layers": [2, 1, 2], "num_heads": [1, 2, 3], "mlp_ratio": 3.0}
# Few shapes, where every one takes a while: for a GPU, whose kernels are tuned for each. 16x16, then 8x8 and 4x4.
FINE = {**SMALL, "img_size": 16, "strides": [1, 2], "layers": [1, 1], "embed_dims": [8, 12], "num_heads": [2, 3]}

CASES = {
    "dense": ({**DEEP}, DENSE),
    "knn_count": ({**SMALL, "mlp_ratio": 2.5}, KNN),
    "knn_stages": ({**DEEP, "qkv_bias": True}, {**KNN, "neighbors": [9, 0.25]}),
    "class_knn": ({**SMALL}, {**KNN, "neighbors": 0.5, "class_neighbors": 4, "temperature": 0.5}),
    # Maps of 7x7 and 3x3: the pool at the border averages what is there, and a row and a column are left over.
    "odd_size": ({**SMALL, "img_size": 56, "in_chans": 1}, KNN),
    # Maps of 15x15, 7x7 and 3x3.
    "strides": ({**SMALL, "img_size": 29, "strides": [2, 2]}, {**KNN, "neighbors": 0.5}),
    "fine": ({**FINE}, KNN),
    "small_activations": ({**FINE, "small_activations": r"patch_embed\.conv\.[036]\.|patch_embed\.proj\.|network\.1\.proj\.bias"
                           r"|attn\.proj\.|mlp\.fc2\.|cls_token|pos_embed"}, DENSE),
}
# Rows 1 and 2, columns 0 and 1, whatever the size.
BOX = (1, 3, 0, 2)


def load(checkout):
    """The official models/volo.py."""
    sys.modules["timm.models.layers"] = timm.layers
    spec = importlib.util.spec_from_file_location("volo_official", Path(checkout) / "models" / "volo.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


def lists(config):
    stages = len(config["layers"])
    return {"downsamples": [True] + [False] * (stages - 1), "outlook_attention": [True] + [False] * (stages - 1),
            "post_layers": ["ca", "ca"]}


def restride(model, config):
    """The model with other strides than 2 and 4, which neither implementation can make."""
    (stem, patch), side = config["strides"], config["img_size"]
    first, proj = model.patch_embed.conv[0], model.patch_embed.proj
    first.stride = (stem, stem)
    model.patch_embed.proj = torch.nn.Conv2d(proj.in_channels, proj.out_channels, patch, patch)
    grid = ((side - 1) // stem + 1) // patch // 2
    model.pos_embed = torch.nn.Parameter(torch.zeros(1, grid, grid, config["embed_dims"][-1]))
    return model


def build(config):
    own = {name: value for name, value in arguments(config).items() if name != "strides"}
    return restride(VOLO(**own, **lists(config)), config)


def build_official(official, config):
    own = {name: value for name, value in arguments(config).items() if name not in ("strides", "mlp_ratio")}
    ratios = [config["mlp_ratio"]] * len(config["layers"])
    return restride(official.VOLO(**own, **lists(config), mlp_ratios=ratios), config)


def block_forward(neighbors, temperature, gaps):
    def forward(self, x):
        batch, height, width, dim = x.shape
        qkv = self.qkv(x).reshape(batch, height * width, 3, self.num_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        x = weigh(scores, v, neighbors, gaps)
        return self.proj(x.transpose(1, 2).reshape(batch, height, width, dim))

    return forward


def class_forward(neighbors, temperature, gaps):
    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        k, v = (split(t) for t in self.kv(x).chunk(2, dim=-1))
        scores = (split(self.q(x[:, :1])) @ k.transpose(-2, -1)) * self.scale / temperature
        return self.proj(weigh(scores, v, neighbors, gaps).transpose(1, 2).flatten(2))

    return forward


def patch(model, attention, gaps=None):
    """Algorithm 1 for transformer blocks and class attention, in either implementation."""
    stages = model.network[2:]
    neighbors, temperature = attention["neighbors"], attention["temperature"]
    counts = neighbors if isinstance(neighbors, list) else [neighbors] * len(stages)
    for blocks, count in zip(stages, counts, strict=True):
        for block in blocks:
            block.attn.forward = block_forward(count, temperature, gaps).__get__(block.attn)
    count = attention.get("class_neighbors")
    # Dense attention has no temperature.
    temperature = temperature if count else 1.0
    for block in model.post_network:
        block.attn.forward = class_forward(count, temperature, gaps).__get__(block.attn)


def outputs(model, drawn):
    with torch.no_grad():
        features = model.forward_features(drawn["images"].double())
        return {"logits.class": model.head(features[:, 0]), "logits.aux": model.aux_head(features[:, 1:])}


def with_mix(official, config, attention, drawn, logits):
    """Checks that the official model agrees in evaluation, and returns its outputs in training with MixToken."""
    model = seeded.loaded(partial(build_official, official), config, drawn)
    patch(model, attention)
    with torch.no_grad():
        torch.testing.assert_close(model(drawn["images"].double()), logits, rtol=1e-9, atol=1e-9)
    official.rand_bbox = lambda *_, **__: (BOX[0], BOX[2], BOX[1], BOX[3])
    images = drawn["images"].double().requires_grad_()
    of_class, of_tokens, _ = model.train()(images)
    probe = drawn["probe"].double()
    ((of_class * probe).sum() + (of_tokens * probe.unsqueeze(1)).sum()).backward()
    return {"mix.box": torch.tensor(BOX, dtype=torch.float32), "mix.class": of_class, "mix.aux": of_tokens,
            "grad_sketch.mix.images": sketch(images.grad)}


if __name__ == "__main__":
    official = load(sys.argv[1])
    for name, (config, attention) in CASES.items():
        more = lambda model, drawn, found: outputs(model, drawn) | with_mix(
            official, config, attention, drawn, found["logits"])
        seeded.write("volo", {name: (config, attention)}, build, patch, extra=more)
