#!/usr/bin/env python3
"""Whether two builds of `kvt` train to the same weights, bit for bit, on the CPU.

Each case trains a small model on generated shapes: 20 updates of every family with dense and with k-NN
attention, with drop path, attention dropout, label smoothing, accumulation and an average of the
weights; with `--quickstart` also both runs of the quick start. Of each, the weights, the average and the
moments of the last checkpoint are hashed, tensor by tensor in the order of their names.

    scripts/same-weights.py OLD_KVT NEW_KVT              # both now
    scripts/same-weights.py KVT --save before.json       # for later
    scripts/same-weights.py KVT --against before.json

Exits with 1 where something differs. Needs Python 3.11 alone.
"""

import argparse
import hashlib
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ["model", "ema", "optimizer"]
STEPS = 20
SHAPES = [
    "data.kind=shapes",
    "data.shapes.train_per_class=20",
    "data.shapes.val_per_class=4",
    "data.shapes.classes=10",
    "train.batch_size=5",
    "train.accumulate=2",
    f"train.max_steps={STEPS}",
    "train.device=cpu",
    "model.drop_path=0.2",
    "model.attn_drop=0.1",
    "loss.label_smoothing=0.1",
    "ema.decay=0.9",
    "log.tensorboard=false",
]


def cases(quickstart):
    for family in ["deit", "swin", "pit", "cvt", "so_vit", "t2t", "tnt", "twins", "visformer", "volo"]:
        for kind in ["dense", "knn"]:
            name = kind if family == "deit" else f"{family}_{kind}"
            yield f"{family}, {kind}, {STEPS} updates", f"cifar10/{name}.toml", SHAPES
    if quickstart:
        for kind in ["dense", "knn"]:
            yield f"quick start, {kind}", f"quickstart/{kind}.toml", ["train.device=cpu"]


def weights(kvt, config, overrides, folder):
    """The hashes of the last checkpoint's files, by name."""
    sets = [*overrides, f"run.dir={folder / 'run'}", f"data.path={folder.parent / 'shapes'}-{config.split('/')[0]}"]
    command = [kvt, "train", ROOT / "configs" / config, *(part for text in sets for part in ("--set", text))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(map(str, command))}\n{done.stderr}")
    checkpoints = folder / "run" / "checkpoints"
    last = checkpoints / (checkpoints / "last").read_text().strip()
    files = {name: last / f"{name}.safetensors" for name in FILES}
    return {name: digest(file) for name, file in files.items() if file.exists()}


def digest(file):
    """One hash of all floating-point tensors of a safetensors file."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    total = hashlib.sha256()
    for name in sorted(header):
        if header[name].get("dtype", "").startswith("F"):
            start, end = header[name]["data_offsets"]
            total.update(f"{name} {header[name]['shape']}".encode() + body[start:end])
    return total.hexdigest()[:16]


def run(kvt, quickstart):
    with tempfile.TemporaryDirectory() as scratch:
        results = {}
        for number, (name, config, overrides) in enumerate(cases(quickstart)):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            results[name] = weights(kvt, config, overrides, folder)
            print(f"{kvt}: {name}", file=sys.stderr)
        return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvt", type=lambda path: str(Path(path).resolve()), nargs="+", help="one binary, or two")
    parser.add_argument("--quickstart", action="store_true", help="the two runs of the quick start too")
    parser.add_argument("--save", type=Path, help="where the hashes go")
    parser.add_argument("--against", type=Path, help="hashes of an earlier build")
    arguments = parser.parse_args()
    results = [run(kvt, arguments.quickstart) for kvt in arguments.kvt]
    if arguments.save:
        arguments.save.write_text(json.dumps(results[0], indent=1) + "\n")
    if arguments.against:
        results.insert(0, json.loads(arguments.against.read_text()))
    if len(results) < 2:
        return 0
    old, new = results[:2]
    differing = 0
    print("| run | " + " | ".join(FILES) + " |\n|---|" + "---|" * len(FILES))
    for name in new:
        cells = []
        for file in FILES:
            a, b = old.get(name, {}).get(file), new[name].get(file)
            differing += a != b
            cells.append("-" if a is None and b is None else f"`{a}`, equal" if a == b else f"`{a}`, `{b}`")
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(f"\n{differing} files differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
