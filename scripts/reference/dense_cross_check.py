"""Compares the logits of a `kvt` binary with mmsegmentation's UPerNet of full size, dense and k-NN, on random weights.

  python scripts/reference/dense_cross_check.py target/release/kvt swin
  python scripts/reference/dense_cross_check.py target/release/kvt twins --size 128,224 --padding hidden

The networks are those of the recipes for ADE20K: Swin-T or Twins-SVT-B, 512 channels, 150 classes. Their weights go to kvt in a
`.pth` as the published ones are, `{"state_dict": .., "meta": ..}`: of a Swin by mmsegmentation's names with its tables of indices,
of a Twins by the authors', with the heads of mmsegmentation; the auxiliary head and the counters of batch norms are there, too.

Runs `kvt logits --config CONFIG --weights W --input IN --output OUT`: CONFIG has `task = "segment"`, IN a tensor `images` [B,3,H,W]
(normalised already), OUT must come back with `logits` [B,150,h,w] of the decode head, at a quarter of the images' size (rounded up)
or resized to it. Otherwise as `cross_check.py`: it prints the largest differences from PyTorch in f64, beside those of PyTorch in f32,
and fails above --tolerance. k-NN with padding that is seen is only compared for a Swin: in a Twins padding keys tie.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import dense_swin
import dense_twins
import mm
import torch
import torch.nn.functional as F
from common import randomize
from cross_check import calibrate, neighbors
from safetensors.torch import load_file, save_file

CLASSES, CHANNELS, AUX_CHANNELS = 150, 512, 256
HEADS = [3, 6, 12, 24]
SWIN = {**dense_swin.SWIN, "embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": HEADS, "mlp_ratio": 4.0}
TWINS = {**dense_twins.TWINS, "embed_dims": [96, 192, 384, 768], "depths": [2, 2, 18, 2], "num_heads": HEADS,
         "mlp_ratio": 4.0}
NAMES = {"swin": "swin_tiny_patch4_window7_224", "twins": "twins_svt_base"}
PATCHES = {"swin": dense_swin.patch, "twins": dense_twins.patch}


def network(family):
    # The backbone of a Swin only gives the heads their place.
    found = mm.upernet(mm.swin_config(SWIN), TWINS["embed_dims"], CHANNELS, AUX_CHANNELS, CLASSES)
    if family == "twins":
        found.backbone = mm.twins(TWINS)
    return found


def logits(model, images):
    return model.decode_head(model.backbone(images))


def published(model, family):
    """The weights by the names of published files."""
    state = {name: value.detach().clone().contiguous() for name, value in model.state_dict().items()}
    if family == "swin":
        return state
    prefix = "backbone."
    backbone = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
    renamed = {f"{prefix}{name}": value.clone() for name, value in dense_twins.split(backbone).items()}
    return {name: value for name, value in state.items() if not name.startswith(prefix)} | renamed


def configuration(arguments, kind, count):
    text = f"""task = "segment"
[model]
name = "{NAMES[arguments.family]}"
[model.attention]
kind = "{kind}"
{"" if count is None else f"neighbors = {count}"}
[segment]
window_padding = "{arguments.padding}"
[data]
kind = "masks"
path = "."
classes = {CLASSES}
"""
    return text


def kvt_logits(arguments, kind, count, weights, images):
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: str(Path(folder) / name)
        torch.save({"state_dict": weights, "meta": {"CLASSES": ["class"] * CLASSES}}, path("weights.pth"))
        save_file({"images": images}, path("input.safetensors"))
        Path(path("config.toml")).write_text(configuration(arguments, kind, count))
        command = [arguments.kvt, "logits", "--config", path("config.toml"), "--weights", path("weights.pth")]
        command += ["--input", path("input.safetensors"), "--output", path("output.safetensors")]
        for setting in arguments.set:
            command += ["--set", setting]
        if arguments.device:
            command += ["--device", arguments.device]
        subprocess.run(command, check=True)
        return load_file(path("output.safetensors"))["logits"]


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("kvt", help="path of the binary")
    parser.add_argument("family", choices=NAMES)
    parser.add_argument("--size", default="128,160", help="rows,columns of the images")
    parser.add_argument("--padding", choices=["seen", "hidden"], help="by default as the recipe: seen (swin), hidden (twins)")
    parser.add_argument("--neighbors", type=neighbors, default=0.8, help="count, or share of the keys with a point")
    parser.add_argument("--set", action="append", default=[], help="passed on to kvt; repeatable")
    parser.add_argument("--device", help="passed on to kvt")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    arguments = parser.parse_args()
    arguments.padding = arguments.padding or {"swin": "seen", "twins": "hidden"}[arguments.family]
    height, width = (int(side) for side in arguments.size.split(","))

    generator = torch.Generator().manual_seed(arguments.seed)
    model = network(arguments.family)
    model.eval()
    randomize(model, generator)
    images = torch.randn(arguments.batch, 3, height, width, generator=generator)
    calibrate(model, images)
    weights = published(model, arguments.family)

    def expected(count, dtype, gaps):
        PATCHES[arguments.family](model.backbone, count, arguments.padding == "hidden", gaps)
        with torch.no_grad():
            return logits(model.to(dtype), images.to(dtype)).double()

    kinds = [("dense", None), ("knn", arguments.neighbors)]
    if (arguments.family, arguments.padding) == ("twins", "seen"):
        kinds.pop()
    failed = False
    for kind, count in kinds:
        gaps = []
        exact, single = expected(count, torch.float64, gaps), expected(count, torch.float32, None)
        actual = kvt_logits(arguments, kind, count, weights, images).double()
        if actual.shape[2:] != exact.shape[2:]:
            exact, single = (F.interpolate(t, size=actual.shape[2:], mode="bilinear", align_corners=False)
                             for t in (exact, single))
        size = exact.abs().max().item()
        relative = (actual - exact).abs().max().item() / size
        own = (single - exact).abs().max().item() / size
        agreeing = (actual.argmax(1) == exact.argmax(1)).double().mean().item()
        # A gap near f32 rounding means that some row may keep another key, PyTorch's in f32 too.
        gap = f", smallest gap at the k-th score {min(gaps):.1e}" if gaps else ""
        print(f"{kind:5}  {arguments.padding}  relative {relative:.3e}  (PyTorch in f32 {own:.3e})  "
              f"classes equal {100 * agreeing:.3f} %{gap}")
        failed |= not relative <= arguments.tolerance
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
