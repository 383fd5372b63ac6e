"""Golden numbers of PiT: timm's PoolingVisionTransformer with random weights.

Writes `crates/kvt-models/tests/golden/pit_<case>.safetensors`: weights.<timm name>, images [B,C,H,W],
logits, probe, grad.images and grad.<timm name> (gradients of sum(logits * probe)); metadata `config`:
timm's arguments and `attention`, whose `neighbors` may be one per stage. A distilled model's logits
are the mean of its heads; logits.class and logits.distillation are what they give on their own.
Otherwise as in `deit.py`.
"""

import torch
from timm.models.pit import PoolingVisionTransformer

from common import DENSE, KNN, arguments, evaluate, patch_attention, write_cases

# Grids of 5x5, 3x3 and 2x2.
SMALL = dict(img_size=20, patch_size=4, stride=4, in_chans=3, num_classes=5, base_dims=[8, 8, 8],
             depth=[1, 1, 1], heads=[1, 1, 2], mlp_ratio=2.0, distilled=False)
# Patches overlap. Grids of 8x8, 4x4 and 2x2.
DEEP = {**SMALL, "img_size": 18, "stride": 2, "base_dims": [6, 6, 6], "depth": [1, 2, 1], "heads": [1, 2, 4]}

CASES = {
    "dense": ({**DEEP, "mlp_ratio": 4.0}, DENSE),
    "knn_count": ({**SMALL}, KNN),
    "knn_fraction": ({**SMALL}, {**KNN, "neighbors": 0.5}),
    "knn_stages": ({**DEEP}, {**KNN, "neighbors": [20, 0.5, 3]}),
    "distilled": ({**SMALL, "distilled": True}, DENSE),
    "distilled_knn": ({**SMALL, "distilled": True}, KNN),
    "overlap": ({**SMALL, "img_size": 24, "patch_size": 5, "stride": 3}, DENSE),  # a pixel is left over
    "base_dims": ({**SMALL, "base_dims": [8, 4, 8], "heads": [1, 4, 2]}, {**KNN, "neighbors": 0.5}),
    "in_chans_1": ({**SMALL, "in_chans": 1}, KNN),
    "mlp_ratio": ({**SMALL, "mlp_ratio": 2.5}, DENSE),
    "temperature": ({**SMALL}, {**KNN, "temperature": 0.5}),
    "small_activations": ({**SMALL, "img_size": 12, "base_dims": [4, 4, 4], "mlp_ratio": 1.0, "small_activations": True}, DENSE),
}


def build(config):
    return PoolingVisionTransformer(**arguments(config))


def run(config, attention, seed):
    tensors, gap = evaluate(build, config, attention, seed)
    if config["distilled"]:
        tensors |= heads(config, attention, tensors)
    return tensors, gap


def heads(config, attention, tensors):
    model = build(config)
    weights = {n.removeprefix("weights."): t for n, t in tensors.items() if n.startswith("weights.")}
    model.load_state_dict(weights)
    patch_attention(model.double().train(), attention["neighbors"], attention["temperature"])
    model.set_distilled_training(True)
    with torch.no_grad():
        one, other = model(tensors["images"].double())
    torch.testing.assert_close((one + other) / 2, tensors["logits"], rtol=1e-12, atol=1e-12)
    return {"logits.class": one, "logits.distillation": other}


if __name__ == "__main__":
    for _ in write_cases("pit", CASES, run):
        pass
