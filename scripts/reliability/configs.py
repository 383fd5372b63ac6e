"""The small runs that are disturbed: each takes a second, and together they have every part of a run's state."""

from pathlib import Path

BASE = """seed = 3

[model]
name = "deit_tiny_patch16_224"
img_size = 16
patch_size = 4
embed_dim = 16
depth = 2
num_heads = 2
mlp_ratio = 2.0
drop_path = 0.2
attn_drop = 0.2

[data]
kind = "shapes"
path = "data/shapes"
workers = 1

[data.shapes]
image_size = 16
classes = 3
train_per_class = 32
val_per_class = 8

[augment]
preset = "cifar"
padding = 2

[optim]
lr = 1e-3
lr_batch = 0
clip_norm = 1.0

[schedule]
warmup_epochs = 1.0
per = "step"

[train]
epochs = 5
batch_size = 6
device = "cpu"

[run]
dir = "run"
"""

# What each differs in from the base.
CONFIGS = {
    "plain": "",
    "ema": "[ema]\ndecay = 0.9\n",
    "knn": '[model.attention]\nkind = "knn"\nneighbors = 0.5\n',
    "euclidean": '[model.attention]\nkind = "knn"\nneighbors = 4\nselection = "euclidean"\n[ema]\ndecay = 0.5\n',
    # Its batch norms have a state that is not in the optimizer.
    "cvt": '[model]\nname = "cvt_13"\npatch_stride = 2\n[ema]\ndecay = 0.8\n[train]\nepochs = 3\n',
    "accumulate": "[data]\ndrop_last = false\n[train]\nbatch_size = 5\naccumulate = 3\n",
    "intervals": "[train]\nepochs = 7\neval_every = 3\n[checkpoint]\nevery_epochs = 2\n",
    "steps": "[train]\nepochs = 4\n[checkpoint]\nevery_epochs = 0\nevery_steps = 5\n",
    "every-step": "[train]\nepochs = 2\n[checkpoint]\nevery_epochs = 0\nevery_steps = 1\n",
    # One checkpoint in the whole run, at its end.
    "once": "[train]\neval_every = 0\n[checkpoint]\nevery_epochs = 0\n",
    "sparse-log": "[log]\nevery_steps = 3\n[checkpoint]\nevery_steps = 7\n",
    "no-board": "[log]\ntensorboard = false\n",
    "pieces": "[train]\nmax_steps = 55\n[checkpoint]\nevery_steps = 9\n",
}


def merge(base: str, more: str) -> str:
    """Two configurations as one; a key of the second replaces that of the first."""
    tables: dict[str, dict[str, str]] = {}
    for text in (base, more):
        table = tables.setdefault("", {})
        for line in text.splitlines():
            if line.startswith("["):
                table = tables.setdefault(line, {})
            elif "=" in line:
                table[line.split("=")[0].strip()] = line
    return "\n".join(line for name, table in tables.items() for line in (name, *table.values(), "") if line) + "\n"


def write(folder: Path, name: str, more: str = "") -> Path:
    """Writes the configuration `name` as `config.toml`."""
    path = folder / "config.toml"
    path.write_text(merge(merge(BASE, CONFIGS[name]), more))
    return path
