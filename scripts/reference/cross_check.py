"""Compares the logits of a `kvt` binary with PyTorch's, dense and k-NN, on random weights and images.

  python scripts/reference/cross_check.py target/release/kvt deit_tiny_patch16_224
  python scripts/reference/cross_check.py target/release/kvt deit_small_patch16_224 --neighbors 100
  python scripts/reference/cross_check.py target/release/kvt pit_s_224 --neighbors 0.5,0.5,0.7 --device cuda
  python scripts/reference/cross_check.py target/release/kvt cvt_13 --cvt-source CVT_CHECKOUT
  python scripts/reference/cross_check.py target/release/kvt tnt_s_patch16_224 --neighbors 1.0,0.5
  python scripts/reference/cross_check.py target/release/kvt visformer_tiny --neighbors 150,45
  python scripts/reference/cross_check.py target/release/kvt so_vit_7 --so-vit-source SOVIT_CHECKOUT
  python scripts/reference/cross_check.py target/release/kvt twins_svt_base --neighbors 0.8
  python scripts/reference/cross_check.py target/release/kvt t2t_vit_t_19 --neighbors 0.6667 --t2t-source T2T_CHECKOUT
  python scripts/reference/cross_check.py target/release/kvt volo_d1_224
  python scripts/reference/cross_check.py target/release/kvt vit_small_patch16_dinov3
  python scripts/reference/cross_check.py target/release/kvt vit_large_patch14_dinov2 --img-size 224 --batch 1

ViT and DeiT, Swin, PiT, TNT, Visformer, Twins and VOLO are timm's, CvT, T2T-ViT and So-ViT come from checkouts of their official
repositories (see `cvt.py`, `t2t.py`, `sovit.py`).

Runs `kvt logits --model NAME --set ... --weights W --input IN --output OUT`: W has the reference's names,
IN a tensor `images` [B,C,H,W] (normalised already), OUT must come back with `logits` [B,classes]; all are
safetensors. As in published checkpoints, the weights of a CvT include `num_batches_tracked`, an integer.
Prints the largest differences from PyTorch in f64, beside those of PyTorch in f32, and fails above --tolerance (relative to the largest logit). For people,
not for CI: it needs PyTorch, timm and a built binary.
"""

import argparse
import gc
import subprocess
import sys
import tempfile
from pathlib import Path

import timm
import torch
from safetensors.torch import load_file, save_file

import cvt
import sovit
import t2t
import tnt
import twins
import visformer
import vit
import volo
from common import KNN, patch_attention, randomize

# Families that give their blocks Algorithm 1 themselves.
PATCHES = {
    "deit3": vit.patch, "t2t": t2t.patch, "tnt": tnt.patch, "twins": twins.patch, "visformer": visformer.patch, "vit": vit.patch, "volo": volo.patch,
}


def neighbors(text):
    counts = [int(part) if part.isdigit() else float(part) for part in text.split(",")]
    return counts if len(counts) > 1 else counts[0]


def sources(parser):
    """The options that `reference` reads, for other scripts too."""
    parser.add_argument("--cvt-source", help="folder of a CvT checkout")
    parser.add_argument("--so-vit-source", help="folder of a So-ViT checkout")
    parser.add_argument("--t2t-source", help="folder of a T2T-ViT checkout")


def reference(arguments, **settings):
    """The model, and the shape of its images. `settings` are for timm's models."""
    if arguments.model.startswith("so_vit_"):
        if not arguments.so_vit_source:
            sys.exit("a So-ViT needs --so-vit-source, a checkout of https://github.com/jiangtaoxie/So-ViT at c31972e")
        model = sovit.published(arguments.so_vit_source, arguments.model)
        for block in model.blocks:  # timm's attention has this field
            block.attn.head_dim = block.attn.qkv.in_features // block.attn.num_heads
        return model, (3, 224, 224)
    if arguments.model.startswith("t2t_vit_"):
        if not arguments.t2t_source:
            sys.exit("a T2T-ViT needs --t2t-source, a checkout of https://github.com/yitu-opensource/T2T-ViT")
        return t2t.published(arguments.t2t_source, arguments.model), (3, 224, 224)
    if not arguments.model.startswith("cvt_"):
        # Some have no head by default.
        model = timm.create_model(arguments.model, num_classes=1000, **settings)
        side = settings.get("img_size")
        return model, (3, side, side) if side else model.default_cfg["input_size"]
    if not arguments.cvt_source:
        sys.exit("a CvT needs --cvt-source, a checkout of https://github.com/microsoft/CvT")
    name, large, _ = arguments.model.partition("_384")
    side = 384 if large else 224
    return cvt.published(arguments.cvt_source, name), (3, side, side)


