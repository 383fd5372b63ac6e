"""What the golden-number scripts share: determinism, Algorithm 1, saving."""

import json
import platform
import sys
from pathlib import Path

import numpy
import timm
import torch
from safetensors.torch import save as to_bytes

ROOT = Path(__file__).resolve().parents[2]

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
    print(f"{path.relative_to(ROOT)}  {path.stat().st_size} bytes")


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


def knn_forward(neighbors, temperature=1.0, gaps=None):
    """A replacement for timm's `Attention.forward` that runs Algorithm 1.

    `neighbors`: an int (count), a float (share of the keys, rounded down, at least 1) or None
    (dense). `gaps` collects the smallest boundary gap of every call.
    """

    def forward(self, x, attn_mask=None, is_causal=False):
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * self.scale / temperature
        if neighbors is not None:
            count = resolve(neighbors, tokens)
            if gaps is not None:
                gaps.append(boundary_gap(scores, count).min().item())
            scores = keep_topk(scores, scores, count)
        x = scores.softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, dim))

    return forward


def resolve(neighbors, keys):
    count = int(neighbors * keys) if isinstance(neighbors, float) else neighbors
    return max(1, min(count, keys))


def patch_attention(model, neighbors, temperature=1.0, gaps=None):
    """Gives every block of a timm ViT the attention of `knn_forward`."""
    for block in model.blocks:
        block.attn.fused_attn = False
        block.attn.forward = knn_forward(neighbors, temperature, gaps).__get__(block.attn)
    return model
