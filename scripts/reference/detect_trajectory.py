"""Golden training runs of a small Mask R-CNN: 5 AdamW updates of mmdet's network, dense and k-NN, in f32 on the CPU.

Writes to `crates/kvt-train/tests/golden/dense/` what both runs start from:

  detect_trajectory.safetensors
    weights.<name>         by mmdet's names: its initialisation and some noise
    pixels [4,64,64,3]     uint8 (rows, columns, RGB)
    boxes.<image> [N,4]    x1, y1, x2, y2 of the objects, whole numbers
    labels.<image> [N]     int64, from 0
    masks.<image>          [N, 64, 64], uint8
    order [5,2] int64      images of each update: 0..3 in file order

and what comes of it:

  detect_trajectory_{dense,knn}.safetensors
    losses [5]             the sum of rpn_class_losses, rpn_box_losses, class_losses, box_losses and mask_losses
    grad_norms, lrs [5]
    final.<name>           the weights after the last update

Metadata `config`: every hyper-parameter; `f64`: largest differences of the numbers between this run and the same run in f64;
`drift`: the same for each final weight (of biases of keys, which have no effect, AdamW magnifies the rounding).

Every anchor and every proposal counts, so nothing is drawn; and none is cut off, since of equal scores PyTorch keeps any. The images are not changed. Rate of update t (from 0): lr, a tenth
from the milestone on, for t < 2 times 1 - (1 - t / 2) (1 - 1e-3).
The seed is the first whose runs agree in f32 and f64, whose k-NN rows are not near a tie at the k-th score, and whose targets
of masks are not near their threshold.
"""

import contextlib
import copy
import itertools
import math

import dense_swin
import mm
import torch
from common import DENSE, KNN, golden, save
from dense_recipe import KEYS
from dense_trajectory import MODEL
from mask_rcnn import LOSSES, watch_masks
from mmengine.optim import build_optim_wrapper

IMAGES, SIDE, UPDATES, BATCH, CLASSES = 4, 64, 5, 2, 3
AGREEING, APART, MARGIN = 2e-5, 1e-5, 1e-4
NAMES = ["rpn_class_losses", "rpn_box_losses", "class_losses", "box_losses", "mask_losses"]
BACKBONE = {**MODEL, "num_classes": CLASSES, "depths": [1, 1, 1, 1], "mlp_ratio": 1.0}
DETECT = dict(channels=4, hidden=12, proposals=dict(before=2000, kept=1000, iou=0.7), window_padding="seen")
TRAIN = dict(lr=1e-3, milestones=[4], gamma=0.1, warmup_updates=2, warmup_ratio=1e-3, updates=UPDATES, batch_size=BATCH,
             betas=[0.9, 0.999], eps=1e-8, weight_decay=0.05, decay="names", drop_path=0.0,
             mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])


def draw_images(generator):
    """Ellipses of the classes' colours on noise."""
    pixels = 110 + 25 * torch.randn(IMAGES, SIDE, SIDE, 3, generator=generator)
    colours = torch.tensor([[80, 0, -40], [-40, 80, 0], [0, -40, 80]])
    rows, columns = torch.meshgrid(*(torch.arange(SIDE) + 0.5 for _ in range(2)), indexing="ij")
    objects = []
    for number, image in enumerate(pixels):
        boxes, labels, masks = [], [], []
        for place in range(1 + number % 2):
            x, y = torch.randint(0, 30, (2,), generator=generator).tolist()
            width, height = torch.randint(14, 35, (2,), generator=generator).tolist()
            mask = (2 * (columns - x) / width - 1) ** 2 + (2 * (rows - y) / height - 1) ** 2 < 1
            labels.append((number + place) % CLASSES)
            image[mask] += colours[labels[-1]]
            boxes.append([x, y, x + width, y + height])
            masks.append(mask)
        objects.append((torch.tensor(boxes).float(), torch.tensor(labels), torch.stack(masks).to(torch.uint8)))
    return pixels.clamp(0, 255).to(torch.uint8), objects


