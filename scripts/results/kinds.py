"""Every kind of attention on CIFAR-10: the tables of docs/results/attention-kinds-cifar10.md.

  kvt compare configs/cifar10/zoo/[^bs]*.toml --seeds 2
  kvt compare configs/cifar10/zoo/scram.toml --seeds 1
  python scripts/results/kinds.py runs  configs/cifar10/zoo docs/results/attention-kinds-cifar10.csv
  python scripts/results/kinds.py costs configs/cifar10/zoo docs/results/attention-kinds-cifar10-costs.csv
  python scripts/results/kinds.py table docs/results/attention-kinds-cifar10.csv docs/results/attention-kinds-cifar10-costs.csv

`runs` reads the finished runs of a folder's configurations, in `<run.dir>-seed<seed>` below --root, and adds a row for each. Rows of
other runs stay, so that the runs can be made on several days. `costs` asks for parameters and multiply-accumulate operations
(`kvt models show`), and times steps of each kind, alternating with dense attention (`kvt bench step`). `table` prints Markdown:
differences are paired by seed, with the half width of their 95 % interval by Student's t.
`runs` and `costs` take the folder of either number of tokens.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

# Quantiles of Student's t at 97.5 %, by the number of seeds: half the width of a 95 % interval in standard errors.
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
RUNS = ["tokens", "kind", "seed", "images", "epochs", "top1", "val_loss", "train_loss"]
COSTS = ["tokens", "kind", "parameters", "macs", "attention_macs", "step_to_dense", "peak_mib", "dense_mib"]


def configurations(folder):
    """The kind of attention of each configuration of a folder, and its file."""
    for path in sorted(folder.glob("*.toml")):
        if path.stem != "base":
            yield path.stem, path


def read(path, header):
    if not path.exists():
        return []
    with path.open() as file:
        return [{name: row[name] for name in header} for row in csv.DictReader(file)]


def write(path, header, rows, key):
    """Writes all rows; of two with the same key, the later one."""
    known = {tuple(str(row[name]) for name in key): row for row in rows}
    rows = [known[key] for key in sorted(known, key=lambda key: (int(key[0]), *key[1:]))]
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)
    print(f"{len(rows)} rows in {path}", file=sys.stderr)


def shown(kvt, path):
    return json.loads(subprocess.run([kvt, "models", "show", "--config", path, "--json"], check=True, capture_output=True).stdout)


def finished(folder):
    """The last epoch's row of a finished run, its epochs, its images and its seed; `None` if it is not finished."""
    if not (folder / "epochs.csv").exists():
        return None
    plan = tomllib.loads((folder / "config.toml").read_text())
    with (folder / "epochs.csv").open() as file:
        rows = list(csv.DictReader(file))
    epochs = plan["train"]["epochs"]
    # Epochs in the file count from 0.
    if not rows or int(rows[-1]["epoch"]) + 1 != epochs:
        return None
    return rows[-1], epochs, plan["data"]["subset"], plan["seed"]


def runs(arguments):
    rows = read(arguments.csv, RUNS)
    for kind, path in configurations(arguments.configs):
        own = tomllib.loads(path.read_text())["run"]["dir"]
        tokens = shown(arguments.kvt, path)["stages"][-1]["tokens"]
        for folder in sorted((arguments.root / own).parent.glob(f"{kind}-seed*")):
            run = finished(folder)
            if run is None:
                print(f"{folder} is not finished", file=sys.stderr)
                continue
            last, epochs, images, seed = run
            rows.append({
                "tokens": tokens, "kind": kind, "seed": seed, "images": images, "epochs": epochs,
                "top1": f"{float(last['val_top1']):.2f}", "val_loss": f"{float(last['val_loss']):.4f}",
                "train_loss": f"{float(last['train_loss']):.4f}",
            })
    write(arguments.csv, RUNS, rows, ("tokens", "kind", "seed"))


