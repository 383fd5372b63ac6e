"""One golden file of an attention mechanism, for the scripts `zoo_*.py`.

`write(name, function, ...)` writes `crates/kvt-attention/tests/golden/zoo/<name>.safetensors` with

  q [B,H,N,d], k [B,H,M,d], v [B,H,M,d], probe [B,H,N,d]
  <name>         whatever `given` and `learned` hold: draws (floats, or whole numbers as int64) and parameters
  out            function(q, k, v, **given, **learned)
  grad_<name>    gradients of sum(out * probe) with respect to q, k, v and everything in `learned`

and the metadata `config`: the settings, and `learned`, the names of the parameters in order. Inputs are f32 numbers;
everything after them is computed in f64.
"""

import torch

from common import golden, save


def draw(generator, *shape):
    """Normal numbers that are f32, as f64."""
    return torch.randn(shape, generator=generator).double()


def write(name, function, settings=None, given=None, learned=None, batch=2, heads=3, queries=33, keys=33, dim=8,
          value_dim=None, seed=0, size=1.0):
    """`given` and `learned`: functions of a generator to a dictionary of tensors. `size` multiplies q and k."""
    generator = torch.Generator().manual_seed(seed)
    value_dim = value_dim or dim
    q = draw(generator, batch, heads, queries, dim) * size
    k = draw(generator, batch, heads, keys, dim) * size
    v = draw(generator, batch, heads, keys, value_dim)
    probe = draw(generator, batch, heads, queries, value_dim)
    given = given(generator) if given else {}
    learned = {key: t.double().requires_grad_() for key, t in (learned(generator) if learned else {}).items()}
    inputs = [t.requires_grad_() for t in (q, k, v)]
    out = function(*inputs, **given, **learned)
    wanted = dict(zip(("q", "k", "v"), inputs)) | learned
    gradients = torch.autograd.grad((out * probe).sum(), list(wanted.values()), allow_unused=True)
    tensors = {"q": q, "k": k, "v": v, "probe": probe, "out": out, **given, **learned}
    for (key, tensor), gradient in zip(wanted.items(), gradients):
        tensors[f"grad_{key}"] = torch.zeros_like(tensor) if gradient is None else gradient
    folder = golden("kvt-attention") / "zoo"
    folder.mkdir(exist_ok=True)
    config = {**(settings or {}), "learned": list(learned)}
    save(folder / f"{name}.safetensors", tensors, config, seed)
