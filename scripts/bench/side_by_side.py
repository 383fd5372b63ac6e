"""kvt and PyTorch side by side: the same work, in alternation, on the same machine.

  python scripts/bench/side_by_side.py attention --shape 16,3,197,64 --k 100
  python scripts/bench/side_by_side.py step --model deit_tiny_patch16_224 --batch 16 --k 100
  python scripts/bench/side_by_side.py step --model deit_tiny_patch16_224 --batch 128 --k 32 \
      --set img_size=32 --set patch_size=4 --set depth=6 --set num_classes=10
  python scripts/bench/side_by_side.py step --model t2t_vit_7 --batch 8 --k 0.5 --t2t-source T2T_CHECKOUT

Needs a release build of kvt, and the packages of scripts/reference/requirements.txt. Every round times
`kvt bench`, then each PyTorch variant; the table has the median over the rounds of each one's median,
and the ratio to the reference line. `--json FILE` writes the same as records.

PyTorch variants of the attention: `sdpa` (dense, `scaled_dot_product_attention`), `explicit` (dense, matmul, softmax,
matmul), `algorithm1` (the paper's: topk, scatter, where, softmax). A step is forward, label-smoothed cross-entropy,
backward, clipping, AdamW, on timm's model or the authors' (as `cross_check.py` takes them): `dense`, with the attention
that the model has (timm's by sdpa where it can), or `algorithm1`. `--k` is a count, or a share of the keys.
`--dtype bf16` gives the attention bf16 inputs, and runs a step of PyTorch under autocast beside kvt's in bf16 and in f32;
`--compile` adds compiled variants.
Memory is what the process's resident set grew by at most, in a process of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reference"))

import cross_check  # noqa: E402

THREADS = len(os.sched_getaffinity(0))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["attention", "step"])
    parser.add_argument("--kvt", default="target/release/kvt", help="the release binary")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--shape", default="16,3,197,64", help="batch,heads,tokens,head_dim")
    parser.add_argument("--model", default="deit_tiny_patch16_224")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--set", action="append", default=[], help="a key of [model], as in img_size=32")
    parser.add_argument("--k", default="100", help="neighbours: a count, or a share of the keys with a point; a step: one per stage with commas")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="timed runs of a round")
    parser.add_argument("--json")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    cross_check.sources(parser)
    args = parser.parse_args()
    args.k = cross_check.neighbors(args.k)
    return args


def timed(args, work):
    import torch

    sync = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    work(), sync()
    times = []
    for _ in range(args.runs):
        start = time.perf_counter()
        work()
        sync()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def autocast(args):
    import torch

    return torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.dtype == "bf16")


def attention_variants(args):
    """Name -> (forward, forward and backward)."""
    import torch
    import torch.nn.functional as F
    from common import keep_topk

    batch, heads, tokens, dim = (int(size) for size in args.shape.split(","))
    dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
    inputs = [torch.randn(batch, heads, tokens, dim, dtype=dtype, device=args.device) for _ in range(3)]

    def explicit(q, k, v):
        return (q @ k.transpose(-2, -1) * dim**-0.5).softmax(-1) @ v

    def algorithm1(q, k, v):
        scores = q @ k.transpose(-2, -1) * dim**-0.5
        return keep_topk(scores, scores, args.k).softmax(-1) @ v

    functions = {"sdpa": F.scaled_dot_product_attention, "explicit": explicit, "algorithm1": algorithm1}
    if args.compile:
        functions |= {f"{name} compiled": torch.compile(f) for name, f in functions.items()}

    def forward(function):
        with torch.no_grad():
            function(*inputs)

    def both(function):
        leaves = [x.detach().requires_grad_() for x in inputs]
        out = function(*leaves)
        out.backward(torch.ones_like(out))

    return {name: (partial(forward, f), partial(both, f)) for name, f in functions.items()}


def settings(args):
    pairs = (pair.split("=", 1) for pair in args.set)
    return {key: float(value) if "." in value else int(value) for key, value in pairs}


def step_variants(args):
    """Name -> (forward, step)."""
    import torch

    def variant(neighbors, compiled):
        torch.manual_seed(0)
        model, shape = cross_check.reference(args, **settings(args))
        model = model.to(args.device).train()
        if neighbors is not None:
            cross_check.attend(args, model, neighbors)
        images = torch.randn(args.batch, *shape, device=args.device)
        labels = torch.arange(args.batch, device=args.device) % settings(args).get("num_classes", 1000)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
        run = torch.compile(model) if compiled else model

        def forward():
            with torch.no_grad(), autocast(args):
                run(images)

        def step():
            optimizer.zero_grad()
            with autocast(args):
                loss = torch.nn.functional.cross_entropy(run(images), labels, label_smoothing=0.1)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return forward, step

    variants = {"dense": partial(variant, None, False), "algorithm1": partial(variant, args.k, False)}
    if args.compile:
        variants |= {"dense compiled": partial(variant, None, True), "algorithm1 compiled": partial(variant, args.k, True)}
    return variants


def variants(args):
    if args.what == "attention":
        return attention_variants(args)
    made = step_variants(args)
    return {name: make() for name, make in made.items()}


def status(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def print_memory(args):
    """The first forward and backward of one variant in this process; on the CPU only (Linux)."""
    import torch

    if args.what == "attention":
        _, work = attention_variants(args)[args.memory_of]
    else:
        _, work = step_variants(args)[args.memory_of]()
    # The libraries' own pools and threads are not the variant's memory.
    x = torch.randn(64, 64, requires_grad=True)
    (x @ x).softmax(-1).sum().backward()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS:")
    work()
    print(max(0, status("VmHWM:") - before))


def memory(args, name):
    if args.device != "cpu":
        return None
    command = [sys.executable, __file__, *sys.argv[1:], "--memory-of", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def kvt(args):
    """Name -> record of one short `kvt bench`, of one for each precision of a step."""
    if args.what == "attention" or args.dtype == "f32":
        return {f"kvt {record['kind']}": record for record in kvt_bench(args, [])}
    bf16 = kvt_bench(args, ["--set", "train.precision=bf16"])
    found = {f"kvt {record['kind']}": record for record in bf16}
    return found | {f"kvt {record['kind']} f32": record for record in kvt_bench(args, [])}


def kvt_bench(args, more):
    """The records of one short `kvt bench`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [args.kvt, "bench", args.what, "--device", args.device, "--runs", str(args.runs), "--warmup", "2"]
        command += ["--json", str(report)]
        if args.what == "attention":
            command += ["--shape", args.shape, "--k", str(args.k)]
        else:
            command += ["--model", args.model, "--batch", str(args.batch)]
            command += ["--set", f"model.attention.neighbors={args.k}"]
            for pair in args.set:
                command += ["--set", f"model.{pair}"]
        subprocess.run(command + more, check=True, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text())["records"]