def prepare(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    kept = DETECT["proposals"]
    model = mm.mask_rcnn(BACKBONE, DETECT["channels"], DETECT["hidden"], CLASSES, (kept["before"], kept["kept"]))
    with contextlib.redirect_stdout(None):  # it tells that nothing is loaded
        model.init_weights()
    for name, p in model.named_parameters():
        scores = "qkv.weight" in name or "relative_position" in name  # far enough apart
        p.data.add_((0.5 if scores else 0.1) * torch.randn(p.shape, generator=generator))
    return model, *draw_images(generator)


def rate(t):
    warmup, ratio = TRAIN["warmup_updates"], TRAIN["warmup_ratio"]
    regular = TRAIN["lr"] * TRAIN["gamma"] ** sum(t >= milestone for milestone in TRAIN["milestones"])
    return regular * (1 - (1 - t / warmup) * (1 - ratio)) if t < warmup else regular


def train(model, pixels, objects, order, neighbors, dtype):
    """What is recorded, the final weights, the smallest gap of a k-NN row and the margin of the masks' targets."""
    model, gaps, margins = copy.deepcopy(model).to(dtype), [], []
    model.train()
    dense_swin.patch(model.backbone, neighbors, DETECT["window_padding"] == "hidden", gaps)
    watch_masks(margins)
    mean, std = (torch.tensor(TRAIN[name], dtype=dtype) for name in ("mean", "std"))
    images = ((pixels.to(dtype) - mean) / std).permute(0, 3, 1, 2)
    optimizer = build_optim_wrapper(model, dict(
        type="OptimWrapper",
        optimizer=dict(type="AdamW", lr=TRAIN["lr"], betas=TRAIN["betas"], eps=TRAIN["eps"],
                       weight_decay=TRAIN["weight_decay"], foreach=False),
        paramwise_cfg=dict(custom_keys={key: dict(decay_mult=0.0) for key in KEYS["swin"]}))).optimizer
    record = {name: [] for name in ("losses", *NAMES, "grad_norms", "lrs")}
    for update, indices in enumerate(order):
        for group in optimizer.param_groups:
            group["lr"] = rate(update)
        samples = [mm.objects(objects[image][0].to(dtype), *objects[image][1:], (SIDE, SIDE)) for image in indices.tolist()]
        losses = model.loss(images[indices], samples)
        losses = [losses[name] for name in LOSSES]
        losses = [sum(loss) if isinstance(loss, list) else loss.sum() for loss in losses]
        optimizer.zero_grad()
        sum(losses).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        optimizer.step()
        numbers = [sum(losses).item(), *(loss.item() for loss in losses), norm.item(), rate(update)]
        for name, value in zip(record, numbers, strict=True):
            record[name].append(value)
    record = {name: torch.tensor(values, dtype=torch.float64) for name, values in record.items()}
    return record, state(model), min(gaps, default=math.inf), min(margins)


def state(model):
    return {name: value for name, value in model.state_dict().items() if value.is_floating_point()}


def attempt(seed, order):
    """The runs of a seed; nothing if rounding decides something."""
    start, runs = prepare(seed), {}
    for kind, attention in (("knn", {**KNN, "neighbors": 0.8}), ("dense", DENSE)):
        single, wide = (train(*start, order, attention["neighbors"], dtype) for dtype in (torch.float32, torch.float64))
        differences = {name: ((single[0][name] - value).abs() / value.abs().clamp(min=1e-12)).max().item()
                       for name, value in wide[0].items()}
        gap, margin = min(single[2], wide[2]), min(single[3], wide[3])
        print("seed", seed, kind, f"difference {max(differences.values()):.1e} gap {gap:.1e} margin {margin:.1e}")
        if max(differences.values()) > AGREEING or gap < APART or margin < MARGIN:
            return None
        runs[kind] = (attention, single, wide)
    return start, runs


def main():
    mm.init_default_scope("mmdet")
    order = torch.arange(UPDATES * BATCH).remainder(IMAGES).reshape(UPDATES, BATCH)
    seed, found = next((seed, found) for seed in itertools.count() if (found := attempt(seed, order)))
    (model, pixels, objects), runs = found
    start = {f"weights.{name}": value for name, value in state(model).items()} | {"pixels": pixels, "order": order}
    for image, (boxes, labels, masks) in enumerate(objects):
        start |= {f"boxes.{image}": boxes, f"labels.{image}": labels, f"masks.{image}": masks}
    folder = golden("kvt-train") / "dense"
    versions = mm.detection_versions()
    save(folder / "detect_trajectory.safetensors", start, {"model": BACKBONE, **DETECT, **TRAIN}, seed, mm=versions)
    for kind, (attention, (record, final, *_), (wide, wide_final, *_)) in runs.items():
        f64 = {name: (record[name] - wide[name]).abs().max().item() for name in record}
        drift = {name: (value - wide_final[name]).abs().max().item() for name, value in final.items()}
        print(kind, "f64 differences", f64)
        for name in ("losses", *NAMES, "grad_norms"):
            print(" ", name, [round(x, 4) for x in record[name].tolist()])
        print("  drift", {name: f"{x:.1e}" for name, x in drift.items() if x > 1e-5})
        config = {"model": {**BACKBONE, "attention": attention}, **DETECT, **TRAIN}
        tensors = record | {f"final.{name}": value for name, value in final.items()}
        save(folder / f"detect_trajectory_{kind}.safetensors", tensors, config, seed, f64=f64, drift=drift, mm=versions)


if __name__ == "__main__":
    main()
