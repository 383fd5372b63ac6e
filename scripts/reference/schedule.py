"""Golden learning rates: timm's schedulers under DeiT's habit and per step, and timm's decays of an average.

Writes `crates/kvt-train/tests/golden/schedule.json`:

  epochs.config, epochs.lr   the rate used in each of 300 epochs. DeiT steps the scheduler after an
                             epoch with the index of that epoch, so epoch e trains at f(max(e-1, 0))
  epochs.curve               f(0..300) itself
  steps.config, steps.lr     one value per update, f(t), t = updates done before
  published                  {epoch: rate} of the published Twins-SVT-B log (same recipe), rounded as
                             there; the script fails if timm disagrees
  kinds.<case>               `config`: settings in epochs, `epochs` without the cool-down, and `cooldown`;
                             `started`: f(0), f(1), ... per epoch, where epoch e calls step(e) before it trains;
                             `finished`: f(max(e-1, 0)), where it calls step(e) after it;
                             `updates`: f(u) of update u, four updates to an epoch, as timm's train script:
                             step_update(u) after update u - 1;
                             `updates_finished`: f(max(u-1, 0)), as Swin: step_update(u) after update u
  ema.decay, ema.decays      timm's ModelEmaV3.get_decay of updates 1, 2, ... with use_warmup

With `warmup_prefix` timm's t_initial is `epochs - warmup`, as in Swin: the run is not longer.
"""

import math

import torch
from timm.scheduler import CosineLRScheduler, PolyLRScheduler, StepLRScheduler
from timm.utils import ModelEmaV3

from common import golden, save_json

PUBLISHED = {
    0: 1e-6, 1: 1e-6, 2: 2.008e-4, 3: 4.006e-4, 4: 6.004e-4, 5: 8.002e-4, 6: 9.993216197035e-4,
    10: 9.978031724785e-4, 30: 9.773489626155e-4, 50: 9.362508365045e-4, 99: 7.614233696397e-4,
    150: 5.101835331375e-4, 199: 2.665319313196e-4, 249: 8.159469122055e-5, 298: 1.024425261896e-5,
    299: 1.010856167995e-5,
}


def scheduler(lr, warmup_lr, min_lr, warmup, total, in_epochs):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    rule = CosineLRScheduler(optimizer, total, lr_min=min_lr, warmup_t=warmup, warmup_lr_init=warmup_lr,
                             t_in_epochs=in_epochs)
    return optimizer, rule


def used_per_epoch(**config):
    """main.py's loop: train an epoch with the current rate, then `step(epoch)`."""
    optimizer, rule = scheduler(**config, in_epochs=True)
    used = []
    for epoch in range(config["total"]):
        used.append(optimizer.param_groups[0]["lr"])
        rule.step(epoch)
    return used


def used_per_step(**config):
    optimizer, rule = scheduler(**config, in_epochs=False)
    used = []
    for step in range(config["total"]):
        rule.step_update(step)
        used.append(optimizer.param_groups[0]["lr"])
    return used


PER_EPOCH = 4
KINDS = {
    "cosine": dict(kind="cosine", warmup=3, cooldown=2),
    "cosine_prefix": dict(kind="cosine", warmup=3, warmup_prefix=True, cooldown=2),
    "linear": dict(kind="linear", warmup=2, cooldown=1),
    "linear_prefix": dict(kind="linear", warmup=2, warmup_prefix=True),
    "poly": dict(kind="poly", warmup=2, power=0.9, cooldown=2),
    "poly_prefix": dict(kind="poly", warmup=4, warmup_prefix=True, power=2.0),
    "step": dict(kind="step", warmup=2, step_epochs=3, step_rate=0.3),
    "step_prefix": dict(kind="step", warmup=2, warmup_prefix=True, step_epochs=2.5, step_rate=0.5),
    "constant": dict(kind="constant", warmup=3),
    "no_warmup": dict(kind="cosine"),
}
DEFAULTS = dict(lr=1e-3, warmup_lr=1e-6, min_lr=1e-5, warmup=0, warmup_prefix=False, epochs=12, cooldown=0,
                step_epochs=30, step_rate=0.1, power=0.5)


def timms(config, unit, in_epochs):
    """timm's scheduler of these settings; an epoch is `unit` of what it counts."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config["lr"])
    warmup = dict(warmup_t=config["warmup"] * unit, warmup_lr_init=config["warmup_lr"],
                  warmup_prefix=config["warmup_prefix"], t_in_epochs=in_epochs)
    total = (config["epochs"] - (config["warmup"] if config["warmup_prefix"] else 0)) * unit
    curve = dict(t_initial=total, lr_min=config["min_lr"], **warmup)
    if config["kind"] == "cosine":
        return optimizer, CosineLRScheduler(optimizer, **curve)
    if config["kind"] in ("linear", "poly"):
        power = 1.0 if config["kind"] == "linear" else config["power"]
        return optimizer, PolyLRScheduler(optimizer, power=power, **curve)
    if config["kind"] == "step":
        return optimizer, StepLRScheduler(optimizer, config["step_epochs"] * unit, config["step_rate"], **warmup)
    return optimizer, StepLRScheduler(optimizer, 1, 1.0, **warmup)


def rates_of_a_loop(config, unit, in_epochs, before):
    """The rates of a training loop that steps the scheduler before or after each unit that it counts."""
    optimizer, rule = timms(config, unit, in_epochs)
    step = rule.step if in_epochs else rule.step_update
    rates = []
    for number in range((config["epochs"] + config["cooldown"]) * unit):
        if before:
            step(number)
        rates.append(optimizer.param_groups[0]["lr"])
        if not before:
            step(number)
    return rates


def kind(settings):
    config = {**DEFAULTS, **settings}
    rates = lambda unit, before: rates_of_a_loop(config, unit, unit == 1, before)
    return {"config": config, "started": rates(1, True), "finished": rates(1, False),
            "updates": rates(PER_EPOCH, True), "updates_finished": rates(PER_EPOCH, False)}


if __name__ == "__main__":
    epochs = dict(lr=1e-3, warmup_lr=1e-6, min_lr=1e-5, warmup=5, total=300)
    steps = dict(lr=5e-4, warmup_lr=1e-6, min_lr=1e-5, warmup=6, total=24)
    used = used_per_epoch(**epochs)
    for epoch, rate in PUBLISHED.items():
        assert math.isclose(used[epoch], rate, rel_tol=1e-12), (epoch, used[epoch], rate)
    _, rule = scheduler(**epochs, in_epochs=True)
    average = ModelEmaV3(torch.nn.Linear(1, 1), decay=0.95, use_warmup=True)
    save_json(golden("kvt-train") / "schedule.json", {
        "epochs": {"config": epochs, "lr": used, "curve": [rule._get_lr(t)[0] for t in range(301)]},
        "steps": {"config": steps, "lr": used_per_step(**steps)},
        "published": {str(epoch): rate for epoch, rate in PUBLISHED.items()},
        "kinds": {name: kind(settings) for name, settings in KINDS.items()},
        "ema": {"decay": 0.95, "decays": [average.get_decay(update) for update in range(1, 121)]},
    }, seed=None)
