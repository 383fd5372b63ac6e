"""Golden training runs of a small UPerNet: 10 AdamW updates of mmsegmentation's network, dense and k-NN, in f32 on the CPU.

Writes to `crates/kvt-train/tests/golden/dense/` what both runs start from:

  dense_trajectory.safetensors
    weights.<name>         by mmsegmentation's names: its initialisation and some noise, random running statistics
    pixels [8,48,48,3]     uint8 (rows, columns, RGB)
    labels [8,48,48]       uint8, 255 is ignored
    order [10,4] int64     images of each update: 0..7 in file order, five times

and what comes of it:

  dense_trajectory_{dense,knn}.safetensors
    losses [10]            of the decode head and 0.4 of the auxiliary head's, divided by the number of all pixels
    decode_losses, aux_losses (without its weight), grad_norms, lrs [10]
    final.<name>           the weights and running statistics after the last update

Metadata `config`: every hyper-parameter; `f64`: largest differences of the numbers between this run and the same run in f64;
`drift`: the same for each final weight. Where a parameter has no effect but rounding (biases of keys, of norms before a
convolution of 1x1 and a batch norm) AdamW magnifies it: such weights have no reproducible value, and no effect on the others.

The images are not changed: no resizing, cropping, flipping, distortion. Normalisation is mmsegmentation's.
Rate of update t (from 0): lr (1 - t / 10), for t < 3 times 1 - (1 - t / 3) (1 - 1e-6).
The seed is the one of SEEDS whose k-NN rows stay furthest from a tie at the k-th score, of those where the k-NN run is AGREEING
with itself in f64.
"""

import contextlib
import copy
import math

import dense_swin
import mm
import torch
from common import DENSE, KNN, golden, save
from dense_recipe import KEYS
from mmengine.optim import build_optim_wrapper

SEEDS, IMAGES, SIDE, UPDATES, BATCH, CLASSES, IGNORED = 24, 8, 48, 10, 4, 4, 255
AGREEING = 1e-5  # largest difference of gradient norms
MODEL = dict(img_size=64, patch_size=4, in_chans=3, num_classes=CLASSES, embed_dim=4, depths=[1, 1, 2, 1],
             num_heads=[1, 2, 2, 4], window_size=4, mlp_ratio=2.0, qkv_bias=True)
SEGMENT = dict(channels=8, pool_scales=[1, 2, 3, 6], dropout=0.0, aux_stage=3, aux_channels=4, aux_weight=0.4,
               average="all", window_padding="seen")
TRAIN = dict(lr=1e-3, min_lr=0.0, power=1.0, warmup_updates=3, warmup_ratio=1e-6, updates=UPDATES, batch_size=BATCH,
             betas=[0.9, 0.999], eps=1e-8, weight_decay=0.01, decay="names", drop_path=0.0, ignore=IGNORED,
             mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])


def draw_images(generator):
    """Rectangles of the classes' colours on noise, with a strip that is ignored."""
    pixels = 110 + 25 * torch.randn(IMAGES, SIDE, SIDE, 3, generator=generator)
    labels = torch.zeros(IMAGES, SIDE, SIDE, dtype=torch.int64)
    colours = torch.tensor([[0, 0, 0], [80, 0, -40], [-40, 80, 0], [0, -40, 80]])
    for number, (image, label) in enumerate(zip(pixels, labels)):
        for kind in (1 + number % 3, 1 + (number + 1) % 3):
            top, left = torch.randint(0, 24, (2,), generator=generator).tolist()
            height, width = torch.randint(12, 25, (2,), generator=generator).tolist()
            image[top : top + height, left : left + width] += colours[kind]
            label[top : top + height, left : left + width] = kind
        label[:, 6 * number : 6 * number + 5] = IGNORED
    return pixels.clamp(0, 255).to(torch.uint8), labels


def build():
    dims = [MODEL["embed_dim"] * 2**stage for stage in range(4)]
    return mm.upernet(mm.swin_config(MODEL), dims, SEGMENT["channels"], SEGMENT["aux_channels"], CLASSES)


