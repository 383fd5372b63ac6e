"""Golden training runs: 20 steps of a small DeiT, dense and k-NN, in f32, and dense under autocast, on the CPU.

Writes to `crates/kvt-train/tests/golden/` what both runs start from:

  trajectory.safetensors
    weights.<timm name>  initial weights (timm's initialisation)
    pixels [40,32,32,3] uint8 (rows, columns, RGB), labels [40] int64, contiguous by class
    order [20,8] int64   images of each step: 0..39 in file order, four times

and what comes of it:

  trajectory_{dense,knn}.safetensors
    losses, grad_norms (before clipping), lrs [20]; logits [5,8,5] before the updates of the last epoch

  trajectory_{bf16,f16}.safetensors
    the same of dense attention under `torch.autocast`, with the head in f32; f16 with a `GradScaler`, whose
    scales [20] are those after each step, and whose skipped steps have the norm 0 here

Metadata of `dense` and `knn`: `config` (every hyper-parameter), `checksum` ({name: {sum, abs_sum, f64_sum, f64_abs_sum}}
of the final weights) and `f64` (largest differences between this run and the same run in f64,
starting with the same weights: how far rounding alone carries). The gradient of the keys' bias is zero
but for rounding (softmax ignores a shift), and AdamW magnifies it: its third of
`blocks.*.attn.qkv.bias` has no reproducible value, and no effect on the others.

Schedule: warmup_lr + t (lr - warmup_lr) / W for t < W, else
min_lr + (lr - min_lr) / 2 (1 + cos(pi t / T)), t = updates done before, W = 5, T = 20.
Clipping: torch's, gradients times min(1, max_norm / (norm + 1e-6)).
The seed is the one of SEEDS whose k-NN rows stay furthest from a tie at the k-th score.
"""

import copy
import math

import torch
from timm.scheduler import CosineLRScheduler

from common import golden, patch_attention, save
from deit import build

SEEDS = 40
STEPS, BATCH, CLASSES, IMAGES = 20, 8, 5, 40
MODEL = dict(img_size=32, patch_size=8, in_chans=3, num_classes=CLASSES, embed_dim=48, depth=3, num_heads=3,
             mlp_ratio=4.0, qkv_bias=True, distilled=False)
TRAIN = dict(lr=1e-3, warmup_lr=1e-5, min_lr=1e-5, warmup_steps=5, steps=STEPS, batch_size=BATCH,
             steps_per_epoch=IMAGES // BATCH, epochs=STEPS * BATCH // IMAGES, betas=[0.9, 0.999], eps=1e-8,
             weight_decay=0.05, label_smoothing=0.1, clip_grad=1.0, accumulation=1, drop_path=0.0,
             mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])


def draw_images(generator):
    """Class c: a bright bar of its own colour and orientation, on noise."""
    pixels = 110 + 25 * torch.randn(IMAGES, 32, 32, 3, generator=generator)
    labels = torch.arange(CLASSES).repeat_interleave(IMAGES // CLASSES)
    rows, columns = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    for image, label in zip(pixels, labels.tolist()):
        angle = math.pi * label / CLASSES
        shift = torch.randint(-6, 7, (1,), generator=generator).item()
        offset = (columns - 16) * math.sin(angle) - (rows - 16) * math.cos(angle) - shift
        image[offset.abs() < 4] += torch.tensor([[90, 0, 0], [0, 90, 0], [0, 0, 90], [70, 70, 0], [0, 70, 70]])[label]
    return pixels.clamp(0, 255).to(torch.uint8), labels


def parameter_groups(model):
    """timm's rule: rank 1, biases and the model's own list do not decay."""
    excluded = model.no_weight_decay()
    groups = {True: [], False: []}
    for name, p in model.named_parameters():
        groups[p.ndim > 1 and not name.endswith(".bias") and name not in excluded].append(p)
    return [{"params": groups[True]}, {"params": groups[False], "weight_decay": 0.0}]


def exact(module):
    """Runs a module outside of autocast."""
    inner = module.forward

    def forward(x):
        with torch.autocast("cpu", enabled=False):
            return inner(x.float())

    module.forward = forward


def train(model, pixels, labels, order, neighbors, dtype, half=None):
    """With `half`, products in that type under autocast."""
    model, gaps = copy.deepcopy(model).to(dtype).train(), []
    patch_attention(model, neighbors, gaps=gaps)
    if half:
        exact(model.head)
    images = pixels.to(dtype) / 255
    images = (images - torch.tensor(TRAIN["mean"], dtype=dtype)) / torch.tensor(TRAIN["std"], dtype=dtype)
    images = images.permute(0, 3, 1, 2)
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=TRAIN["lr"], betas=TRAIN["betas"], eps=TRAIN["eps"],
                                  weight_decay=TRAIN["weight_decay"], foreach=False)
    schedule = CosineLRScheduler(optimizer, STEPS, lr_min=TRAIN["min_lr"], warmup_t=TRAIN["warmup_steps"],
                                 warmup_lr_init=TRAIN["warmup_lr"], t_in_epochs=False)
    loss_function = torch.nn.CrossEntropyLoss(label_smoothing=TRAIN["label_smoothing"])
    # Disabled, it changes nothing.
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, enabled=half == torch.float16)
    record = {"losses": [], "grad_norms": [], "lrs": [], "logits": []}
    scales = []
    for step, indices in enumerate(order):
        schedule.step_update(step)
        optimizer.zero_grad()
        with torch.autocast("cpu", half, enabled=half is not None):
            logits = model(images[indices])
        loss = loss_function(logits, labels[indices])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), TRAIN["clip_grad"])
        norm = norm if norm.isfinite() else norm.new_zeros(())
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        for name, value in zip(record, (loss.item(), norm.item(), optimizer.param_groups[0]["lr"])):
            record[name].append(value)
        if step >= STEPS - TRAIN["steps_per_epoch"]:
            record["logits"].append(logits.detach().double())
    record["logits"] = torch.stack(record["logits"])
    if half == torch.float16:
        record["scales"] = scales
    record = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in record.items()}
    return record, model, min(gaps, default=math.inf)


