"""Compares what a `kvt` binary finds in an image with mmdet's Mask R-CNN of full size, on random weights.

  python scripts/reference/detect_cross_check.py target/release/kvt swin
  python scripts/reference/detect_cross_check.py target/release/kvt twins --size 128,224
  python scripts/reference/detect_cross_check.py target/release/kvt twins --size 128,224 --padding hidden
  python scripts/reference/detect_cross_check.py target/release/kvt swin --size 800,1088 --neighbors 39 --device cuda

The networks are those of the recipes for COCO: Swin-T or Twins-SVT-B, 256 channels, 80 classes, 1000 proposals, 100 detections.
Their weights go to kvt in a `.pth` as the published ones are, `{"state_dict": .., "meta": ..}`: of a Swin by mmdet's names with its
tables of indices, of a Twins by the authors', with mmdet's neck and heads.

Runs `kvt eval --config CONFIG --weights W --out detections.json`, dense and k-NN, on a folder in COCO's format with one image, whose
size is not changed. Prints for kvt, and for PyTorch in f32, beside PyTorch in f64: how many of the detections are the same (the class,
an IoU of at least 0.9), the largest differences of their scores and of their corners in pixels, and the share of the pixels of their
masks that differ. Fails where fewer than --least of the detections are the same, scores or corners differ by more than --tolerance
(corners: of the longer side), or more than a thousandth of the masks. k-NN with padding that is seen is only compared for a Swin: in a
Twins padding keys tie.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import dense_cross_check as dense
import mm
import numpy
import torch
import torchvision
from common import randomize
from cross_check import neighbors
from mask_rcnn import sample_grid
from PIL import Image
from pycocotools import mask as coco

CLASSES, CHANNELS, HIDDEN, PROPOSALS, RESULTS = 80, 256, 1024, 1000, (0.05, 100)
SAME, MASKS = 0.9, 1e-3
# Half of what a relu gets is lost; the classes are told apart.
SPREADS = {"fc_cls": 2.5, "fc_reg": 0.5, "rpn_reg": 0.3}


def network(family):
    backbone = mm.swin(dense.SWIN) if family == "swin" else mm.twins(dense.TWINS)
    return mm.mask_rcnn(None, CHANNELS, HIDDEN, CLASSES, (PROPOSALS, PROPOSALS), RESULTS,
                        backbone=(backbone, dense.TWINS["embed_dims"]))


def prepared(arguments):
    """The network and the image."""
    generator = torch.Generator().manual_seed(arguments.seed)
    model = network(arguments.family)
    model.eval()
    randomize(model, generator)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 and not name.startswith("backbone"):
            parameter.data.mul_(next((spread for part, spread in SPREADS.items() if part in name), 1.4))
    return model, torch.randint(0, 256, (*arguments.size, 3), generator=generator, dtype=torch.uint8)


def found(model, picture, dtype):
    """mmdet's detections: classes, scores, corners, masks."""
    size = tuple(picture.shape[:2])
    image = ((picture.to(dtype) / 255 - torch.tensor(dense.MEAN, dtype=dtype)) / torch.tensor(dense.STD, dtype=dtype)).permute(2, 0, 1)
    nothing = (torch.zeros(0, 4, dtype=dtype), torch.zeros(0, dtype=torch.int64), torch.zeros(0, *size, dtype=torch.uint8))
    model = model.to(dtype)
    with torch.no_grad():
        (sample,) = model.predict(image[None], [mm.objects(*nothing, size)], rescale=True)
    result = sample.pred_instances
    return result.labels, result.scores.double(), result.bboxes.double(), result.masks.bool()


