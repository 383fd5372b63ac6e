"""kvt and PyTorch side by side: the same work, in alternation, on the same machine.

  python scripts/bench/side_by_side.py attention --shape 16,3,197,64 --k 100
  python scripts/bench/side_by_side.py step --model deit_tiny_patch16_224 --batch 16 --k 100
  python scripts/bench/side_by_side.py step --model deit_tiny_patch16_224 --batch 128 --k 32 \
      --set img_size=32 --set patch_size=4 --set depth=6 --set num_classes=10
  python scripts/bench/side_by_side.py step --model t2t_vit_7 --batch 8 --k 0.5 --t2t-source T2T_CHECKOUT
  python scripts/bench/side_by_side.py families --t2t-source ... --cvt-source ... --so-vit-source ...
  python scripts/bench/side_by_side.py segment --config configs/scenes/swin_knn.toml --batch 8 --k 0.8
  python scripts/bench/side_by_side.py detect --config configs/scenes/swin_mask_rcnn_knn.toml --batch 8 --k 0.8

Needs a release build of kvt, and the packages of scripts/reference/requirements.txt; `segment` and `detect` those of
requirements-dense.txt, too. Every round times `kvt bench`, then each PyTorch variant; the table has the median over the rounds of
each one's median, and the ratio to the reference line. `--json FILE` writes the same as records.

PyTorch is measured as it comes (`dense` or `sdpa`, and `algorithm1`), and as fast as it gets: before the rounds, each kind of
torch_worker.py is tried with each set of options of healthy.py, and the fastest dense and k-NN variants take part.
`--as-it-comes` leaves that out, and `--variant KIND+OPTION+OPTION`, given once or more, names them instead. Each variant is a process of its own, all with THREADS threads.

A step is forward, label-smoothed cross-entropy, backward, clipping, AdamW, on timm's model or the authors' (as `cross_check.py`
takes them); of `segment` the two losses of mmsegmentation's UPerNet with the sizes of the configuration, of
`detect` the five of mmdet's Mask R-CNN, with seven objects of 80 classes in an image of 4 to 3: mmdet's own code, on the RoIAlign
and NMS of torchvision. A forward pass is in evaluation mode on both sides; of `detect` it ends with the detections. `families`
measures steps of one model of each family. `--k` is a count, or a share of the keys.
`--dtype bf16` runs a step of PyTorch under autocast beside kvt's in bf16 and in f32. It gives PyTorch's attention bf16 inputs;
`kvt bench attention` has f32 alone, and its lines say so.

Memory is what the process's resident set grew by at most, in a process of its own; on a GPU, kvt's is what Burn's pool grew by, and
PyTorch's that of its tensors. The last column is how many CPUs other
processes kept busy meanwhile: the numbers of a busy machine are not worth much, and the script says so.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

import cross_check  # noqa: E402
import healthy  # noqa: E402
import torch_worker  # noqa: E402

THREADS = len(os.sched_getaffinity(0))
TICKS = os.sysconf("SC_CLK_TCK")
# CPUs that others may keep busy before the numbers are in doubt.
BUSY = 0.1
WARMUPS = 3
# Model, images of a step, neighbours: the published k where there is one.
FAMILIES = [
    ("deit_tiny_patch16_224", 16, "100"), ("swin_tiny_patch4_window7_224", 4, "0.8"), ("pit_s_224", 8, "0.5"),
    ("cvt_13", 4, "0.5"), ("tnt_s_patch16_224", 4, "1.0,0.5"), ("visformer_tiny", 8, "150,45"),
    ("so_vit_7", 4, "100"), ("twins_svt_small", 4, "0.8"), ("t2t_vit_7", 8, "0.5"), ("volo_d1_224", 4, "0.5"),
]
SOURCES = {"cvt": "cvt_source", "so": "so_vit_source", "t2t": "t2t_source"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["attention", "step", "families", *torch_worker.TASKS])
    parser.add_argument("--kvt", default="target/release/kvt", help="the release binary")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--shape", default="16,3,197,64", help="batch,heads,tokens,head_dim")
    parser.add_argument("--model", default="deit_tiny_patch16_224")
    parser.add_argument("--config", help="a configuration of segmentation or detection")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--set", action="append", default=[], help="a key of [model], as in img_size=32")
    parser.add_argument("--k", default="100", help="neighbours: a count, or a share of the keys with a point; a step: one per stage with commas")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--as-it-comes", action="store_true", help="PyTorch without options")
    parser.add_argument("--variant", action="append", default=[], help="a kind and options, as in algorithm1+tf32+tuned+compile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="timed runs of a round")
    parser.add_argument("--json")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    cross_check.sources(parser)
    args = parser.parse_args()
    args.k = cross_check.neighbors(args.k)
    if args.what in torch_worker.TASKS and not args.config:
        parser.error(f"{args.what} needs --config")
    return args


def busy():
    """Seconds that all CPUs together have worked."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / TICKS


