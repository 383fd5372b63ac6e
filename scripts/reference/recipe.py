"""Golden training run with the whole recipe: the start of `trajectory.py`, with mixing, erasing and an average.

Writes `crates/kvt-train/tests/golden/recipe.safetensors`. The model, its initial weights, the images and their order are
those of `trajectory.safetensors` (run `trajectory.py` first), and so are optimizer, schedule, clipping and smoothing. An even
step erases normalised images and mixes them then (DeiT's order, timm's Mixup), an odd one mixes 8-bit images and erases then
(FastCollateMixup and PrefetchLoader of timm's training script).

  draws.<step>                    as in mix.safetensors: (kind, own, top, left, height, width), one row or one per image
  boxes.<step> [n,5] int32        image, top, left, height, width of each erased patch, in their order
  patches.<step> [floats]         their values, one after the other, [3, height, width] each
  losses, grad_norms, lrs [20]; logits, ema_logits [8,5] of the first batch, unmixed, after the last step

Metadata `f64`: the largest differences to the same run in f64.
"""

import copy
import random

import numpy as np
import timm.data.mixup as mixup
import torch
from safetensors.torch import load_file
from timm.data.random_erasing import RandomErasing
from timm.loss import SoftTargetCrossEntropy
from timm.scheduler import CosineLRScheduler

import mix
from common import golden, save
from deit import build
from trajectory import BATCH, CLASSES, MODEL, STEPS, TRAIN, parameter_groups

SEED = 3
assert (CLASSES, TRAIN["label_smoothing"]) == (mix.CLASSES, 0.1)
EMA_DECAY = 0.8
MODES = [dict(mode="batch"), dict(mode="elem", prob=0.75), dict(mode="batch"), dict(mode="pair", prob=0.75)]


def draw_patches():
    """What timm's RandomErasing writes into a batch: found by erasing one of a value that it never draws."""
    marker = 1e9
    batch = torch.full((BATCH, 3, 32, 32), marker)
    RandomErasing(0.25, mode="pixel", device="cpu")(batch)
    boxes, values = [], []
    for number, image in enumerate(batch):
        rows, columns = torch.nonzero(image[0] != marker, as_tuple=True)
        if len(rows):
            top, left = rows.min().item(), columns.min().item()
            height, width = rows.max().item() + 1 - top, columns.max().item() + 1 - left
            boxes.append((number, top, left, height, width))
            values.append(image[:, top : top + height, left : left + width].clone())
    return boxes, values


def erase(images, boxes, values):
    for (number, top, left, height, width), patch in zip(boxes, values):
        images[number, :, top : top + height, left : left + width] = patch.to(images.dtype)
    return images


def normalize(pixels, dtype, scale=1.0):
    """Pixels in units of 1 / scale of their range."""
    mean, std = (torch.tensor([x * scale for x in TRAIN[n]], dtype=dtype).reshape(1, 3, 1, 1) for n in ("mean", "std"))
    return (pixels.to(dtype) * (scale / 255) - mean) / std


def prepare(pixels, labels, order):
    """The mixed and erased images and targets of each step, in f64, and what was drawn."""
    np.random.seed(SEED)
    random.seed(SEED)
    torch.manual_seed(SEED)
    steps, drawn = [], {}
    for step, indices in enumerate(order):
        options = dict(mixup_alpha=0.8, cutmix_alpha=1.0, **MODES[step // 2 % len(MODES)])
        boxes, values = draw_patches()
        images, target = pixels[indices], labels[indices]
        if step % 2 == 0:
            mixer = mix.recorded(mixup.Mixup, **options)
            images = erase(normalize(images, torch.float64), boxes, values)
            draws, images, targets = mix.run(mixer, lambda: mixer(images, target))
        else:
            mixer = mix.recorded(mixup.FastCollateMixup, **options)
            batch = [(image.numpy().copy(), int(label)) for image, label in zip(images, target)]
            draws, images, targets = mix.run(mixer, lambda: mixer(batch))
            images = erase(normalize(images, torch.float64), boxes, values)
        steps.append((images, targets.double()))
        drawn[f"draws.{step}"] = draws
        drawn[f"boxes.{step}"] = torch.tensor(boxes, dtype=torch.int32).reshape(-1, 5)
        drawn[f"patches.{step}"] = torch.cat([v.flatten() for v in values]) if values else torch.zeros(0)
    return steps, drawn


def train(model, steps, probe, dtype):
    model = copy.deepcopy(model).to(dtype).train()
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=TRAIN["lr"], betas=TRAIN["betas"], eps=TRAIN["eps"],
                                  weight_decay=TRAIN["weight_decay"], foreach=False)
    schedule = CosineLRScheduler(optimizer, STEPS, lr_min=TRAIN["min_lr"], warmup_t=TRAIN["warmup_steps"],
                                 warmup_lr_init=TRAIN["warmup_lr"], t_in_epochs=False)
    record = {"losses": [], "grad_norms": [], "lrs": []}
    for step, (images, targets) in enumerate(steps):
        schedule.step_update(step)
        optimizer.zero_grad()
        loss = SoftTargetCrossEntropy()(model(images.to(dtype)), targets.to(dtype))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), TRAIN["clip_grad"])
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(average.state_dict().values(), model.state_dict().values()):
                old.copy_(EMA_DECAY * old + (1 - EMA_DECAY) * new)
        for name, value in zip(record, (loss.item(), norm.item(), optimizer.param_groups[0]["lr"])):
            record[name].append(value)
    record = {name: torch.tensor(value, dtype=torch.float64) for name, value in record.items()}
    with torch.no_grad():
        record["logits"] = model.eval()(probe.to(dtype)).double()
        record["ema_logits"] = average.eval()(probe.to(dtype)).double()
    return record


def main():
    start = load_file(golden("kvt-train") / "trajectory.safetensors")
    model = build(MODEL)
    model.load_state_dict({n.removeprefix("weights."): t for n, t in start.items() if n.startswith("weights.")})
    pixels = start["pixels"].permute(0, 3, 1, 2).contiguous()
    steps, drawn = prepare(pixels, start["labels"], start["order"])
    probe = normalize(pixels[start["order"][0]], torch.float64)
    record = train(model, steps, probe, torch.float32)
    wide = train(model, steps, probe, torch.float64)
    f64 = {name: (record[name] - wide[name]).abs().max().item() for name in record}
    print(f64, [round(x, 4) for x in record["losses"].tolist()])
    config = {**TRAIN, "drop_path": 0.0, "ema_decay": EMA_DECAY, "model": MODEL}
    save(golden("kvt-train") / "recipe.safetensors", drawn | record, config, SEED, f64=f64)


if __name__ == "__main__":
    main()
