"""Golden numbers of the optimizers beside AdamW, and of clipping, in f64, stored as f32.

Writes `crates/kvt-train/tests/golden/optim.safetensors`:

  grads.<name>            [8, ...]  the gradients of all cases
  <case>.<name>           [9, ...]  a parameter before the first update and after each of eight
  clip.<name>.weight      a weight, in PyTorch's layout
  clip.<name>.grad        its gradient
  clip.<kind>.<name>      the gradient clipped; kind is `value`, `parameter` or `agc`

The parameters are `tall` [6, 4], `wide` [3, 5], `table` [2, 3], `bias` [4], `cube` [2, 3, 2] and `head`
[3, 4]. All but `table` and `bias` decay. Rate and weight decay change from update to update: `lrs` and
`weight_decays` of the metadata `config`. In the case `layers` the rate of `bias`, `table` and `cube` is 0.25
of the whole, for `tall` and `wide` 0.5: `layer_decay` 0.5 over three layers.

Muon is torch.optim.Muon, which orthogonalises in bfloat16: here in f64, by its own code. It updates `tall` and
`wide`; torch.optim.AdamW updates the rest. LAMB is timm's without the clipping in it, Lion is timm's.
"""

import inspect

import torch
import torch.optim._muon as torch_muon
from timm.optim import Lamb, Lion
from timm.utils.agc import adaptive_clip_grad

from common import golden, save

SHAPES = {"tall": (6, 4), "wide": (3, 5), "table": (2, 3), "bias": (4,), "cube": (2, 3, 2), "head": (3, 4)}
UNDECAYED = ("table", "bias")
MATRICES = ("tall", "wide")
LAYERS = {"bias": 0.25, "table": 0.25, "cube": 0.25, "tall": 0.5, "wide": 0.5, "head": 1.0}
STEPS = 8
LRS = [0.001, 0.004, 0.01, 0.01, 0.008, 0.005, 0.002, 0.001]
WEIGHT_DECAYS = [0.05, 0.05, 0.1, 0.2, 0.2, 0.3, 0.4, 0.4]
BETAS = (0.9, 0.99)
EPS = 1e-6
CLIP = {"value": 0.4, "parameter": 1.5, "agc": 0.2}

# PyTorch's own iteration in another type.
source = inspect.getsource(torch_muon._zeropower_via_newtonschulz).replace("torch.bfloat16", "torch.float64")
exec(compile(source, "muon", "exec"), torch_muon.__dict__)


class Both:
    """Muon for the matrices, AdamW for the rest."""

    def __init__(self, groups, **settings):
        matrices = [group for group in groups if group["name"] in MATRICES]
        rest = [group for group in groups if group["name"] not in MATRICES]
        self.parts = [torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **settings),
                      torch.optim.AdamW(rest, betas=BETAS, eps=EPS, foreach=False)]
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    def step(self):
        for part in self.parts:
            part.step()


def sgd(momentum, nesterov):
    return lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=momentum, nesterov=nesterov, foreach=False)


CASES = {
    "sgd": sgd(0.9, False),
    "sgd_nesterov": sgd(0.9, True),
    "sgd_plain": sgd(0.0, False),
    "layers": sgd(0.9, True),
    "lamb": lambda groups: Lamb(groups, betas=BETAS, eps=EPS, max_grad_norm=None),
    "lion": lambda groups: Lion(groups, betas=BETAS),
    "muon": lambda groups: Both(groups, momentum=0.95, nesterov=True),
    "muon_heavy": lambda groups: Both(groups, momentum=0.8, nesterov=False),
}


def run(case, start, grads):
    params = {name: value.double().requires_grad_() for name, value in start.items()}
    optimizer = CASES[case]([{"params": [value], "name": name} for name, value in params.items()])
    history = {name: [value.detach().clone()] for name, value in params.items()}
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = LRS[step] * (LAYERS[group["name"]] if case == "layers" else 1.0)
            group["weight_decay"] = 0.0 if group["name"] in UNDECAYED else WEIGHT_DECAYS[step]
        for name, value in params.items():
            value.grad = grads[name][step].double()
        optimizer.step()
        for name, value in params.items():
            history[name].append(value.detach().clone())
    return {f"{case}.{name}": torch.stack(values) for name, values in history.items()}


def clipping(generator):
    """A square linear layer, so that only its layout distinguishes rows from columns."""
    shapes = {"fc.weight": (4, 4), "fc.bias": (4,), "conv": (3, 2, 2, 2), "token": (1, 1, 3)}
    tensors, params = {}, {}
    for name, shape in shapes.items():
        weight = torch.randn(shape, generator=generator)
        # Units with gradients from far below to far above those that are clipped.
        size = 10.0 ** torch.linspace(1.0, -1.5, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
        tensors[f"clip.{name}.weight"] = weight
        tensors[f"clip.{name}.grad"] = size * torch.randn(shape, generator=generator)
    tensors["clip.fc.weight.weight"][1] = 0.0  # counts as 1e-3
    for kind, limit in CLIP.items():
        for name in shapes:
            params[name] = tensors[f"clip.{name}.weight"].double().requires_grad_()
            params[name].grad = tensors[f"clip.{name}.grad"].double()
        if kind == "agc":
            adaptive_clip_grad(params.values(), limit)
        elif kind == "value":
            torch.nn.utils.clip_grad_value_(params.values(), limit)
        else:  # DINO's utils.clip_gradients
            for value in params.values():
                factor = limit / (value.grad.norm(2) + 1e-6)
                if factor < 1:
                    value.grad.mul_(factor)
        for name, value in params.items():
            same = torch.equal(value.grad, tensors[f"clip.{name}.grad"].double())
            print(f"clip {kind} {name}: {'as it was' if same else 'clipped'}")
            tensors[f"clip.{kind}.{name}"] = value.grad
    return tensors


def main(seed=11):
    generator = torch.Generator().manual_seed(seed)
    start = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    size = 10.0 ** torch.linspace(-2, 0.5, STEPS)
    grads = {name: torch.randn(STEPS, *shape, generator=generator) * size.view(-1, *[1] * len(shape))
             for name, shape in SHAPES.items()}
    grads["tall"][:, 0, 0] = 0.0
    grads["bias"][3] = 0.0
    tensors = {f"grads.{name}": values for name, values in grads.items()}
    for case in CASES:
        tensors |= run(case, start, grads)
    config = dict(lrs=LRS, weight_decays=WEIGHT_DECAYS, betas=BETAS, eps=EPS, undecayed=UNDECAYED, clip=CLIP)
    save(golden("kvt-train") / "optim.safetensors", tensors | clipping(generator), config, seed)


if __name__ == "__main__":
    main()
