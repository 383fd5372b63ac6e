"""Compares the classes that a `kvt` binary gives to pixels with mmsegmentation's UPerNet of full size, on random weights.

  python scripts/reference/dense_cross_check.py target/release/kvt swin
  python scripts/reference/dense_cross_check.py target/release/kvt twins --size 128,224
  python scripts/reference/dense_cross_check.py target/release/kvt swin --size 512,512 --neighbors 39 --device cuda

The networks are those of the recipes for ADE20K: Swin-T or Twins-SVT-B, 512 channels, 150 classes. Their weights go to kvt in a
`.pth` as the published ones are, `{"state_dict": .., "meta": ..}`: of a Swin by mmsegmentation's names with its tables of indices,
of a Twins by the authors', with the heads of mmsegmentation; the auxiliary head and the counters of batch norms are there, too.

Runs `kvt predict --config CONFIG --weights W --masks --out DIR IMAGE`, dense and k-NN: CONFIG has `task = "segment"` and evaluates an
image at its size. As `kvt predict` writes classes, not logits, a class is judged by how far its logit, by PyTorch in f64, is below the
largest of the pixel, relative to the largest logit of all. The script prints the worst pixel, beside the worst one of PyTorch in f32, and
fails above --tolerance. k-NN with padding that is seen is only compared for a Swin: in a Twins padding keys tie.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import dense_swin
import dense_twins
import mm
import numpy
import torch
import torch.nn.functional as F
from common import randomize
from cross_check import calibrate, neighbors
from PIL import Image

CLASSES, CHANNELS, AUX_CHANNELS = 150, 512, 256
HEADS = [3, 6, 12, 24]
SWIN = {**dense_swin.SWIN, "embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": HEADS, "mlp_ratio": 4.0}
TWINS = {**dense_twins.TWINS, "embed_dims": [96, 192, 384, 768], "depths": [2, 2, 18, 2], "num_heads": HEADS,
         "mlp_ratio": 4.0}
NAMES = {"swin": "swin_tiny_patch4_window7_224", "twins": "twins_svt_base"}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
PATCHES = {"swin": dense_swin.patch, "twins": dense_twins.patch}


def network(family):
    backbone = mm.swin(SWIN) if family == "swin" else mm.twins(TWINS)
    return mm.upernet(backbone, TWINS["embed_dims"], CHANNELS, AUX_CHANNELS, CLASSES)


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
    long, short = max(arguments.size), min(arguments.size)
    return f"""task = "segment"
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
[dense]
scale = [{long}, {short}]
"""


def kvt_classes(arguments, kind, count, weights, picture):
    """The class of each pixel, [rows, columns]."""
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: str(Path(folder) / name)
        torch.save({"state_dict": weights, "meta": {"CLASSES": ["class"] * CLASSES}}, path("weights.pth"))
        Image.fromarray(picture).save(path("picture.png"))
        Path(path("config.toml")).write_text(configuration(arguments, kind, count))
        command = [arguments.kvt, "predict", "--config", path("config.toml"), "--weights", path("weights.pth")]
        command += ["--masks", "--out", path("masks"), path("picture.png")]
        for setting in arguments.set + ([f"train.device={arguments.device}"] if arguments.device else []):
            command += ["--set", setting]
        subprocess.run(command, check=True)
        (mask,) = Path(path("masks")).glob("*.png")
        return torch.from_numpy(numpy.asarray(Image.open(mask)).astype(numpy.int64))


def parse():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("kvt", help="path of the binary")
    parser.add_argument("family", choices=NAMES)
    parser.add_argument("--size", default="128,160", help="rows,columns of the image")
    parser.add_argument("--padding", choices=["seen", "hidden"], help="by default as the recipe: seen (swin), hidden (twins)")
    parser.add_argument("--neighbors", type=neighbors, default=0.8, help="count, or share of the keys with a point")
    parser.add_argument("--set", action="append", default=[], help="passed on to kvt; repeatable")
    parser.add_argument("--device", help="kvt's `train.device`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    arguments = parser.parse_args()
    arguments.padding = arguments.padding or {"swin": "seen", "twins": "hidden"}[arguments.family]
    arguments.size = [int(side) for side in arguments.size.split(",")]
    return arguments


def main():
    arguments = parse()
    generator = torch.Generator().manual_seed(arguments.seed)
    model = network(arguments.family)
    model.eval()
    randomize(model, generator)
    pictures = torch.randint(0, 256, (2, *arguments.size, 3), generator=generator, dtype=torch.uint8)
    images = ((pictures.double() / 255 - torch.tensor(MEAN)) / torch.tensor(STD)).permute(0, 3, 1, 2)
    calibrate(model, images.float())
    weights = published(model, arguments.family)

    def logits(count, dtype, gaps):
        PATCHES[arguments.family](model.backbone, count, arguments.padding == "hidden", gaps)
        with torch.no_grad():
            maps = model.to(dtype).backbone(images[:1].to(dtype))
            found = model.decode_head(maps)
        return F.interpolate(found, size=arguments.size, mode="bilinear", align_corners=False)[0].double()

    kinds = [("dense", None), ("knn", arguments.neighbors)]
    if (arguments.family, arguments.padding) == ("twins", "seen"):
        kinds.pop()
    failed = False
    for kind, count in kinds:
        gaps = []
        exact, single = logits(count, torch.float64, gaps), logits(count, torch.float32, None)
        best, size = exact.amax(0), exact.abs().max()
        below = lambda classes: ((best - exact.gather(0, classes[None])[0]).max() / size).item()
        classes = kvt_classes(arguments, kind, count, weights, pictures[0].numpy())
        equal = (classes == exact.argmax(0)).double().mean().item()
        # A gap near f32 rounding means that some row may keep another key, PyTorch's in f32 too.
        gap = f", smallest gap at the k-th score {min(gaps):.1e}" if gaps else ""
        print(f"{kind:5}  {arguments.padding}  worst pixel {below(classes):.3e}  (PyTorch in f32 {below(single.argmax(0)):.3e})  "
              f"{100 * equal:.3f} % of the classes equal, of {len(exact.argmax(0).unique())} that occur{gap}")
        failed |= not below(classes) <= arguments.tolerance
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