def main():
    args = parse()
    tokens = int(args.shape.split(",")[2])
    if args.what == "attention" and not (isinstance(args.k, int) and 0 < args.k < tokens):
        sys.exit(f"--k must be a count less than the {tokens} tokens: with all of them k-NN is dense")
    import torch

    # `common` asks for one thread and determinism, for golden numbers.
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(False)
    if args.memory_of:
        return print_memory(args)
    whole = "forward_backward_ms" if args.what == "attention" else "step_ms"
    times, peaks = {}, {}

    def add(name, forward, both):
        pair = times.setdefault(name, ([], []))
        pair[0].append(forward)
        pair[1].append(both)

    made = variants(args)
    for number in range(args.rounds):
        for name, record in kvt(args).items():
            add(name, record["forward_ms"], record[whole])
            peaks[name] = record["peak_bytes"]
        for name, (forward, both) in made.items():
            add(f"torch {name}", timed(args, forward), timed(args, both))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    for name in made:
        peaks[f"torch {name}"] = memory(args, name)

    records = [
        {
            "name": name,
            "forward_ms": statistics.median(forward),
            whole: statistics.median(both),
            "low": min(both),
            "high": max(both),
            "peak_bytes": peaks.get(name),
        }
        for name, (forward, both) in times.items()
    ]
    what = args.shape if args.what == "attention" else f"{args.model} {' '.join(args.set)} batch {args.batch}"
    reference = {r["name"]: r[whole] for r in records}
    print(f"\n{args.what} {what}, k = {args.k}, {args.dtype}, {args.device}, {THREADS} threads, torch {torch.__version__}\n")
    unit = "forward + backward ms" if args.what == "attention" else "step ms"
    print(f"| | forward ms | {unit} | lowest - highest round | x kvt dense | x torch algorithm1 | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for r in records:
        peak = "-" if r["peak_bytes"] is None else f"{r['peak_bytes'] / 2**20:.0f}"
        dense, paper = r[whole] / reference["kvt dense"], r[whole] / reference["torch algorithm1"]
        print(
            f"| {r['name']} | {r['forward_ms']:.2f} | {r[whole]:.2f} | {r['low']:.2f} - {r['high']:.2f} "
            f"| {dense:.2f} | {paper:.2f} | {peak} |"
        )
    if args.json:
        Path(args.json).write_text(json.dumps({"arguments": vars(args), "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