def calibrate(model, images):
    """Running statistics that are those of the images: random ones let the stream of a deep model with batch norms grow
    until f32 has no digits left for its differences."""
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.train()
        norm.momentum = None
        norm.reset_running_stats()
    with torch.no_grad():
        model(images)
    for norm in norms:
        norm.eval()


def attend(arguments, model, count, gaps=None):
    """Gives every block Algorithm 1."""
    patch = PATCHES.get(arguments.model.split("_")[0])
    if patch is None:
        patch_attention(model, count, gaps=gaps)
    else:
        patch(model, {**KNN, "neighbors": count}, gaps)


def kvt_logits(arguments, settings, folder):
    """The logits of the weights and images in a folder."""
    command = [arguments.kvt, "logits", "--model", arguments.model]
    for setting in [*settings, *arguments.set]:
        command += ["--set", setting]
    for name in ("weights", "input", "output"):
        command += [f"--{name}", str(folder / f"{name}.safetensors")]
    if arguments.device:
        command += ["--device", arguments.device]
    subprocess.run(command, check=True)
    return load_file(folder / "output.safetensors")["logits"]


def expected_logits(arguments, model, images, count):
    """In f64 and in f32, and the smallest gaps at the k-th scores."""
    gaps = []
    attend(arguments, model, count, gaps)
    with torch.no_grad():
        double = model(images.double())
        attend(arguments, model, count)
        # The weights are f32, so that nothing is lost on the way there and back.
        single = model.float()(images).double()
        model.double()
    return double, single, gaps


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("kvt", help="path of the binary")
    parser.add_argument("model", help="a model name that timm and kvt share, or kvt's name of a CvT")
    parser.add_argument("--neighbors", type=neighbors, default=0.5,
                        help="count, or share of the keys with a point; with commas: one per stage")
    sources(parser)
    parser.add_argument("--set", action="append", default=[], help="passed on to kvt; repeatable")
    parser.add_argument("--img-size", type=int, help="of timm's models; by default the name's own")
    parser.add_argument("--device", help="passed on to kvt")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    arguments = parser.parse_args()

    generator = torch.Generator().manual_seed(arguments.seed)
    size = {"img_size": arguments.img_size} if arguments.img_size else {}
    arguments.set += [f"model.{key}={side}" for key, side in size.items()]
    model, shape = reference(arguments, **size)
    randomize(model.eval(), generator)
    images = torch.randn(arguments.batch, *shape, generator=generator)
    calibrate(model, images)
    kinds = {"dense": None, "knn": arguments.neighbors}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_file({name: p.detach().contiguous() for name, p in model.state_dict().items()}, folder / "weights.safetensors")
        save_file({"images": images}, folder / "input.safetensors")
        model.double()
        expected = {kind: expected_logits(arguments, model, images, count) for kind, count in kinds.items()}
        # A large model fits into memory once: PyTorch's is gone when kvt's is made.
        del model
        gc.collect()
        return compare(arguments, kinds, expected, folder)


def compare(arguments, kinds, expected, folder):
    failed = False
    for kind, count in kinds.items():
        settings = [f'model.attention.kind="{kind}"']
        if count is not None:
            settings.append(f"model.attention.neighbors={count}")
        actual = kvt_logits(arguments, settings, folder).double()
        double, single, gaps = expected[kind]
        difference = (actual - double).abs().max().item()
        size = double.abs().max().item()
        relative, own = difference / size, (single - double).abs().max().item() / size
        # A gap near f32 rounding means that some row may keep another key, PyTorch's in f32 too.
        gap = f", smallest gap at the k-th score {min(gaps):.1e}" if gaps else ""
        print(f"{kind:5}  absolute {difference:.3e}  relative {relative:.3e}  (PyTorch in f32 {own:.3e}){gap}")
        failed |= not relative <= arguments.tolerance
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
