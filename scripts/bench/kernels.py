"""Which GPU kernels a training step launches, and how long they take.

  python scripts/bench/kernels.py --device wgpu --config configs/cifar10/knn.toml --batch 16

Runs `kvt bench step` (the arguments are its own) under CubeCL's profiler and adds up the kernels of one
step, the last, by kind. The profiler waits for every kernel, so the sum is more than a step takes.
Needs a release build of kvt, and Python alone.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROW = re.compile(r"\| (?P<name>.+?)\s+\| (?P<time>[\d.]+)(?P<unit>ns|µs|ms|s)\s+\| (?P<count>\d+)\s+\| \d+ %")
MILLISECONDS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
KINDS = [
    ("matrix products", r"Matmul|Gemm|Gemv|Vecmat"),
    ("kvt: attention", r"KnnSoftmax|Flash"),
    ("kvt: layer norm", r"Normalize|ColumnSums|BlockSums"),
    ("kvt: AdamW, norm of the gradients", r"Adamw|^SumsKernel|AddSquareSums|Guard|^Chosen"),
    ("sums, means", r"Reduce|SharedSum"),
    ("element by element, fused", r"ElemwiseFuse"),
    ("element by element, one by one", r"Binop|Unary|Cast|MaskFill|MaskWhere"),
    ("copies, fills, slices", r"Copy|Slice|Full|Gather|Select|Repeat|Flip"),
]


def tables(log):
    """Every table of the log: a list of (name, milliseconds, launches)."""
    found = []
    for line in log.splitlines():
        if line.startswith("| Name"):
            found.append([])
        elif (row := ROW.match(line)) and found and row["name"].strip() != "Total":
            found[-1].append((row["name"].strip(), float(row["time"]) * MILLISECONDS[row["unit"]], int(row["count"])))
    return found


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), "others")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvt", default="target/release/kvt", help="the release binary")
    parser.add_argument("--config", type=Path)
    args, others = parser.parse_known_args()
    command = [str(Path(args.kvt).resolve()), "bench", "step", "--kind", "knn", "--runs", "2", *others]
    if args.config:
        command += ["--config", str(args.config.resolve())]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "kernels.log"
        # CubeCL reads its settings from the folder that it is run in.
        settings = f'[profiling.logger]\nlevel = "medium"\nfile = "{log}"\n'
        (Path(folder) / "cubecl.toml").write_text(settings)
        done = subprocess.run(command, cwd=folder, env=os.environ, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(done.returncode)
        found = tables(log.read_text(encoding="utf-8"))
    if not found:
        sys.exit("CubeCL logged no kernels: is the device a GPU (--device wgpu)?")
    # A step launches more kernels of different names than anything else.
    most = max(len(table) for table in found)
    step = [table for table in found if len(table) > most // 2][-1]
    total = sum(time for _, time, _ in step)
    print("| | launches | ms | of the time |\n|---|---|---|---|")
    for kind in [kind for kind, _ in KINDS] + ["others"]:
        rows = [row for row in step if kind_of(row[0]) == kind]
        if rows:
            time = sum(row[1] for row in rows)
            print(f"| {kind} | {sum(row[2] for row in rows)} | {time:.1f} | {100 * time / total:.1f} % |")
    print(f"| all | {sum(row[2] for row in step)} | {total:.1f} | |")


if __name__ == "__main__":
    main()
