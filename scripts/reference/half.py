"""Golden numbers of half precision: logits of timm's models under PyTorch's autocast, in bf16 and f16 on the CPU.

Writes `crates/kvt-models/tests/golden/half.safetensors`. Weights, images and probe are those of `<case>.safetensors`
beside it; for each case, and `dtype` in bf16 and f16:

  <case>.<dtype>.autocast   logits [2, classes] of the model wholly under `torch.autocast`, its head in f32; dense cases
  <case>.<dtype>.layers     logits with autocast around each linear layer and convolution alone, whose output is widened
                            again: all that is not a product of weights is f32
  <case>.<dtype>.gradient   `sketch` of the gradient of sum(logits * probe) with regard to the images, of `layers`
  <case>.f32                logits in f32

Autocast on the CPU rounds the scores of queries and keys, which then tie, so that another key may be kept: of k-NN
attention there is no `autocast`. Norms, GELU and the residual stream are f32 in all of them.
"""

import json
from pathlib import Path

import torch
from safetensors import safe_open

import deit
import pit
import seeded
import swin
import tnt
import twins
import visformer
import volo
from common import golden, patch_attention, save, sketch

CASES = {
    deit: ["deit_dense", "deit_knn_count", "deit_distilled_knn"],
    swin: ["swin_padding", "swin_padding_knn"],
    pit: ["pit_dense", "pit_knn_count"],
    tnt: ["tnt_dense", "tnt_legacy_knn"],
    visformer: ["visformer_dense", "visformer_knn_count"],
    twins: ["twins_padding", "twins_padding_knn"],
    volo: ["volo_dense", "volo_knn_count"],
}
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
HEADS = ("head", "head_dist", "aux_head")


def read(path):
    """Configuration and tensors of a golden file."""
    with safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    if "seeded" in metadata:
        drawn = json.loads(metadata["seeded"])
        tensors |= seeded.draw(drawn["tensors"], drawn["seed"])[0]
    return json.loads(metadata["config"]), tensors


def around(module, dtype, widen):
    """Runs a module under autocast, or with `dtype` None outside of it."""
    inner = module.forward

    def forward(x):
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            x = inner(x if dtype else x.float())
        return x.float() if widen else x

    module.forward = forward


def prepare(family, config, tensors):
    attention = config.pop("attention")
    model = family.build(config).float().eval()
    state = {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")}
    model.load_state_dict(state, strict=False)
    if hasattr(family, "patch"):
        family.patch(model, attention, None)
    else:
        patch_attention(model, attention["neighbors"], attention["temperature"])
    return model, attention["neighbors"]


def products(model):
    kinds = (torch.nn.Linear, torch.nn.Conv2d)
    named = [(name, module) for name, module in model.named_modules() if isinstance(module, kinds)]
    return [m for name, m in named if name not in HEADS], [m for name, m in named if name in HEADS]


def layers(family, config, tensors, dtype):
    """Logits and gradient of the images with autocast around each layer."""
    model, _ = prepare(family, dict(config), tensors)
    if dtype:
        for module in products(model)[0]:
            around(module, dtype, widen=True)
    images = tensors["images"].clone().requires_grad_()
    logits = model(images)
    (logits * tensors["probe"]).sum().backward()
    return logits.detach(), sketch(images.grad)


def autocast(family, config, tensors, dtype):
    model, neighbors = prepare(family, dict(config), tensors)
    if neighbors is not None:
        return None
    for module in products(model)[1]:
        around(module, None, widen=False)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        return model(tensors["images"]).float()


def main():
    found, folder = {}, golden("kvt-models")
    for family, cases in CASES.items():
        for case in cases:
            config, tensors = read(Path(folder) / f"{case}.safetensors")
            plain, gradient = layers(family, config, tensors, None)
            torch.testing.assert_close(plain, tensors["logits"], rtol=1e-4, atol=1e-4)
            found[f"{case}.f32"] = plain
            for name, dtype in TYPES.items():
                of_layers, of_images = layers(family, config, tensors, dtype)
                found |= {f"{case}.{name}.layers": of_layers, f"{case}.{name}.gradient": of_images}
                wholly = autocast(family, config, tensors, dtype)
                if wholly is not None:
                    found[f"{case}.{name}.autocast"] = wholly
                share = lambda x: "-" if x is None else f"{((x - plain).abs().max() / plain.abs().max()).item():.2e}"
                print(f"{case} {name}: layers {share(of_layers)}, autocast {share(wholly)},"
                      f" gradient {(of_images[0] / gradient[0] - 1).item():.2e} of f32")
    save(folder / "half.safetensors", found, {"cases": sorted(c for cases in CASES.values() for c in cases)}, 0)


if __name__ == "__main__":
    main()