def prepare(seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = build()
    with contextlib.redirect_stdout(None):  # it tells that nothing is loaded
        model.init_weights()
    for p in model.parameters():
        p.data.add_(0.1 * torch.randn(p.shape, generator=generator))
    for name, p in model.named_parameters():  # scores far enough apart
        if "qkv.weight" in name or "relative_position" in name:
            p.data.add_(0.5 * torch.randn(p.shape, generator=generator))
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
        elif name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
    return model, *draw_images(generator)


def rate(t):
    lr, warmup, ratio = TRAIN["lr"], TRAIN["warmup_updates"], TRAIN["warmup_ratio"]
    regular = lr * (1 - t / UPDATES)
    return regular * (1 - (1 - t / warmup) * (1 - ratio)) if t < warmup else regular


def train(model, pixels, labels, order, neighbors, dtype):
    model, gaps = copy.deepcopy(model).to(dtype), []
    model.train()
    dense_swin.patch(model.backbone, neighbors, SEGMENT["window_padding"] == "hidden", gaps)
    mean, std = (torch.tensor(TRAIN[name], dtype=dtype) for name in ("mean", "std"))
    images = ((pixels.to(dtype) - mean) / std).permute(0, 3, 1, 2)
    optimizer = build_optim_wrapper(model, dict(
        type="OptimWrapper",
        optimizer=dict(type="AdamW", lr=TRAIN["lr"], betas=TRAIN["betas"], eps=TRAIN["eps"],
                       weight_decay=TRAIN["weight_decay"], foreach=False),
        paramwise_cfg=dict(custom_keys={key: dict(decay_mult=0.0) for key in KEYS["swin"]}))).optimizer
    record = {"losses": [], "decode_losses": [], "aux_losses": [], "grad_norms": [], "lrs": []}
    for update, indices in enumerate(order):
        for group in optimizer.param_groups:
            group["lr"] = rate(update)
        losses = model.loss(images[indices], mm.samples(labels[indices]))
        decode, auxiliary = losses["decode.loss_ce"], losses["aux.loss_ce"]
        optimizer.zero_grad()
        (decode + auxiliary).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        optimizer.step()
        numbers = ((decode + auxiliary).item(), decode.item(), auxiliary.item() / SEGMENT["aux_weight"], norm.item())
        for name, value in zip(record, (*numbers, rate(update))):
            record[name].append(value)
    record = {name: torch.tensor(values, dtype=torch.float64) for name, values in record.items()}
    return record, state(model), min(gaps, default=math.inf)


def state(model):
    """The weights and running statistics."""
    return {name: value for name, value in model.state_dict().items() if value.is_floating_point()}


def distance_from_tie(start, order):
    """The smallest gap of a k-NN run; 0 if its norms are not those in f64."""
    single, double = (train(*start, order, 0.8, dtype) for dtype in (torch.float32, torch.float64))
    difference = (single[0]["grad_norms"] - double[0]["grad_norms"]).abs().max().item()
    return min(single[2], double[2]) if difference < AGREEING else 0.0


def main():
    mm.init_default_scope("mmseg")
    order = torch.arange(UPDATES * BATCH).remainder(IMAGES).reshape(UPDATES, BATCH)
    seed = max(range(SEEDS), key=lambda seed: distance_from_tie(prepare(seed), order))
    model, pixels, labels = prepare(seed)
    start = {f"weights.{name}": value for name, value in state(model).items()}
    start |= {"pixels": pixels, "labels": labels.to(torch.uint8), "order": order}
    folder = golden("kvt-train") / "dense"
    save(folder / "dense_trajectory.safetensors", start, {"model": MODEL, **SEGMENT, **TRAIN}, seed, mm=mm.VERSIONS)
    for kind, attention in (("dense", DENSE), ("knn", {**KNN, "neighbors": 0.8})):
        record, final, gap = train(model, pixels, labels, order, attention["neighbors"], torch.float32)
        wide, wide_final, wide_gap = train(model, pixels, labels, order, attention["neighbors"], torch.float64)
        f64 = {name: (record[name] - wide[name]).abs().max().item() for name in record}
        drift = {name: (value - wide_final[name]).abs().max().item() for name, value in final.items()}
        print(kind, "seed", seed, "smallest gap", gap, wide_gap, "f64 differences", f64)
        print("  loss", [round(x, 4) for x in record["losses"].tolist()])
        print("  norm", [round(x, 3) for x in record["grad_norms"].tolist()])
        print("  drift", {name: f"{x:.1e}" for name, x in drift.items() if x > 1e-5})
        config = {"model": {**MODEL, "attention": attention}, **SEGMENT, **TRAIN}
        tensors = record | {f"final.{name}": value for name, value in final.items()}
        save(folder / f"dense_trajectory_{kind}.safetensors", tensors, config, seed, f64=f64, drift=drift, mm=mm.VERSIONS)


if __name__ == "__main__":
    main()
