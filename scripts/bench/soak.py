"""Does memory stay flat over a long run? A tiny model on generated shapes, the resident set sampled on the way.

  python scripts/bench/soak.py [--kvt target/release/kvt] [--steps 5000] [--every 250] [--json FILE]

Prints the resident set (MiB) of the process at every `--every` steps, and how it changed over the second half of the
run. The run has two workers, an evaluation per epoch and checkpoints, and is removed afterwards. Linux only.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

CONFIG = """
[model]
name = "deit_tiny_patch16_224"
img_size = 32
patch_size = 8
embed_dim = 32
depth = 2
num_heads = 2
[data]
kind = "shapes"
path = "{dir}/shapes"
workers = 2
[data.shapes]
image_size = 32
classes = 4
train_per_class = 100
val_per_class = 10
[train]
epochs = 1000000
max_steps = {steps}
batch_size = 8
accumulate = 2
eval_every = 20
device = "cpu"
[checkpoint]
every_steps = 1000
[log]
every_steps = 50
[run]
dir = "{dir}/run"
"""


def resident(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None


def steps_done(log):
    try:
        lines = log.read_bytes()[-20_000:].splitlines()
    except FileNotFoundError:
        return 0
    for line in reversed(lines):
        try:
            return json.loads(line)["step"]
        except (ValueError, KeyError):
            continue
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvt", default="target/release/kvt")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "soak.toml"
        config.write_text(CONFIG.format(dir=folder, steps=args.steps))
        process = subprocess.Popen([args.kvt, "train", str(config)], stderr=subprocess.DEVNULL)
        log, samples, due = Path(folder) / "run" / "log.jsonl", [], args.every
        while process.poll() is None:
            time.sleep(0.2)
            done = steps_done(log)
            if done >= due:
                samples.append((done, resident(process.pid)))
                due = done - done % args.every + args.every
        if process.returncode:
            raise SystemExit(f"kvt ended with {process.returncode}")
    samples = [sample for sample in samples if sample[1]]
    for step, size in samples:
        print(f"step {step:6d}  {size:8.1f} MiB")
    half = [size for step, size in samples if step >= args.steps / 2]
    print(f"second half: {min(half):.1f} to {max(half):.1f} MiB, last - first {half[-1] - half[0]:+.1f} MiB")
    if args.json:
        Path(args.json).write_text(json.dumps(samples))


if __name__ == "__main__":
    main()
