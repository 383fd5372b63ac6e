"""Golden files of models whose weights follow from a formula, instead of being in the file.

`write(prefix, CASES, build, patch)` is all that a family's script calls. A case is `(config, attention)` as in
`common.py`; `config` has `img_size`, `in_chans` and `num_classes` at least, and its key `small_activations`
may be a regular expression of the names that `shrink` would find.

Number `place` of the tensor `name` is `center + spread * u` in f64, rounded to f32, with

  u = (splitmix64(start + place * 0x9E3779B97F4A7C15) >> 40) / 2^23 - 1        in [-1, 1), which f32 holds
  start = fnv1a64(name) ^ splitmix64(seed)

`splitmix64(x)` adds 0x9E3779B97F4A7C15 to x before it mixes; `fnv1a64` is the hash FNV-1a of the name's bytes. Centers and spreads
are f32 too, so another language gets the same bits. The metadata `seeded` of a file says all that is needed:

  seed
  tensors   name -> [shape, center, spread], for weights.<name> (running statistics among them), images and probe
  checksum  fnv1a64, in hexadecimal, of the bytes of all those numbers (f32, little endian), in the order of the names

The file itself holds logits and gradients as in `common.py`; those of more than STORED numbers, the images' among
them, as `sketch`. Models with batch norms have `train.*` too, as in `cvt.py`.
"""

import itertools
import re

import numpy
import torch

from common import GAP, STORED, golden, save, sketch

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
# A uniform number in [-1, 1) has the standard deviation 1 / sqrt(3).
WIDTH = 3**0.5
# What makes scores: factor 1.5, so that attention is not flat.
SHARPENED = r"(^|\.)(qkv|qk|q|k|kv|kqv|proj_q|proj_k)\.weight$"


def fnv1a64(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def splitmix64(x):
    """Of an array of numpy.uint64, whose arithmetic wraps around."""
    x = x + numpy.uint64(GOLDEN)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def numbers(name, seed, shape, center, spread):
    """The tensor of this name, f32."""
    place = numpy.arange(int(numpy.prod(shape)), dtype=numpy.uint64)
    mixed = splitmix64(numpy.array([seed], dtype=numpy.uint64))[0]
    start = numpy.uint64(fnv1a64(name.encode())) ^ mixed
    u = (splitmix64(start + place * numpy.uint64(GOLDEN)) >> numpy.uint64(40)) / 2**23 - 1
    return torch.from_numpy((center + spread * u).astype(numpy.float32)).reshape(shape)


def law(name, value, sharpened):
    """Center and spread of a weight, by the rules of `common.randomize`."""
    if name.endswith("running_mean"):
        return 0.0, 0.3 * WIDTH
    if name.endswith("running_var"):
        return 1.0, 0.5
    if name.endswith("weight") and value.ndim == 1:
        return 1.0, 0.3 * WIDTH
    if name.endswith("bias"):
        return 0.0, 0.2 * WIDTH
    if name.endswith("weight"):
        factor = 1.5 if re.search(sharpened, name) else 1.0
        return 0.0, factor * WIDTH / value[0].numel() ** 0.5
    return 0.0, 0.5 * WIDTH


def laws(model, config, sharpened=SHARPENED):
    """name -> [shape, center, spread] of all that a case draws. Fixed entries of the state are drawn as well."""
    small = config.get("small_activations")
    tensors = {}
    for name, value in model.state_dict().items():
        if not value.is_floating_point():
            continue
        center, spread = law(name, value, sharpened)
        if small and name.endswith(("running_mean", "running_var")):
            factor = 4e-3 if name.endswith("mean") else 4e-3**2
        else:
            factor = 4e-3 if small and re.search(small, name) else 1.0
        tensors[f"weights.{name}"] = [list(value.shape), center * factor, spread * factor]
    size = config["img_size"]
    height, width = size if isinstance(size, list) else (size, size)
    tensors["images"] = [[2, config["in_chans"], height, width], 0.0, WIDTH]
    tensors["probe"] = [[2, config["num_classes"]], 0.0, WIDTH]
    exact = lambda x: float(numpy.float32(x))
    return {name: [shape, exact(center), exact(spread)] for name, (shape, center, spread) in sorted(tensors.items())}


def draw(tensors, seed):
    """The tensors, and the metadata `seeded`."""
    drawn = {name: numbers(name, seed, *rule) for name, rule in tensors.items()}
    data = b"".join(drawn[name].numpy().astype("<f4").tobytes() for name in sorted(drawn))
    return drawn, {"seed": seed, "tensors": tensors, "checksum": f"{fnv1a64(data):016x}"}


def differentiate(model, tensors):
    """`logits`, and `grad.*` or `grad_sketch.*` of sum(logits * probe), without those of nothing but rounding."""
    images = tensors["images"].double().requires_grad_()
    model.zero_grad()
    logits = model(images)
    (logits * tensors["probe"].double()).sum().backward()
    found = {"logits": logits.detach()}
    grads = {"images": images.grad} | {name: p.grad for name, p in model.named_parameters()}
    for name, grad in grads.items():
        if grad is None or grad.abs().max() <= 1e-9:
            continue
        large = grad.numel() > STORED
        found[f"grad_sketch.{name}" if large else f"grad.{name}"] = sketch(grad) if large else grad.clone()
    return found


def has_batch_norms(model):
    return any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in model.modules())


