"""Compares the logits of a `kvt` binary with timm's, dense and k-NN, on random weights and images.

  python scripts/reference/cross_check.py target/release/kvt deit_tiny_patch16_224
  python scripts/reference/cross_check.py target/release/kvt deit_small_patch16_224 --neighbors 100 --device cuda

Runs `kvt logits --model NAME --set ... --weights W --input IN --output OUT`: W has timm's names, IN a
tensor `images` [B,C,H,W] (normalised already), OUT must come back with `logits` [B,classes]; all are
safetensors. Prints the largest differences and fails above --tolerance (relative to the largest
logit). For people, not for CI: it needs PyTorch, timm and a built binary.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import timm
import torch
from safetensors.torch import load_file, save_file

from common import patch_attention
from deit import randomize


def neighbors(text):
    return int(text) if text.isdigit() else float(text)


def kvt_logits(arguments, settings, weights, images):
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: str(Path(folder) / f"{name}.safetensors") for name in ("weights", "input", "output")}
        save_file(weights, paths["weights"])
        save_file({"images": images}, paths["input"])
        command = [arguments.kvt, "logits", "--model", arguments.model]
        for setting in [*settings, *arguments.set]:
            command += ["--set", setting]
        for name, path in paths.items():
            command += [f"--{name}", path]
        if arguments.device:
            command += ["--device", arguments.device]
        subprocess.run(command, check=True)
        return load_file(paths["output"])["logits"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvt", help="path of the binary")
    parser.add_argument("model", help="a model name that timm and kvt share")
    parser.add_argument("--neighbors", type=neighbors, default=0.5, help="count, or share of the keys with a point")
    parser.add_argument("--set", action="append", default=[], help="passed on to kvt; repeatable")
    parser.add_argument("--device", help="passed on to kvt")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    arguments = parser.parse_args()

    generator = torch.Generator().manual_seed(arguments.seed)
    model = timm.create_model(arguments.model).eval()
    randomize(model, generator)
    weights = {name: p.detach().clone().contiguous() for name, p in model.state_dict().items()}
    images = torch.randn(arguments.batch, *model.default_cfg["input_size"], generator=generator)
    model.double()

    failed = False
    for kind, count in (("dense", None), ("knn", arguments.neighbors)):
        gaps = []
        patch_attention(model, count, gaps=gaps)
        with torch.no_grad():
            expected = model(images.double())
        settings = [f'model.attention.kind="{kind}"'] + ([f"model.attention.neighbors={count}"] if count else [])
        actual = kvt_logits(arguments, settings, weights, images).double()
        difference = (actual - expected).abs().max().item()
        relative = difference / expected.abs().max().item()
        # A gap near f32 rounding means that some row may keep another key: then look at the size.
        gap = f", smallest gap at the k-th score {min(gaps):.1e}" if gaps else ""
        print(f"{kind:5}  absolute {difference:.3e}  relative {relative:.3e}{gap}")
        failed |= not relative <= arguments.tolerance
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
