"""How fast training images arrive: `kvt bench loader` and torchvision in turn, on one core, in one run.

  python scripts/bench/loader.py --data FOLDER [--set data.decode=\\"scaled\\"] [--kvt target/release/kvt] [--rounds 5]

FOLDER holds `<split>/<class>/*.jpg`, `--split` names the split. The transform is DeiT's for training, without
RandAugment: RandomResizedCrop to 224 (bicubic), flip, normalise. Each line is the median over the rounds; a round goes
through the images of all lines. Files come from the page cache. Needs torchvision and a release build of kvt.

- `PIL`: torchvision's transforms on PIL images, what timm and DeiT do
- `tensor`: torchvision.io.decode_jpeg and transforms.v2 on uint8 tensors, with antialiasing
- `kvt`: the stages of `kvt bench loader` on one thread, once for each `--set` (none, and each of those given alone)
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CONFIG = """
[model]
name = "deit_tiny_patch16_224"
[data]
path = {data}
train = {split}
val = {split}
[train]
batch_size = 16
device = "cpu"
"""


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--split", default="val")
    parser.add_argument("--kvt", action="append", help="a binary; several are compared. Default: target/release/kvt")
    parser.add_argument("--set", default=[], action="append", help="a further line of kvt with this key")
    parser.add_argument("--images", type=int, default=0, help="images of a round; default: all of the split")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    return parser.parse_args()


def pil():
    from PIL import Image
    from torchvision import transforms as t

    transform = t.Compose([
        t.RandomResizedCrop(224, interpolation=t.InterpolationMode.BICUBIC),
        t.RandomHorizontalFlip(),
        t.ToTensor(),
        t.Normalize(MEAN, STD),
    ])

    def load(file):
        with open(file, "rb") as handle:
            return Image.open(handle).convert("RGB")

    return load, transform


def tensor():
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2 as t

    transform = t.Compose([
        t.RandomResizedCrop(224, interpolation=t.InterpolationMode.BICUBIC, antialias=True),
        t.RandomHorizontalFlip(),
        t.ToDtype(torch.float32, scale=True),
        t.Normalize(MEAN, STD),
    ])
    return lambda file: decode_jpeg(read_file(str(file)), mode=ImageReadMode.RGB), transform


def timed(files, load, transform):
    """Milliseconds for an image: read and decode, then the rest."""
    decode = rest = 0.0
    for file in files:
        start = time.perf_counter()
        image = load(file)
        middle = time.perf_counter()
        transform(image)
        decode += middle - start
        rest += time.perf_counter() - middle
    return [1e3 * decode / len(files), 1e3 * rest / len(files)]


def kvt(binary, config, images, sets):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [binary, "bench", "loader", config, "--images", str(images), "--rounds", "1", "--json", out.name]
        command += [part for key in sets for part in ("--set", key)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        stages = {stage["name"]: stage["ms"] for stage in json.load(open(out.name))["stages"]}
    decode = stages.pop("read") + stages.pop("decode")
    return [decode, sum(stages.values())]


def main():
    args = parse()
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    endings = {".jpg", ".jpeg"}
    files = sorted(f for f in (args.data / args.split).rglob("*") if f.suffix.lower() in endings)
    files = files[: args.images or None]
    quoted = [json.dumps(str(text)) for text in (args.data.resolve(), args.split)]
    folder = tempfile.mkdtemp()
    config = os.path.join(folder, "loader.toml")
    Path(config).write_text(CONFIG.format(data=quoted[0], split=quoted[1]))
    binaries = args.kvt or ["target/release/kvt"]
    lines = {
        "torchvision, PIL": lambda: timed(files, *pil()),
        "torchvision, tensors": lambda: timed(files, *tensor()),
    }
    for binary in binaries:
        lines[f"kvt ({binary})"] = lambda binary=binary: kvt(binary, config, len(files), [])
        for key in args.set:
            lines[f"kvt ({binary}, {key})"] = lambda binary=binary, key=key: kvt(binary, config, len(files), [key])
    runs = {name: [] for name in lines}
    for number in range(args.rounds + 1):
        for name, run in lines.items():
            result = run()
            if number > 0:
                runs[name].append(result)
        print(f"round {number} of {args.rounds}", file=sys.stderr)
    records = []
    for name, found in runs.items():
        decode, rest = (statistics.median(run[at] for run in found) for at in (0, 1))
        rates = sorted(1e3 / sum(run) for run in found)
        records.append({
            "name": name, "decode_ms": decode, "rest_ms": rest, "images_per_second": statistics.median(rates),
            "low": rates[0], "high": rates[-1], "decode_limit": 1e3 / decode,
        })
    of = {record["name"]: record["images_per_second"] for record in records}
    print(f"{len(files)} images, {args.rounds} rounds, one core\n")
    print("| | read, decode ms | rest ms | images/s (range) | decoding alone | x PIL | x tensors |")
    print("|---|---|---|---|---|---|---|")
    for r in records:
        rate = r["images_per_second"]
        ratios = [rate / of["torchvision, PIL"], rate / of["torchvision, tensors"]]
        print(
            f"| {r['name']} | {r['decode_ms']:.3f} | {r['rest_ms']:.3f} | {rate:.0f} ({r['low']:.0f}-{r['high']:.0f})"
            f" | {r['decode_limit']:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |"
        )
    if args.json:
        Path(args.json).write_text(json.dumps(records, indent=2))


if __name__ == "__main__":
    main()