def training(model, tensors):
    """`train.*`: a forward in training mode, and the running statistics after it."""
    norms = {f"{name}." for name, module in model.named_modules()
             if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)}
    kept = lambda name: name in ("logits", "grad.images", "grad_sketch.images") or any(
        name.removeprefix("grad.").startswith(norm) for norm in norms)
    found = {f"train.{name}": value for name, value in differentiate(model.train(), tensors).items() if kept(name)}
    running = {f"train.running.{name}": value.clone() for name, value in model.named_buffers()
               if name.endswith(("running_mean", "running_var"))}
    return found | running


def loaded(build, config, tensors):
    """A model of f64 in evaluation mode, with these weights."""
    model = build(config).double().eval()
    weights = {name.removeprefix("weights."): value.double() for name, value in tensors.items()
               if name.startswith("weights.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    # Buffers of integers, such as the number of batches.
    missing = [name for name in missing if model.state_dict()[name].is_floating_point()]
    if missing or unexpected:
        raise ValueError(f"missing {missing}, unexpected {unexpected}")
    return model


def evaluate(build, patch, config, attention, seed, sharpened, extra):
    """What the file of a case holds, its metadata `seeded`, and its smallest boundary gap."""
    drawn, seeded = draw(laws(build(config), config, sharpened), seed)
    model = loaded(build, config, drawn)
    gaps = []
    patch(model, attention, gaps)
    found = differentiate(model, drawn)
    if attention["kind"] == "dense":  # the patched forward without neighbors is the model's own
        with torch.no_grad():
            own = loaded(build, config, drawn)(drawn["images"].double())
        torch.testing.assert_close(own, found["logits"], rtol=1e-10, atol=1e-10)
    if extra is not None:
        found |= extra(model, drawn, found)
    if has_batch_norms(model):
        found |= training(model, drawn)
    elif extra is None:
        with torch.no_grad():
            logits = model.train()(drawn["images"].double())
        torch.testing.assert_close(logits, found["logits"], rtol=1e-12, atol=1e-12)
    return found, seeded, min(gaps, default=float("inf"))


def write(prefix, cases, build, patch, sharpened=SHARPENED, extra=None):
    """Writes `<prefix>_<case>.safetensors`, with the first seed that leaves no choice of a key open.

    `build(config)` makes the original model, whatever its weights. `patch(model, attention, gaps)` gives it Algorithm 1:
    `weigh` in `common.py` computes it and fills `gaps`; with `neighbors` None nothing may change. `extra(model, drawn, found)`
    gives more tensors for the file, from the patched model in evaluation mode; where it is given, it also
    compares training with evaluation, if there is something to compare.
    """
    for number, (name, (config, attention)) in enumerate(cases.items()):
        for seed in itertools.count(1000 * number):
            found, seeded, gap = evaluate(build, patch, config, attention, seed, sharpened, extra)
            if gap > GAP:
                break
        path = golden("kvt-models") / f"{prefix}_{name}.safetensors"
        save(path, found, {**config, "attention": attention}, seed, seeded=seeded)
