"""Golden numbers of AdamW and of gradient clipping, in f64, stored as f32.

Writes `crates/kvt-train/tests/golden/adamw.safetensors`. For each of `matrix` [4,3], `bias` [3],
`cube` [2,2,2]:

  <name>.params   [11, ...]  before the first step and after each of ten
  <name>.grads    [10, ...]  the given gradients
  <name>.clipped  [10, ...]  those gradients after clip_grad_norm_ over all three tensors
  clip.norms      [10]       the norm of each step before clipping, over all three tensors

AdamW sees `grads`, not `clipped`. Only `matrix` decays. Gradients span magnitudes from below eps to
ten, with exact zeros among them.
"""

import torch

from common import golden, save

CONFIG = dict(lr=0.01, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.05, decayed=["matrix"], max_norm=1.0)
SHAPES = {"matrix": (4, 3), "bias": (3,), "cube": (2, 2, 2)}
STEPS = 10


def main(seed=5):
    generator = torch.Generator().manual_seed(seed)
    start = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    # Norms on both sides of max_norm.
    size = 10.0 ** torch.linspace(-2, 1, STEPS)
    grads = {name: torch.randn(STEPS, *shape, generator=generator) * size.view(-1, *[1] * len(shape))
             for name, shape in SHAPES.items()}
    grads["matrix"][:, 0, 0] = 0.0
    grads["matrix"][:, 1, 1] *= 1e-8
    grads["bias"][3] = 0.0

    params = {name: value.double().requires_grad_() for name, value in start.items()}
    optimizer = torch.optim.AdamW([
        {"params": [params["matrix"]]},
        {"params": [params["bias"], params["cube"]], "weight_decay": 0.0},
    ], lr=CONFIG["lr"], betas=CONFIG["betas"], eps=CONFIG["eps"], weight_decay=CONFIG["weight_decay"], foreach=False)
    history = {name: [value.detach().clone()] for name, value in params.items()}
    clipped = {name: [] for name in params}
    norms = []
    for step in range(STEPS):
        for name, value in params.items():
            value.grad = grads[name][step].double()
        optimizer.step()
        norms.append(torch.nn.utils.clip_grad_norm_(params.values(), CONFIG["max_norm"]))
        for name, value in params.items():
            history[name].append(value.detach().clone())
            clipped[name].append(value.grad.clone())

    tensors = {"clip.norms": torch.stack(norms)}
    for name in SHAPES:
        tensors |= {f"{name}.params": torch.stack(history[name]), f"{name}.grads": grads[name],
                    f"{name}.clipped": torch.stack(clipped[name])}
    assert min(norms) < CONFIG["max_norm"] < max(norms)
    save(golden("kvt-train") / "adamw.safetensors", tensors, CONFIG, seed)


if __name__ == "__main__":
    main()