def kvt_found(arguments, kind, count, weights, picture):
    """The same of kvt."""
    height, width = arguments.size
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: Path(folder) / name
        torch.save({"state_dict": weights, "meta": {"CLASSES": ["class"] * CLASSES}}, path("weights.pth"))
        one = dict(id=1, image_id=1, category_id=1, bbox=[1, 1, 30, 30], area=900, iscrowd=0)
        file = dict(images=[dict(id=1, file_name="picture.png", height=height, width=width)], annotations=[one],
                    categories=[dict(id=label + 1, name=f"class {label}") for label in range(CLASSES)])
        path("data/annotations").mkdir(parents=True)
        for split in ("train", "val"):
            path(f"data/{split}").mkdir()
            Image.fromarray(picture).save(path(f"data/{split}/picture.png"))
            path(f"data/annotations/instances_{split}.json").write_text(json.dumps(file))
        path("config.toml").write_text(f"""task = "detect"
[model]
name = "{dense.NAMES[arguments.family]}"
[model.attention]
kind = "{kind}"
{"" if count is None else f"neighbors = {count}"}
[detect]
window_padding = "{arguments.padding}"
[data]
kind = "coco"
path = "{path("data")}"
[multiscale]
sizes = [{min(height, width)}]
max = {max(height, width)}
""")
        command = [arguments.kvt, "eval", "--config", path("config.toml"), "--weights", path("weights.pth")]
        command += ["--out", path("detections.json")]
        for setting in arguments.set + ([f"train.device={arguments.device}"] if arguments.device else []):
            command += ["--set", setting]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        results = json.loads(path("detections.json").read_text())
    boxes = torch.tensor([result["bbox"] for result in results], dtype=torch.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    masks = [torch.from_numpy(coco.decode(result["segmentation"])).bool() for result in results]
    return (torch.tensor([result["category_id"] - 1 for result in results]),
            torch.tensor([result["score"] for result in results], dtype=torch.float64), boxes, masks)


def compared(own, exact):
    """The share of the detections that are the same, and the largest differences of scores, corners and masks."""
    overlaps = torchvision.ops.box_iou(exact[2], own[2])
    overlaps[exact[0][:, None] != own[0][None]] = 0
    scores, corners, pixels, area, same = 0.0, 0.0, 0, 0, 0
    for place, row in enumerate(overlaps):
        other = int(row.argmax()) if len(row) else 0
        if len(row) == 0 or row[other] < SAME:
            continue
        overlaps[:, other] = 0  # each counts once
        same += 1
        scores = max(scores, (exact[1][place] - own[1][other]).abs().item())
        corners = max(corners, (exact[2][place] - own[2][other]).abs().max().item())
        pixels += (exact[3][place] != own[3][other]).sum().item()
        area += exact[3][place].sum().item()
    return same / max(len(exact[0]), len(own[0]), 1), scores, corners, pixels / max(area, 1)


def told(numbers):
    return "{:.1%} the same, scores {:.1e}, corners {:.1e} px, masks {:.1e}".format(*numbers)


def parse():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("kvt", help="path of the binary; `-` compares PyTorch with itself alone")
    parser.add_argument("family", choices=dense.NAMES)
    parser.add_argument("--size", default="128,160", help="rows,columns of the image: multiples of 32")
    parser.add_argument("--padding", choices=["seen", "hidden"], default="seen", help="by default as the recipes: seen")
    parser.add_argument("--neighbors", type=neighbors, default=0.8, help="count, or share of the keys with a point")
    parser.add_argument("--set", action="append", default=[], help="passed on to kvt; repeatable")
    parser.add_argument("--device", help="kvt's `train.device`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, default=0.97)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    arguments = parser.parse_args()
    arguments.size = [int(side) for side in arguments.size.split(",")]
    if any(side % 32 for side in arguments.size):
        parser.error("--size: sides that are multiples of 32 need no padding")
    return arguments


def main():
    arguments = parse()
    torch.nn.functional.grid_sample = sample_grid
    model, picture = prepared(arguments)
    weights = dense.published(model, arguments.family)
    kinds = [("dense", None), ("knn", arguments.neighbors)]
    if (arguments.family, arguments.padding) == ("twins", "seen"):
        kinds.pop()
    failed = False
    for kind, count in kinds:
        gaps = []
        dense.PATCHES[arguments.family](model.backbone, count, arguments.padding == "hidden", gaps)
        exact = found(model, picture, torch.float64)
        gap = f", smallest gap at the k-th score {min(gaps):.1e}" if gaps else ""
        single = found(model, picture, torch.float32)
        print(f"{kind}  {arguments.padding}  {len(exact[0])} detections of {len(exact[0].unique())} classes, scores from "
              f"{exact[1].min():.3f} to {exact[1].max():.3f}, masks of {sum(mask.sum().item() for mask in exact[3])} pixels{gap}")
        print(f"  PyTorch in f32  {told(compared(single, exact))}")
        if arguments.kvt != "-":
            same, scores, corners, masks = compared(kvt_found(arguments, kind, count, weights, picture.numpy()), exact)
            print(f"  kvt             {told((same, scores, corners, masks))}")
            most = arguments.tolerance
            failed |= same < arguments.least or scores > most or corners > most * max(arguments.size) or masks > MASKS
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