def used_by(pid):
    """Seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def used_by_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def watched(own, work):
    """What `work` gives, and how many CPUs others kept busy meanwhile."""
    all_before, own_before, start = busy(), own(), time.perf_counter()
    found = work()
    seconds = max(time.perf_counter() - start, 1e-3)
    return found, max(0.0, ((busy() - all_before) - (own() - own_before)) / seconds)


def warn_of_load():
    """Before a measurement."""
    load = os.getloadavg()[0]
    if load > BUSY * THREADS:
        print(f"the machine is busy already: load {load:.2f}", file=sys.stderr)


def warn_if_busy(records):
    """Below a table."""
    if max(r["others_busy"] for r in records) > BUSY:
        print("\nThe machine was busy with something else: these times are too long, and not by the same factor.")


class Worker:
    """A variant of PyTorch in its process."""

    def __init__(self, args, variant, library):
        # Of its own arguments a worker needs those of the case, which `families` changes.
        command = [sys.executable, __file__, args.what, "--worker", variant, "--model", args.model]
        command += ["--batch", str(args.batch), "--shape", args.shape, "--dtype", args.dtype, "--device", args.device]
        command += ["--kvt", args.kvt, "--k", ",".join(str(k) for k in args.k) if isinstance(args.k, list) else str(args.k)]
        for pair in args.set:
            command += ["--set", pair]
        for name in ("config", *SOURCES.values()):
            if getattr(args, name):
                command += [f"--{name.replace('_', '-')}", getattr(args, name)]
        environment = healthy.environment(variant.split("+")[1:], library, THREADS)
        self.variant, self.errors = variant, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment)
        self.version = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.errors.seek(0)
        raise RuntimeError(f"torch {self.variant}: {self.errors.read()[-600:].strip()}")

    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.answer()

    def timed(self, runs, warmups):
        """Medians of forward and of the whole, and the CPUs that others kept busy."""
        ask = lambda what: statistics.median(self.ask(f"{what} {runs} {warmups}"))
        return watched(lambda: used_by(self.process.pid), lambda: (ask("forward"), ask("whole")))

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.write("quit\n")
            self.process.stdin.close()
        self.process.wait()


def tried(args, library):
    """The fastest dense and k-NN variants, and what each one that was tried took."""
    kinds = {"dense": ("sdpa" if args.what == "attention" else "dense", "explicit"), "k-NN": torch_worker.NEAREST}
    best, took = [], {}
    for group, names in kinds.items():
        for name in names:
            for options in healthy.option_sets(args.what, args.device):
                variant = "+".join((name, *options))
                try:
                    worker = Worker(args, variant, library)
                    try:
                        (_, took[variant]), _ = worker.timed(max(2, args.runs // 2), WARMUPS)
                    finally:
                        worker.stop()
                    print(f"tried torch {variant}: {took[variant]:.1f} ms", file=sys.stderr)
                except (RuntimeError, BrokenPipeError) as error:
                    print(f"without torch {variant}: {error}", file=sys.stderr)
        of_group = [variant for variant in took if variant.split("+")[0] in names]
        if not of_group:
            sys.exit(f"no {group} variant of PyTorch runs")
        best.append(min(of_group, key=took.get))
    return best, took


def kvt(args):
    """Name -> record of one short `kvt bench`, of one for each precision of a step. The dense one is the first."""
    f32 = "" if args.dtype == "f32" else " f32"
    found = {f"kvt {record['kind']}{f32}": record for record in kvt_bench(args, [])}
    if args.what == "attention" or args.dtype == "f32":
        return found
    bf16 = kvt_bench(args, ["--set", "train.precision=bf16"])
    return {f"kvt {record['kind']}": record for record in bf16} | found


def kvt_bench(args, more):
    """The records of one short `kvt bench`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        what = "attention" if args.what == "attention" else "step"
        command = [args.kvt, "bench", what, "--device", args.device, "--runs", str(args.runs)]
        command += ["--warmup", str(WARMUPS), "--json", str(report)]
        if what == "attention":
            command += ["--shape", args.shape, "--k", str(args.k)]
        else:
            command += ["--config", args.config] if args.what in torch_worker.TASKS else ["--model", args.model]
            command += ["--batch", str(args.batch), "--set", f"model.attention.neighbors={args.k}"]
            for pair in args.set:
                command += ["--set", f"model.{pair}"]
        subprocess.run(command + more, check=True, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text())["records"]


