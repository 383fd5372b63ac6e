"""Losses, accuracy, throughput and memory of training in f32, bf16 and f16, as a table in Markdown.

  python scripts/bench/precision.py --device cuda > docs/results/precision.md

Trains a configuration once in each precision (`kvt train --set train.precision=...`), below `--output`, and times a step of it
(`kvt bench step`). A precision that the device lacks has an empty row that says so. Needs a release build of kvt, the
configuration's data, and Python alone. `--set` is handed to both, such as `--set train.epochs=1`.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PRECISIONS = ("f32", "bf16", "f16")


def run(command):
    """Standard output; `None` and a line on stderr where the command fails."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return done.stdout
    print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
    return None


def train(args, precision, sets):
    folder = args.output / precision
    command = [args.kvt, "train", args.config, "--device", args.device, *sets, "--set", f"run.dir={folder}"]
    if run(command) is None:
        return None
    rows = list(csv.DictReader((folder / "epochs.csv").open()))
    log = [json.loads(line) for line in (folder / "log.jsonl").open()]
    skipped = sum(event.get("topic") == "scale" for event in log)
    return rows[-1], skipped


def step(args, sets):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "step.json"
        command = [args.kvt, "bench", "step", "--config", args.config, "--device", args.device, "--kind", args.kind,
                   "--batch", args.batch, "--runs", args.runs, "--json", report, *sets]
        if run(command) is None:
            return None, None
        report = json.loads(report.read_text())
        return report["records"][0], report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvt", default="target/release/kvt", help="the release binary")
    parser.add_argument("--config", type=Path, default=Path("configs/cifar10/knn.toml"))
    parser.add_argument("--kind", default="knn", help="the attention of the timed step")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", type=int, default=128, help="images of the timed step")
    parser.add_argument("--runs", type=int, default=10, help="timed steps")
    parser.add_argument("--output", type=Path, default=Path("runs/cifar10/precision"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    print("# Precision\n")
    print(f"`python scripts/bench/precision.py {' '.join(sys.argv[1:])}`: `{args.config}`, one seed.\n")
    print("| precision | train loss | val loss | top-1 % | images/s of the run | step ms | steps/s | peak MiB | skipped |")
    print("|---|---|---|---|---|---|---|---|---|")
    machine = None
    for precision in PRECISIONS:
        sets = [part for text in (*args.set, f"train.precision={precision}") for part in ("--set", text)]
        trained, (timed, report) = train(args, precision, sets), step(args, sets)
        if trained is None or timed is None:
            print(f"| {precision} | not on this device | | | | | | | |", flush=True)
            continue
        (last, skipped), machine = trained, report
        memory = "" if timed["peak_bytes"] is None else f"{timed['peak_bytes'] / 2**20:.0f}"
        print(
            f"| {precision} | {float(last['train_loss']):.4f} | {float(last['val_loss']):.4f}"
            f" | {float(last['val_top1']):.2f} | {float(last['images_per_second']):.0f} | {timed['step_ms']:.1f}"
            f" | {1000 / timed['step_ms']:.2f} | {memory} | {skipped} |", flush=True)
    if machine:
        print(f"\nOn {machine['device']} ({machine['description']}), kvt {machine['kvt']}, {machine['date']}. A step has"
              f" {args.batch} images; its time is the median of {args.runs}. Skipped: updates that the loss scale of f16 left out.")


if __name__ == "__main__":
    main()