def costs(arguments):
    rows = read(arguments.csv, COSTS)
    for kind, path in configurations(arguments.configs):
        model = shown(arguments.kvt, path)
        report = arguments.csv.with_suffix(".step")
        kinds = "dense" if kind == "dense" else f"dense,{kind}"
        command = [arguments.kvt, "bench", "step", "--config", path, "--kind", kinds, "--batch", arguments.batch,
                   "--runs", arguments.runs, "--device", "cpu", "--json", report]
        subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)
        records = json.loads(report.read_text())["records"]
        report.unlink()
        dense, own = records[0], records[-1]
        rows.append({
            "tokens": model["stages"][-1]["tokens"], "kind": kind, "parameters": model["parameters"], "macs": model["macs"]["total"],
            "attention_macs": model["attention"]["macs"]["total"], "step_to_dense": f"{own['step']['median'] / dense['step']['median']:.2f}",
            "peak_mib": f"{own['peak_bytes'] / 2**20:.0f}", "dense_mib": f"{dense['peak_bytes'] / 2**20:.0f}",
        })
    write(arguments.csv, COSTS, rows, ("tokens", "kind"))


def millions(number):
    return f"{int(number) / 1e6:.1f} M"


def interval(differences):
    """The mean of paired differences, with half the width of its 95 % interval where there are two seeds or more."""
    mean, count = statistics.mean(differences), len(differences)
    if count < 2:
        return f"{mean:+.2f}"
    if count not in STUDENT:
        sys.exit(f"{count} seeds of a kind: `STUDENT` ends at {max(STUDENT)}, add its quantile")
    return f"{mean:+.2f} ± {STUDENT[count] * statistics.stdev(differences) / count**0.5:.2f}"


def table(arguments):
    accuracies = read(arguments.csv, RUNS)
    prices = read(arguments.costs, COSTS) if arguments.costs else []
    for tokens in sorted({int(row["tokens"]) for row in accuracies}):
        here = [row for row in accuracies if int(row["tokens"]) == tokens]
        images, epochs = {row["images"] for row in here}, {row["epochs"] for row in here}
        seen = ", ".join(f"{int(number):,}" for number in sorted(images))
        print(f"## {tokens} tokens: {seen} images, {', '.join(sorted(epochs))} epoch{'' if epochs == {'1'} else 's'}\n")
        header = ["kind", "seeds", "top-1", "spread", "beside dense, ± 95 %", "seed by seed"]
        if prices:
            header += ["parameters", "MACs", "of attention", "step / dense", "peak MiB"]
        print(f"| {' | '.join(header)} |\n|---{'|---:' * (len(header) - 1)}|")
        of = {}
        for row in here:
            of.setdefault(row["kind"], {})[int(row["seed"])] = float(row["top1"])
        for kind in sorted(of, key=lambda kind: -statistics.mean(of[kind].values())):
            seeds = of[kind]
            differences = [seeds[seed] - of["dense"][seed] for seed in seeds if seed in of.get("dense", {})]
            spread = f"{statistics.stdev(seeds.values()):.2f}" if len(seeds) > 1 else ""
            differences = [] if kind == "dense" else differences
            beside = interval(differences) if differences else ""
            each = ", ".join(f"{difference:+.2f}" for difference in differences)
            price = next((row for row in prices if int(row["tokens"]) == tokens and row["kind"] == kind), None)
            cells = [kind, len(seeds), f"{statistics.mean(seeds.values()):.2f}", spread, beside, each]
            if price:
                cells += [f"{int(price['parameters']):,}", millions(price["macs"]), millions(price["attention_macs"]), price["step_to_dense"],
                          price["peak_mib"]]
            elif prices:
                cells += [""] * 5
            print("| " + " | ".join(str(cell) for cell in cells) + " |")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for name, what in (("runs", runs), ("costs", costs)):
        verb = verbs.add_parser(name)
        verb.set_defaults(what=what)
        verb.add_argument("configs", type=Path, help="the folder of configurations")
        verb.add_argument("csv", type=Path, help="the file to which rows are added")
        verb.add_argument("--kvt", default="target/release/kvt", help="the release binary")
        verb.add_argument("--root", type=Path, default=Path("."), help="the folder in which the runs were made")
        verb.add_argument("--batch", type=int, default=128, help="images of a timed step")
        verb.add_argument("--runs", type=int, default=5, help="timed steps")
    verb = verbs.add_parser("table")
    verb.set_defaults(what=table)
    verb.add_argument("csv", type=Path)
    verb.add_argument("costs", type=Path, nargs="?", help="without it the table has accuracies alone")
    arguments = parser.parse_args()
    arguments.what(arguments)


if __name__ == "__main__":
    main()