def chosen(args, plain, library):
    """As `tried`, or what the arguments ask for: of several the last one of its kind."""
    if args.variant:
        nearest = [name for name in args.variant if name.split("+")[0] in torch_worker.NEAREST]
        dense = [name for name in args.variant if name not in nearest]
        return [*(dense[-1:] or plain[:1]), *(nearest[-1:] or plain[1:])], {}
    return (plain, {}) if args.as_it_comes else tried(args, library)


def measure(args, library):
    """The rounds of one case: its report, also printed."""
    plain = ["sdpa" if args.what == "attention" else "dense", "algorithm1"]
    best, took = chosen(args, plain, library)
    whole = "forward_backward_ms" if args.what == "attention" else "step_ms"
    times, peaks, others, workers = {}, {}, {}, []

    def add(name, forward, both, busy_cpus):
        pair = times.setdefault(name, ([], []))
        pair[0].append(forward)
        pair[1].append(both)
        others[name] = max(others.get(name, 0.0), busy_cpus)

    try:
        for variant in dict.fromkeys([*plain, *args.variant, *best]):
            workers.append(Worker(args, variant, library))
            peaks[f"torch {variant}"] = workers[-1].ask("memory")
        for number in range(args.rounds):
            records, busy_cpus = watched(used_by_children, lambda: kvt(args))
            for name, record in records.items():
                add(name, record["forward_ms"], record[whole], busy_cpus)
                peaks[name] = record["peak_bytes"]
            for worker in workers:
                (forward, both), busy_cpus = worker.timed(args.runs, WARMUPS)
                add(f"torch {worker.variant}", forward, both, busy_cpus)
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        version = workers[0].version
    finally:
        for worker in workers:
            worker.stop()
    records = [
        {
            "name": name,
            "forward_ms": statistics.median(forward),
            whole: statistics.median(both),
            "low": min(both),
            "high": max(both),
            "peak_bytes": peaks.get(name),
            "others_busy": others[name],
        }
        for name, (forward, both) in times.items()
    ]
    show(args, records, whole, dict(zip(("dense", "knn"), best)), version)
    return {"arguments": vars(args), "tried": took, "best": best, "records": records}


def show(args, records, whole, best, version):
    named = args.config if args.what in torch_worker.TASKS else f"{args.model} {' '.join(args.set)}"
    what = args.shape if args.what == "attention" else f"{named} batch {args.batch}"
    reference = {r["name"]: r[whole] for r in records}
    base = records[0]["name"]
    print(f"\n{args.what} {what}, k = {args.k}, {args.dtype}, {args.device}, {THREADS} threads, torch {version}\n")
    unit = "forward + backward ms" if args.what == "attention" else "step ms"
    print(f"| | forward ms | {unit} | lowest - highest round | x {base} | x fastest torch of its kind | peak MiB "
          "| CPUs busy with others |")
    print("|---|---|---|---|---|---|---|---|")
    for r in records:
        kind = r["name"].split()[1].split("+")[0]
        fastest = best["knn" if kind in ("knn", *torch_worker.NEAREST) else "dense"]
        peak = "-" if r["peak_bytes"] is None else f"{r['peak_bytes'] / 2**20:.0f}"
        print(
            f"| {r['name']} | {r['forward_ms']:.2f} | {r[whole]:.2f} | {r['low']:.2f} - {r['high']:.2f} "
            f"| {r[whole] / reference[base]:.2f} | {r[whole] / reference[f'torch {fastest}']:.2f} | {peak} "
            f"| {r['others_busy']:.2f} |"
        )
    warn_if_busy(records)


def cases(args):
    """The arguments of each case."""
    if args.what != "families":
        return [args]
    found = []
    for model, batch, k in FAMILIES:
        source = SOURCES.get(model.split("_")[0])
        if source and not getattr(args, source):
            print(f"without {model}: it needs --{source.replace('_', '-')}", file=sys.stderr)
            continue
        found.append(argparse.Namespace(**{
            **vars(args), "what": "step", "model": model, "batch": batch, "k": cross_check.neighbors(k), "set": []}))
    return found


def main():
    args = parse()
    if args.worker:
        return torch_worker.serve(args, THREADS)
    tokens = int(args.shape.split(",")[2])
    if args.what == "attention" and not (isinstance(args.k, int) and 0 < args.k < tokens):
        sys.exit(f"--k must be a count less than the {tokens} tokens: with all of them k-NN is dense")
    warn_of_load()
    with tempfile.TemporaryDirectory() as folder:
        library = healthy.preloaded(folder)
        if library is None:
            print("no C compiler: MKL chooses its instructions by the maker of the processor", file=sys.stderr)
        reports = [measure(case, library) for case in cases(args)]
    if args.json:
        found = reports if args.what == "families" else reports[0]
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
