"""What the golden-number scripts share: determinism, Algorithm 1, random models, saving."""

import itertools
import json
import platform
import re
import sys
from pathlib import Path

import numpy
import timm
import torch
from safetensors.torch import save as to_bytes

ROOT = Path(__file__).resolve().parents[2]
GAP = 1e-4
# Gradients of more numbers than these are written as their `sketch`.
STORED = 1024
DENSE = dict(kind="dense", neighbors=None, temperature=1.0)
KNN = dict(kind="knn", neighbors=6, temperature=1.0)

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def golden(crate):
    """The folder of a crate's golden files."""
    folder = ROOT / "crates" / crate / "tests" / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def provenance(seed):
    """Who computed the numbers, as strings."""
    return {
        "script": f"scripts/reference/{Path(sys.argv[0]).name}",
        "seed": str(seed),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "timm": timm.__version__,
        "numpy": numpy.__version__,
    }


def wrote(path):
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    print(f"{shown}  {path.stat().st_size} bytes")


def save(path, tensors, config, seed, **extra):
    """Writes a safetensors file: floats as f32, `config` as JSON in the metadata."""
    tensors = {
        name: (t.detach().float() if t.is_floating_point() else t.detach()).contiguous().clone()
        for name, t in tensors.items()
    }
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(f"{path.name}: `{name}` is not finite")
    extra = {name: json.dumps(value, sort_keys=True) for name, value in extra.items()}
    metadata = {"config": json.dumps(config, sort_keys=True), **extra, **provenance(seed)}
    path.write_bytes(sorted_metadata(to_bytes(tensors, metadata=metadata)))
    wrote(path)


def sorted_metadata(data):
    """safetensors writes its metadata in random order: sorted, the same numbers are the same file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def save_json(path, value, seed):
    path.write_text(json.dumps({"provenance": provenance(seed), **value}, indent=1) + "\n")
    wrote(path)


def keep_topk(scores, ranking, k):
    """Algorithm 1: topk -> scatter into a zero mask -> -inf everywhere else."""
    index = ranking.topk(k, dim=-1).indices
    mask = torch.zeros_like(scores).scatter_(-1, index, 1.0)
    return torch.where(mask > 0, scores, torch.full_like(scores, float("-inf")))


def boundary_gap(ranking, k):
    """Per row: distance from the k-th to the next score, relative to the row's largest magnitude.

    Infinite where no finite score is cut off, because nothing can be chosen wrongly there.
    """
    top = ranking.detach().sort(dim=-1, descending=True).values
    if k >= top.shape[-1]:
        return torch.full(top.shape[:-1], float("inf"), dtype=top.dtype)
    finite = torch.where(top.isfinite(), top, torch.zeros_like(top))
    gap = (top[..., k - 1] - top[..., k]) / finite.abs().amax(-1)
    return torch.where(top[..., k].isfinite(), gap, torch.full_like(gap, float("inf")))


def weigh(scores, v, neighbors, gaps, ranking=None):
    """softmax(scores) @ v over the best `neighbors` of each row. `ranking`: scores, -inf where hidden."""
    if neighbors is not None:
        count = resolve(neighbors, scores.shape[-1])
        if gaps is not None:
            gaps.append(boundary_gap(scores if ranking is None else ranking, count).min().item())
        scores = keep_topk(scores, scores, count)
    return scores.softmax(dim=-1) @ v


def resolve(neighbors, keys):
    count = int(neighbors * keys) if isinstance(neighbors, float) else neighbors
    return max(1, min(count, keys))


def token_forward(neighbors, temperature, gaps):
    """For timm's `Attention`: ViT, PiT."""

    def forward(self, x, attn_mask=None, is_causal=False):
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        x = weigh(scores, v, neighbors, gaps)
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, dim))

    return forward


