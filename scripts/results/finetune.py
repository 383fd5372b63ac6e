"""Fine-tuning against training from scratch: the table of docs/results/finetune.md.

  python scripts/results/finetune.py target/release/kvt data/cifar10

Trains a small DeiT on five classes of CIFAR-10 (all their images), then learns the other five from a few images of each: with
`kvt finetune`, with its linear probe, and from random weights for as many and for four times as many epochs. All are evaluated on
the 5,000 validation images of the new classes. Prints a table with the best and the last top-1, and the seconds of each run.

Folders of links and the runs go to --out; a run that is finished there is not repeated.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path

KNOWN = ["airplane", "automobile", "bird", "cat", "deer"]
NEW = ["dog", "frog", "horse", "ship", "truck"]
CONFIG = "configs/cifar10/dense.toml"


def link_split(source, target, classes, count=None, seed=0):
    """Links the classes of a split, or `count` images of each, drawn from a seed."""
    for name in classes:
        folder = target / name
        folder.mkdir(parents=True, exist_ok=True)
        images = sorted((source / name).iterdir())
        if count is not None:
            images = sorted(random.Random(f"{seed} {name}").sample(images, count))
        for image in images:
            link = folder / image.name
            if not link.exists():
                link.symlink_to(image.resolve())


def top1(run):
    """The evaluations of a run: the best and the last top-1."""
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    values = [event["top1"] for event in events if event["kind"] == "eval" and event["split"] == "val"]
    return max(values), values[-1]


def run(label, folder, command, rows):
    """Runs a command that makes a run in a folder, unless it is there already, and adds a row."""
    seconds = folder / "seconds.txt"
    if not seconds.exists():
        start = time.monotonic()
        subprocess.run(command, check=True)
        seconds.write_text(f"{time.monotonic() - start:.0f}\n")
    best, last = top1(folder)
    rows.append((label, best, last, int(seconds.read_text())))
    print(f"{label}: best {best:.2f} %, last {last:.2f} %", file=sys.stderr)


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("kvt", help="path of the binary")
    parser.add_argument("data", type=Path, help="CIFAR-10 as an image folder, `train` and `val`")
    parser.add_argument("--out", type=Path, default=Path("runs/results/finetune"))
    parser.add_argument("--images", type=int, default=100, help="images of each new class")
    parser.add_argument("--pretrain-epochs", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=40, help="of fine-tuning")
    parser.add_argument("--seed", type=int, default=0, help="of the chosen images and of the runs")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    kvt, out, epochs = arguments.kvt, arguments.out, arguments.epochs

    known, few = out / "known", out / f"new-{arguments.images}-seed{arguments.seed}"
    for split in ("train", "val"):
        link_split(arguments.data / split, known / split, KNOWN)
    link_split(arguments.data / "train", few / "train", NEW, arguments.images, arguments.seed)
    link_split(arguments.data / "val", few / "val", NEW)

    # Evaluate rarely: there are ten times as many validation images (5,000) as training images.
    common = ["--set", f"seed={arguments.seed}", "--device", arguments.device]
    seldom = ["--set", f"train.eval_every={max(1, epochs // 10)}"]
    small = [*common, *seldom, "--set", f"data.path={few}", "--set", "data.drop_last=false", "--set", "train.batch_size=32",
             "--set", "optim.lr=5e-4"]
    rows, runs = [], out / f"runs-seed{arguments.seed}"
    pretrained = runs / "pretrain"
    run(f"the five other classes, {arguments.pretrain_epochs} epochs", pretrained,
        [kvt, "train", CONFIG, *common, "--set", f"data.path={known}", "--set",
         f"train.epochs={arguments.pretrain_epochs}", "--run-dir", str(pretrained)], rows)
    for label, name, more in (
        ("`kvt finetune`", "finetune", []),
        ("`kvt finetune`, crop and flip alone", "finetune-plain", ["--set", "augment.auto="]),
        ("`kvt finetune --linear-probe`", "probe", ["--linear-probe"]),
    ):
        run(f"{label}, {epochs} epochs", runs / name,
            [kvt, "finetune", str(few), "--weights", str(pretrained), "--out", str(runs / name), "--epochs", str(epochs),
             *common, *seldom, *more], rows)
    for times in (1, 4):
        name = f"scratch-{times}"
        run(f"from random weights, {times * epochs} epochs", runs / name,
            [kvt, "train", CONFIG, *small, "--set", f"train.epochs={times * epochs}", "--set",
             f"schedule.warmup_epochs={times * epochs / 10}", "--run-dir", str(runs / name)], rows)

    print(f"| {arguments.images} images of each of five classes | best top-1 | last top-1 | seconds |")
    print("|---|---|---|---|")
    for label, best, last, seconds in rows:
        print(f"| {label} | {best:.2f} % | {last:.2f} % | {seconds} |")


if __name__ == "__main__":
    main()
