"""Golden numbers of the recipes of dense prediction: learning rates, and which parameters decay.

Writes `crates/kvt-train/tests/golden/dense/dense_recipe.json`:

  poly.<case>, step.<case>  `config` (in updates), and `lr`: {update, from 0: rate}
  decays.<family>           {parameter: whether it decays}, of UPerNet with a small backbone, by the names of kvt's files

The curves are mmengine's PolyLR and MultiStepLR, the warm-up its LinearLR. The recipes ran on an older version, where the warm-up
multiplies the curve, which goes on from update 0; so each is computed for itself here, and the rates are the products. The
newer ones' curve ends a step earlier than it is told.

Decay is by the rule of mmengine's optimizer constructor: none where the name contains one of `custom_keys`. So biases and
the heads' batch norms (`bn`) decay.
"""

import dense_swin
import dense_twins
import mm
import torch
from common import golden, save_json
from mmengine.optim import LinearLR, MultiStepLR, PolyLR, build_optim_wrapper

KEYS = {"swin": ["absolute_pos_embed", "relative_position_bias_table", "norm"], "twins": ["pos_block", "norm"]}
BASE = dict(warmup_updates=0, warmup_ratio=1.0)
POLY = {
    "160k": dict(lr=6e-5, updates=160000, power=1.0, min_lr=0.0, warmup_updates=1500, warmup_ratio=1e-6),
    "40": dict(lr=1e-3, updates=40, power=1.0, min_lr=0.0, warmup_updates=6, warmup_ratio=1e-6),
    "40_power": dict(lr=1e-3, updates=40, power=0.9, min_lr=1e-5, warmup_updates=6, warmup_ratio=0.1),
    "40_cold": dict(lr=1e-3, updates=40, power=1.0, min_lr=0.0, **BASE),
}
STEP = {
    "3x": dict(lr=1e-4, updates=3600, milestones=[2700, 3300], gamma=0.1, warmup_updates=500, warmup_ratio=1e-3),
    "40": dict(lr=1e-3, updates=40, milestones=[20, 30], gamma=0.1, warmup_updates=6, warmup_ratio=1e-3),
}


def rates(lr, updates, scheduler):
    """The rates of all updates under one of mmengine's schedulers."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    rule = scheduler(optimizer)
    found = []
    for _ in range(updates):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        rule.step()
    return found


def curve(config, scheduler):
    lr, updates, warmup = config["lr"], config["updates"], config["warmup_updates"]
    regular = rates(lr, updates, scheduler)
    if warmup:
        factors = rates(1.0, updates, lambda optimizer: LinearLR(
            optimizer, start_factor=config["warmup_ratio"], begin=0, end=warmup + 1, by_epoch=False))
        regular = [rate * factor for rate, factor in zip(regular, factors, strict=True)]
    places = range(updates) if updates <= 40 else sorted(
        {0, 1, 2, 100, 749, 1499, 1500, 1501, 3000, updates - 2, updates - 1,
         *(updates * tenth // 10 + shift for tenth in range(1, 10) for shift in (-1, 0))} & set(range(updates)))
    return {"config": config, "lr": {str(update): regular[update] for update in places}}


def poly(config):
    return curve(config, lambda optimizer: PolyLR(
        optimizer, eta_min=config["min_lr"], power=config["power"], begin=0, end=config["updates"] + 1, by_epoch=False))


def step(config):
    return curve(config, lambda optimizer: MultiStepLR(
        optimizer, milestones=config["milestones"], gamma=config["gamma"], by_epoch=False))


def nested(names):
    """A module with parameters of these names."""
    root = torch.nn.Module()
    for name in names:
        *parents, last = name.split(".")
        module = root
        for parent in parents:
            if not hasattr(module, parent):
                module.add_module(parent, torch.nn.Module())
            module = getattr(module, parent)
        module.register_parameter(last, torch.nn.Parameter(torch.zeros(1)))
    return root


def decays(module, keys):
    keys = {key: dict(decay_mult=0.0) for key in keys}
    wrapper = build_optim_wrapper(module, dict(
        type="OptimWrapper", optimizer=dict(type="AdamW", lr=6e-5, betas=(0.9, 0.999), weight_decay=0.01),
        paramwise_cfg=dict(custom_keys=keys)))
    of = {id(p): group["weight_decay"] > 0 for group in wrapper.param_groups for p in group["params"]}
    return {name: of[id(p)] for name, p in module.named_parameters()}


def families():
    head_names = [name for name, _ in mm.upernet(
        mm.swin_config(dense_swin.SWIN), [8, 16, 32, 64], 6, 5, 3).named_parameters() if not name.startswith("backbone.")]
    swins = {name: dense_swin.name_of(name, "ours") for name, _ in mm.swin(dense_swin.SWIN).named_parameters()}
    twins = dense_twins.split(dict(mm.twins(dense_twins.TWINS).named_parameters()))
    found = {family: decays(nested([*(f"backbone.{name}" for name in names), *head_names]), KEYS[family])
             for family, names in (("swin", swins.values()), ("twins", twins))}
    # By mmsegmentation's own names it is the same.
    theirs = decays(mm.swin(dense_swin.SWIN), KEYS["swin"])
    assert {f"backbone.{swins[name]}": decay for name, decay in theirs.items()}.items() <= found["swin"].items()
    return found


if __name__ == "__main__":
    mm.init_default_scope("mmseg")
    value = {"mm": mm.VERSIONS, "poly": {name: poly(config) for name, config in POLY.items()},
             "step": {name: step(config) for name, config in STEP.items()}, "decays": families()}
    print(value["poly"]["160k"]["lr"]["749"], 6e-5 * (1 - 749 / 160000) * (1 - (1 - 749 / 1500) * (1 - 1e-6)))
    print({family: (sum(of.values()), len(of)) for family, of in value["decays"].items()})
    save_json(golden("kvt-train") / "dense" / "dense_recipe.json", value, None)
