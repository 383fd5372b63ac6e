#!/usr/bin/env python3
"""Trains mmsegmentation's UPerNet with Swin on the scenes that kvt generates, by the recipe of `configs/scenes/swin_dense.toml`.

    kvt train configs/scenes/swin_dense.toml        # generates `data/scenes`, where it is not there yet
    python scripts/reference/upernet_training.py data/scenes --epochs 8 --start start.safetensors
    kvt train configs/scenes/swin_dense.toml --set train.epochs=8 --set init.weights=start.safetensors

The training starts from the weights that mmsegmentation's classes have when they are made, or with `--init-weights` from those that
`init_weights` then draws. Prints the mIoU of the validation images after each epoch.
"""

import argparse
from pathlib import Path

import mm
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file

MODEL = dict(img_size=64, patch_size=4, in_chans=3, num_classes=5, embed_dim=32, depths=[1, 1, 2, 1], num_heads=[2, 4, 8, 16],
             window_size=4, mlp_ratio=4.0, qkv_bias=True)
LR, WEIGHT_DECAY, WARMUP, BATCH = 1e-3, 0.01, 100, 8
MEAN, STD = (torch.tensor(values).view(1, 3, 1, 1) for values in ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375]))


def build(seed):
    torch.manual_seed(seed)
    dims = [MODEL["embed_dim"] * 2**stage for stage in range(4)]
    return mm.upernet(mm.swin_config(MODEL), dims, 48, 24, MODEL["num_classes"], dropout=0.1)


def read(folder, split):
    files = [sorted((folder / kind / split).iterdir()) for kind in ("images", "masks")]
    images, masks = (np.stack([np.array(Image.open(path)) for path in paths]) for paths in files)
    return (torch.from_numpy(images).permute(0, 3, 1, 2).float() - MEAN) / STD, torch.from_numpy(masks).long()


def enlarged(logits, size):
    return F.interpolate(logits, size=size, mode="bilinear", align_corners=False)


@torch.no_grad()
def miou(model, images, masks):
    model.eval()
    found = torch.cat([enlarged(model.decode_head(model.backbone(part)), masks.shape[1:]).argmax(1) for part in images.split(20)])
    right, seen, there = (torch.bincount(classes.flatten(), minlength=MODEL["num_classes"])
                          for classes in (found[found == masks], found, masks))
    model.train()
    return (100 * right / (seen + there - right)).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the scenes")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--init-weights", action="store_true", help="call mmsegmentation's `init_weights`")
    parser.add_argument("--start", type=Path, help="also write the weights before the training")
    args = parser.parse_args()
    model = build(args.seed)
    if args.init_weights:
        model.init_weights()
    if args.start:
        lacking = ("num_batches_tracked", "relative_position_index")
        state = model.state_dict().items()
        save_file({name: value.contiguous() for name, value in state if not name.endswith(lacking)}, args.start)
    (images, masks), val = read(args.data, "train"), read(args.data, "val")
    fixed = ("norm", "relative_position_bias_table")
    groups = {}
    for name, parameter in model.named_parameters():
        groups.setdefault(0.0 if any(word in name for word in fixed) else WEIGHT_DECAY, []).append(parameter)
    optimizer = torch.optim.AdamW([dict(params=params, weight_decay=decay) for decay, params in groups.items()], LR)
    updates, drawn = args.epochs * (len(images) // BATCH), torch.Generator().manual_seed(args.seed + 1)
    model.train()
    for epoch in range(args.epochs):
        order = torch.randperm(len(images), generator=drawn)[: updates // args.epochs * BATCH]
        for number, batch in enumerate(order.view(-1, BATCH)):
            update = epoch * (updates // args.epochs) + number
            rate = LR * min((update + 1) / WARMUP, 1 - update / updates)
            for group in optimizer.param_groups:
                group["lr"] = rate
            flipped = torch.rand(BATCH, generator=drawn) < 0.5
            pixels, labels = images[batch], masks[batch]
            pixels[flipped], labels[flipped] = pixels[flipped].flip(-1), labels[flipped].flip(-1)
            maps = model.backbone(pixels)
            losses = [F.cross_entropy(enlarged(head(maps), labels.shape[1:]), labels)
                      for head in (model.decode_head, model.auxiliary_head)]
            optimizer.zero_grad()
            (losses[0] + 0.4 * losses[1]).backward()
            optimizer.step()
        print(f"epoch {epoch + 1}  mIoU {miou(model, *val):.2f} %", flush=True)


if __name__ == "__main__":
    main()