def closed_form(t):
    lr, warmup_lr, min_lr, warmup = (TRAIN[n] for n in ("lr", "warmup_lr", "min_lr", "warmup_steps"))
    if t < warmup:
        return warmup_lr + t * (lr - warmup_lr) / warmup
    return min_lr + (lr - min_lr) / 2 * (1 + math.cos(math.pi * t / STEPS))


def prepare(seed):
    torch.manual_seed(seed)
    model = build(MODEL)
    return model, *draw_images(torch.Generator().manual_seed(seed))


def main():
    order = torch.arange(STEPS * BATCH).remainder(IMAGES).reshape(STEPS, BATCH)
    seed = max(range(SEEDS), key=lambda seed: train(*prepare(seed), order, 0.5, torch.float32)[2])
    model, pixels, labels = prepare(seed)
    start = {f"weights.{name}": p for name, p in model.state_dict().items()}
    start |= {"pixels": pixels, "labels": labels, "order": order}
    save(golden("kvt-train") / "trajectory.safetensors", start, MODEL, seed)
    for kind, neighbors in (("dense", None), ("knn", 0.5)):
        record, final, gap = train(model, pixels, labels, order, neighbors, torch.float32)
        wide, wide_final, wide_gap = train(model, pixels, labels, order, neighbors, torch.float64)
        expected = [closed_form(t) for t in range(STEPS)]
        torch.testing.assert_close(record["lrs"], torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
        wide_state = wide_final.state_dict()
        checksum = {
            name: {
                "sum": p.double().sum().item(), "abs_sum": p.double().abs().sum().item(),
                "f64_sum": wide_state[name].sum().item(), "f64_abs_sum": wide_state[name].abs().sum().item(),
            }
            for name, p in final.state_dict().items()
        }
        f64 = {name: (record[name] - wide[name]).abs().max().item() for name in ("losses", "grad_norms", "logits")}
        print(kind, "seed", seed, "smallest gap", gap, wide_gap, "f64 differences", f64)
        print("  loss", [round(x, 4) for x in record["losses"].tolist()])
        print("  norm", [round(x, 3) for x in record["grad_norms"].tolist()])
        attention = {"kind": kind, "neighbors": neighbors, "temperature": 1.0}
        config = {**TRAIN, "model": {**MODEL, "attention": attention}}
        save(golden("kvt-train") / f"trajectory_{kind}.safetensors", record, config, seed, checksum=checksum, f64=f64)
    config = {**TRAIN, "model": {**MODEL, "attention": {"kind": "dense", "neighbors": None, "temperature": 1.0}}}
    for name, half in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        record, _, _ = train(model, pixels, labels, order, None, torch.float32, half)
        print(name, "loss", [round(x, 4) for x in record["losses"].tolist()])
        print("  norm", [round(x, 3) for x in record["grad_norms"].tolist()], record.get("scales"))
        save(golden("kvt-train") / f"trajectory_{name}.safetensors", record, config, seed)


if __name__ == "__main__":
    main()
