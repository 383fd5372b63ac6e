"""Golden learning rates: timm's CosineLRScheduler under DeiT's habit, and per step.

Writes `crates/kvt-train/tests/golden/schedule.json`:

  epochs.config, epochs.lr   the rate used in each of 300 epochs. DeiT steps the scheduler after an
                             epoch with the index of that epoch, so epoch e trains at f(max(e-1, 0))
  epochs.curve               f(0..300) itself
  steps.config, steps.lr     one value per update, f(t), t = updates done before
  published                  {epoch: rate} of the published Twins-SVT-B log (same recipe), rounded as
                             there; the script fails if timm disagrees
"""

import math

import torch
from timm.scheduler import CosineLRScheduler

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


if __name__ == "__main__":
    epochs = dict(lr=1e-3, warmup_lr=1e-6, min_lr=1e-5, warmup=5, total=300)
    steps = dict(lr=5e-4, warmup_lr=1e-6, min_lr=1e-5, warmup=6, total=24)
    used = used_per_epoch(**epochs)
    for epoch, rate in PUBLISHED.items():
        assert math.isclose(used[epoch], rate, rel_tol=1e-12), (epoch, used[epoch], rate)
    _, rule = scheduler(**epochs, in_epochs=True)
    save_json(golden("kvt-train") / "schedule.json", {
        "epochs": {"config": epochs, "lr": used, "curve": [rule._get_lr(t)[0] for t in range(301)]},
        "steps": {"config": steps, "lr": used_per_step(**steps)},
        "published": {str(epoch): rate for epoch, rate in PUBLISHED.items()},
    }, seed=None)
