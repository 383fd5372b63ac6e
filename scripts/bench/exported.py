"""Images per second of `kvt bench forward` and of the same model in onnxruntime, in alternation, on the CPU.

  python scripts/bench/exported.py --kvt target/release/kvt
  python scripts/bench/exported.py --model pit_s_224 --k 0.5 --batch 1,8 --json onnx.json

`kvt export` writes the model with random weights and 7 classes, dense and k-NN, once with a free batch and once for each fixed one.
onnxruntime has as many threads as there are CPUs, all optimisations of the graph and its memory arena; the faster file of the two is in bold. Of each
line the table has the median of its rounds, each of which is the median of its runs. A session lives for its own measurement, so that its
threads do not wait in loops beside kvt's. Both start from normalised images in memory and end with logits.

Needs a release build of kvt with the feature `export`, the packages of scripts/reference/requirements.txt, onnx and onnxruntime. The last column is
how many CPUs other processes kept busy meanwhile: the numbers of a busy machine are not worth much, and the script says so.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

import export_check  # noqa: E402
import side_by_side  # noqa: E402
from side_by_side import THREADS, WARMUPS, watched  # noqa: E402


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvt", type=Path, default=Path("target/release/kvt"), help="the release binary")
    parser.add_argument("--model", default="deit_tiny_patch16_224")
    parser.add_argument("--k", default="0.5", help="neighbours: a count, or a share of the keys with a point")
    parser.add_argument("--batch", default="1,32", help="images of a pass, with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10, help="timed passes of a round")
    parser.add_argument("--json")
    args = parser.parse_args()
    args.batch = [int(batch) for batch in args.batch.split(",")]
    return args


def exported(args, folder):
    """The configuration with k-NN attention, and (kind, batch, name of the line) -> file."""
    files, config = {}, None
    for kind, neighbors in [("dense", None), ("knn", args.k)]:
        place = folder / kind
        place.mkdir()
        config = export_check.written(place, argparse.Namespace(model=args.model, neighbors=neighbors))
        weights = export_check.random_weights(args.kvt, config, args.model, place)
        for fixed in [None, *args.batch]:
            file = place / f"{fixed or 'free'}.onnx"
            command = [args.kvt, "export", "--config", config, "--weights", weights, file]
            command += ["--batch", str(fixed)] if fixed else []
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for batch in [fixed] if fixed else args.batch:
                files[kind, batch, f"onnxruntime, {'fixed' if fixed else 'free'} batch"] = file
    return config, files


def kvt(args, config):
    """(kind, batch) -> milliseconds of a pass, by one `kvt bench forward`."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [args.kvt, "bench", "forward", "--config", config, "--device", "cpu", "--dtype", "f32", "--runs", str(args.runs)]
        command += ["--warmup", str(WARMUPS), "--batch", ",".join(map(str, args.batch)), "--json", out.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        records = json.load(open(out.name))["records"]
    return {(record["kind"], record["batch"]): record["forward_ms"] for record in records}


def onnx(args, file, batch):
    """Milliseconds of a pass."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_cpu_mem_arena = True
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape[1:]
    images = np.random.default_rng(0).normal(size=(batch, *shape)).astype(np.float32)
    times = []
    for _ in range(WARMUPS + args.runs):
        start = time.perf_counter()
        session.run(["logits"], {"images": images})
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[WARMUPS:])


def measure(args, config, files):
    """The records of all lines, those of kvt before those of the same case in onnxruntime."""
    rates, others = {}, {}

    def add(line, milliseconds, busy_cpus):
        rates.setdefault(line, []).append(1e3 * line[1] / milliseconds)
        others[line] = max(others.get(line, 0.0), busy_cpus)

    for number in range(args.rounds):
        times, busy_cpus = watched(side_by_side.used_by_children, lambda: kvt(args, config))
        for case, milliseconds in times.items():
            add((*case, "kvt"), milliseconds, busy_cpus)
        for line, file in files.items():
            add(line, *watched(time.process_time, lambda file=file, line=line: onnx(args, file, line[1])))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    records = [
        {
            "kind": kind, "batch": batch, "name": name, "images_per_second": statistics.median(found),
            "low": min(found), "high": max(found), "others_busy": others[kind, batch, name],
        }
        for (kind, batch, name), found in sorted(rates.items())
    ]
    for case in {(r["kind"], r["batch"]) for r in records}:
        of_case = [r for r in records if (r["kind"], r["batch"]) == case]
        own = next(r["images_per_second"] for r in of_case if r["name"] == "kvt")
        best = max((r for r in of_case if r["name"] != "kvt"), key=lambda r: r["images_per_second"])
        for r in of_case:
            r |= {"times_kvt": r["images_per_second"] / own, "best": r is best}
    return records


def show(args, records):
    print(f"\n{args.model}, k = {args.k}, f32, {THREADS} threads, onnxruntime {onnxruntime.__version__}\n")
    print("| attention | batch | | images/s | lowest - highest round | x kvt | CPUs busy with others |")
    print("|---|---|---|---|---|---|---|")
    for r in records:
        rate = f"**{r['images_per_second']:.1f}**" if r["best"] else f"{r['images_per_second']:.1f}"
        print(
            f"| {r['kind']} | {r['batch']} | {r['name']} | {rate} | {r['low']:.1f} - {r['high']:.1f} "
            f"| {r['times_kvt']:.2f} | {r['others_busy']:.2f} |"
        )
    side_by_side.warn_if_busy(records)


def main():
    args = parse()
    side_by_side.warn_of_load()
    with tempfile.TemporaryDirectory() as folder:
        config, files = exported(args, Path(folder))
        records = measure(args, config, files)
    show(args, records)
    if args.json:
        arguments = {**vars(args), "kvt": str(args.kvt)}
        found = {"arguments": arguments, "threads": THREADS, "onnxruntime": onnxruntime.__version__, "records": records}
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