def window_forward(neighbors, temperature, gaps):
    """For timm's `WindowAttention`: Swin. Bias and shift mask count when the keys are chosen."""

    def forward(self, x, mask=None):
        windows, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(windows, tokens, 3, self.num_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature + self._get_rel_pos_bias()
        ranking = scores
        if mask is not None:  # 0 or -100, [windows of an image, tokens, tokens]
            mask = mask.repeat(windows // len(mask), 1, 1).unsqueeze(1)
            scores = scores + mask
            ranking = scores.masked_fill(mask != 0, float("-inf"))
        x = weigh(scores, v, neighbors, gaps, ranking)
        return self.proj(x.transpose(1, 2).reshape(windows, tokens, dim))

    return forward


def convolution_forward(neighbors, temperature, gaps):
    """For the official CvT's `Attention`: fewer keys than queries, scaled by the full width."""

    def forward(self, x, height, width):
        split = lambda t: t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q, k, v = self.forward_conv(x, height, width)
        q, k, v = split(self.proj_q(q)), split(self.proj_k(k)), split(self.proj_v(v))
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        return self.proj(weigh(scores, v, neighbors, gaps).transpose(1, 2).flatten(2))

    return forward


def stages(model):
    """The blocks of every stage: a CvT's, a PiT's, a Swin's; those of a ViT are one stage."""
    if hasattr(model, "stage0"):
        return [getattr(model, f"stage{number}").blocks for number in range(model.num_stages)]
    return [part.blocks for part in getattr(model, "transformers", getattr(model, "layers", [model]))]


def patch_attention(model, neighbors, temperature=1.0, gaps=None):
    """Gives every block Algorithm 1.

    `neighbors`: an int (count), a float (share of the keys, rounded down, at least 1) or None
    (dense); or a list of them, one per stage. `gaps` collects the smallest boundary gap of every call.
    """
    parts = stages(model)
    counts = neighbors if isinstance(neighbors, list) else [neighbors] * len(parts)
    for blocks, count in zip(parts, counts, strict=True):
        for attention in (block.attn for block in blocks):
            if hasattr(attention, "conv_proj_q"):
                forward = convolution_forward
            elif hasattr(attention, "relative_position_bias_table"):
                forward = window_forward
            else:
                forward = token_forward
            attention.fused_attn = False
            attention.forward = forward(count, temperature, gaps).__get__(attention)
    return model


def randomize(model, generator):
    """Every parameter and running statistic random, at sizes that keep scores and logits of order one."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("weight") and parameter.ndim == 1:
            value = 1 + 0.3 * noise
        elif name.endswith("bias"):
            value = 0.2 * noise
        elif parameter.ndim >= 2 and name.endswith("weight"):
            sharpened = any(part in name for part in ("qkv", "attn.proj_q", "attn.proj_k"))
            value = (1.5 if sharpened else 1.0) * noise / parameter[0].numel() ** 0.5
        else:
            value = 0.5 * noise
        parameter.data.copy_(value)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
        elif name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))


def arguments(config):
    """Those of the model: all but what changes its random weights."""
    return {name: value for name, value in config.items() if name not in ("small_activations", "large_scores")}


def shrink(model, factor=4e-3):
    """Whatever a norm sees gets a variance of about 1e-5, so that the epsilon of each counts."""
    residual = re.compile(
        r"(^|stage0\.)patch_embed\.(proj|conv)\.|(patch_embed\.proj|pool\.conv|pool\.fc)\.bias|patch_embed\.norm\."
        r"|attn\.proj\.|mlp\.fc2\.|reduction\.|conv_proj_.\.conv\.|cls_token|dist_token|pos_embed")
    for name, parameter in model.named_parameters():
        if residual.search(name):
            parameter.data.mul_(factor)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.mul_(factor)
        elif name.endswith("running_var"):
            buffer.mul_(factor**2)


def stretch(model, factor=3.0):
    """Scores of some tens: a mask must subtract more than that from the scores of hidden keys."""
    for name, parameter in model.named_parameters():
        if "qkv" in name:
            parameter.data.mul_(factor)


def prepare(build, config, attention, seed):
    """A random f64 model in evaluation mode; `weights.*`, `images` and `probe` in f32; its boundary gaps."""
    generator = torch.Generator().manual_seed(seed)
    model = build(config)
    randomize(model, generator)
    if config.get("small_activations"):
        shrink(model)
    if config.get("large_scores"):
        stretch(model)
    state = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    tensors = {f"weights.{name}": value.detach().clone() for name, value in state.items()}
    gaps = []
    patch_attention(model.double().eval(), attention["neighbors"], attention["temperature"], gaps)
    side = config["img_size"]
    tensors["images"] = torch.randn(2, config["in_chans"], side, side, generator=generator)
    tensors["probe"] = torch.randn(2, config["num_classes"], generator=generator)
    return model, tensors, gaps


def differentiate(model, tensors):
    """`logits`, and `grad.*` of sum(logits * probe): the images and the parameters.

    Left out are gradients of nothing but rounding: of what all keys share, as a bias of k, and of the
    queries in a last block if only its class token is read.
    """
    images = tensors["images"].double().requires_grad_()
    model.zero_grad()
    logits = model(images)
    (logits * tensors["probe"].double()).sum().backward()
    grads = {"images": images.grad} | {name: p.grad for name, p in model.named_parameters()}
    grads = {f"grad.{name}": grad.clone() for name, grad in grads.items() if grad.abs().max() > 1e-9}
    return {"logits": logits.detach()} | grads


def vectors(count, number=3):
    """`number` vectors of `count` numbers in [-1, 1), which f32 holds: splitmix64 of their places."""
    place = numpy.arange(count, dtype=numpy.uint64)
    for vector in range(number):
        x = place + numpy.uint64((vector << 32) + 0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        x = x ^ (x >> numpy.uint64(31))
        yield torch.from_numpy((x >> numpy.uint64(40)).astype(numpy.float64) / 2**23 - 1)


def sketch(gradient):
    """Norm of a gradient and its products with the `vectors`: where all agree, so does the gradient."""
    flat = gradient.double().flatten()
    return torch.stack([flat.norm(), *(flat @ vector for vector in vectors(len(flat)))])


def sketched(tensors):
    """`grad.*` of parameters of more than STORED numbers become `grad_sketch.*`."""
    large = lambda name, t: name.startswith("grad.") and name != "grad.images" and t.numel() > STORED
    return {
        name.replace("grad.", "grad_sketch.", 1) if large(name, t) else name: sketch(t) if large(name, t) else t
        for name, t in tensors.items()
    }


def check_dense(build, config, model, tensors):
    """The patched forward without neighbors is the model's own."""
    own = build(config).double().eval()
    own.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(own(tensors["images"].double()), tensors["logits"], rtol=1e-10, atol=1e-10)


def evaluate(build, config, attention, seed):
    """All tensors of a timm model without drop path, and the smallest gap."""
    model, tensors, gaps = prepare(build, config, attention, seed)
    tensors |= differentiate(model, tensors)
    with torch.no_grad():
        logits = model.train()(tensors["images"].double())
    torch.testing.assert_close(logits, tensors["logits"], rtol=1e-12, atol=1e-12)
    if attention["kind"] == "dense":
        check_dense(build, config, model, tensors)
    return tensors, min(gaps, default=float("inf"))


def write_cases(prefix, cases, run):
    """Writes and yields `{name: (config, attention)}`, with the first seed that leaves no choice open."""
    for number, (name, (config, attention)) in enumerate(cases.items()):
        for seed in itertools.count(1000 * number):
            tensors, gap = run(config, attention, seed)
            if gap > GAP:
                break
        config = {**config, "attention": attention}
        save(golden("kvt-models") / f"{prefix}_{name}.safetensors", tensors, config, seed)
        yield name, tensors
