#!/usr/bin/env python3
"""Breaks the code on purpose, in the ways of `mutants.toml`, and reports which test notices.

    scripts/mutants/run.py [--scratch FOLDER] [--only 3,17] [--again] [--check]

Building once per mutant would take days. So a copy of the tree gets all of them at once, each with a
switch (mutant schemata, Untch et al. 1993):

    original   becomes   (if crate::mutant(17) { replacement } else { original })

is built once, and the test binaries are run with `KVT_MUTANT=17`. Without it they must pass. A mutant meets the
tests that the list names, in a second round those of its crate, in a third those of the crates above, until one
fails, crashes, or takes five times as long as it should. No GPU driver is visible to them: what survives would
also survive on a machine without one.

The results are `results.tsv` in the scratch folder. A second call continues where the first one ended; after a
change of the tests, `--only` with the survivors repeats these, in a tree that has no others. Copy a target folder to `FOLDER/target` to save
the time that the dependencies take. Python 3.11 or later, nothing else.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATES = ["kvt-ops", "kvt-attention", "kvt-models", "kvt-data", "kvt-train", "kvt-tools", "kvt-export", "kvt-papers", "kvt"]  # no crate uses those after it
SWITCH = """
/// Which mutant is on.
fn mutant(number: u32) -> bool {
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let chosen = || std::env::var("KVT_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    *ON.get_or_init(chosen) == number
}
"""
HIDDEN = "/nonexistent"
SKIPPED = "no GPU adapter"


class Mutant:
    def __init__(self, file, number, original, replacement, more=None):
        more = more or {}
        self.path, self.number, self.original, self.replacement = file["path"], number, original, replacement
        self.nth, self.test = more.get("nth"), more.get("test", file["test"])
        self.crate = self.path.split("/")[0]

    def span(self, text):
        """Where the original is, before the tests of its file."""
        text = text.split("\n#[cfg(test)]\n")[0]
        places = [found.start() for found in re.finditer(re.escape(self.original), text)]
        if self.nth is None and len(places) != 1 or len(places) < (self.nth or 1):
            raise ValueError(f"{self.number}: `{self.original}` occurs {len(places)} times in {self.path}")
        start = places[(self.nth or 1) - 1]
        return start, start + len(self.original)


def read_list():
    with open(ROOT / "scripts/mutants/mutants.toml", "rb") as file:
        files = tomllib.load(file)["file"]
    mutants = [Mutant(file, *entry) for file in files for entry in file["mutants"]]
    numbers = [mutant.number for mutant in mutants]
    if len(set(numbers)) != len(numbers):
        raise ValueError("a number occurs twice")
    return mutants


def mutate(text, mutants):
    """The text with all the mutants in it, each with its switch."""
    spans = {}
    for mutant in mutants:
        spans.setdefault(mutant.span(text), []).append(mutant)
    ordered = sorted(spans.items())
    for ((_, end), before), ((start, _), after) in zip(ordered, ordered[1:]):
        if start < end:
            raise ValueError(f"{before[0].number} and {after[0].number} overlap in {after[0].path}")
    for (start, end), group in reversed(ordered):
        original = text[start:end]
        chain = "".join(f"if crate::mutant({m.number}) {{ {m.replacement} }} else " for m in group)
        code = f"{chain}{{ {original} }}"
        text = text[:start] + (code if original.endswith(";") else f"({code})") + text[end:]
    return text


def write_tree(tree, mutants):
    """Copies the files of the repository, mutated. Unchanged files keep their time, for Cargo."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    by_path = {}
    for mutant in mutants:
        by_path.setdefault(f"crates/{mutant.path}", []).append(mutant)
    wanted = {name for name in names if name and (ROOT / name).is_file()}
    for name in sorted(wanted):
        content = (ROOT / name).read_bytes()
        if name in by_path:
            content = mutate(content.decode(), by_path[name]).encode()
        if name in {f"crates/{crate}/src/{'main' if crate == 'kvt' else 'lib'}.rs" for crate in CRATES}:
            content += SWITCH.encode()
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)
            shutil.copymode(ROOT / name, target)
    for path in [path for path in tree.rglob("*") if path.is_file()]:
        if str(path.relative_to(tree)) not in wanted:
            path.unlink()
    # Cargo would take an empty folder for a crate.
    for folder in sorted((path for path in tree.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def build(tree, target):
    """The test binaries: `models-lib` of a crate's own tests, also of the program's, `models` of its `tests/all`."""
    command = ["cargo", "test", "--workspace", "--no-run", "-j2", "--message-format=json-render-diagnostics"]
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "RUSTFLAGS": os.environ.get("RUSTFLAGS", "")}
    if not env["RUSTFLAGS"]:
        del env["RUSTFLAGS"]
    output = subprocess.run(command, cwd=tree, env=env, stdout=subprocess.PIPE, text=True)
    if output.returncode != 0:
        sys.exit("the mutated tree does not build")
    binaries = {}
    for line in output.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        crate = Path(message["manifest_path"]).parent.name
        kinds = message["target"]["kind"]
        if crate in CRATES and message["profile"]["test"] and {"lib", "bin", "test"} & set(kinds):
            name = crate.removeprefix("kvt-") + ("" if "test" in kinds else "-lib")
            binaries[name] = (Path(message["executable"]), tree / "crates" / crate)
    return binaries


def run(binary, filters, number, limit, stderr=subprocess.DEVNULL):
    """What ended it: the first failed test, a crash or a time-out; `None` if all passed. And its output."""
    executable, folder = binary
    env = {name: value for name, value in os.environ.items() if not name.startswith("KVT_")}
    env |= {
        "KVT_MUTANT": str(number), "INSTA_UPDATE": "no", "RUST_BACKTRACE": "0", "PROPTEST_RNG_SEED": "1",
        "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true", "VK_ICD_FILENAMES": HIDDEN, "VK_DRIVER_FILES": HIDDEN,
        "__EGL_VENDOR_LIBRARY_DIRS": HIDDEN, "LIBGL_DRIVERS_PATH": HIDDEN,
    }
    process = subprocess.Popen([executable, *filters, "--test-threads=2"], cwd=folder, env=env, text=True,
                               stdout=subprocess.PIPE, stderr=stderr, start_new_session=True, errors="replace",
                               preexec_fn=hear)
    expired = threading.Event()

    def stop():
        expired.set()
        kill(process)

    timer = threading.Timer(limit, stop)
    timer.start()
    lines, failed = [], None
    try:
        for line in process.stdout:
            lines.append(line)
            if found := re.match(r"test (.*?)(?: - should panic)? \.\.\. FAILED", line):
                failed = found[1]
                break
    finally:
        timer.cancel()
        kill(process)
        process.stdout.close()
        process.wait()
    output = "".join(lines)
    if failed is None and expired.is_set():
        failed = "(time-out)"
    elif failed is None and "test result: ok" not in output:
        failed = "(crash)"
    return failed, output


def hear():
    """A shell starts a program in the background with Ctrl-C ignored, and the tested programs would inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def kill(process):
    """The process and those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Bench:
    """The test binaries, and how long their tests take without a mutant."""

    def __init__(self, binaries, file):
        self.binaries, self.file, self.known = binaries, file, {}
        key = {name: [str(path), path.stat().st_mtime] for name, (path, _) in binaries.items()}
        if file.exists() and (saved := json.loads(file.read_text()))["binaries"] == key:
            self.known = saved["seconds"]
        self.key = key
        _, output = run(binaries["models"], ["same_on_a_gpu"], 0, 600, subprocess.STDOUT)
        if SKIPPED not in output:
            sys.exit("a GPU adapter was found, although its drivers were hidden: it would notice mutants too")

    def seconds(self, name, filters):
        """Of tests that must pass without a mutant."""
        tests = " ".join([name, *filters])
        if tests not in self.known:
            start = time.monotonic()
            failed, output = run(self.binaries[name], filters, 0, 3600)
            if failed or "running 0 tests" in output:
                sys.exit(f"{output[-4000:]}\n`{tests}` without a mutant: {failed or 'no such tests'}")
            self.known[tests] = time.monotonic() - start
            print(f"without a mutant: `{tests}` takes {self.known[tests]:.1f} s", flush=True)
            self.file.write_text(json.dumps({"binaries": self.key, "seconds": self.known}))
        return self.known[tests]

    def notices(self, mutant, name, filters):
        """The test that notices a mutant; `None` if none does."""
        limit = 60 + 5 * self.seconds(name, filters)
        failed, _ = run(self.binaries[name], filters, mutant.number, limit)
        return failed and f"{name} {failed}"


def rounds(mutant):
    """The tests that the list names, those of its crate, and those of the crates above."""
    name, *filters = mutant.test.split()
    own = CRATES.index(mutant.crate)
    names = [[f"{crate.removeprefix('kvt-')}-lib"] for crate in CRATES]
    for crate, own_names in zip(CRATES, names):
        if (ROOT / "crates" / crate / "tests/all").is_dir():
            own_names.append(crate.removeprefix("kvt-"))
    above = [(name, []) for pair in names[own + 1 :] for name in pair]
    return [[(name, filters)], [(name, []) for name in names[own]], above]


class Results:
    """A line for each mutant: the rounds that it survived, and what noticed it."""

    def __init__(self, file, mutants):
        self.file, self.mutants, self.of = file, mutants, {}
        if file.exists():
            for line in file.read_text().splitlines():
                number, survived, noticed = line.split("\t")[:3]
                self.of[int(number)] = (int(survived), noticed)

    def set(self, mutant, survived, noticed):
        self.of[mutant.number] = (survived, noticed)
        lines = [(m, *self.of[m.number]) for m in self.mutants if m.number in self.of]
        self.file.write_text("".join(
            f"{m.number}\t{survived}\t{noticed}\t{m.path}\t{m.original}\t{m.replacement}\n"
            for m, survived, noticed in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, default=ROOT / "target" / "mutants", help="where it works")
    parser.add_argument("--only", help="numbers of mutants, also of those that have a result")
    parser.add_argument("--again", action="store_true", help="forget the results")
    parser.add_argument("--check", action="store_true", help="only look whether every original is there")
    arguments = parser.parse_args()
    os.nice(10)
    mutants = read_list()
    scratch = arguments.scratch.resolve()
    tree, file = scratch / "tree", scratch / "results.tsv"
    if arguments.check:
        texts = {path: (ROOT / "crates" / path).read_text() for path in {m.path for m in mutants}}
        for path, text in sorted(texts.items()):
            mutate(text, [m for m in mutants if m.path == path])
        print(f"{len(mutants)} mutants in {len(texts)} files")
        return
    tree.mkdir(parents=True, exist_ok=True)
    only = {int(number) for number in arguments.only.split(",")} if arguments.only else None
    chosen = [mutant for mutant in mutants if not only or mutant.number in only]
    write_tree(tree, chosen)
    bench = Bench(build(tree, scratch / "target"), scratch / "baseline.json")

    results = Results(file, mutants)
    for mutant in mutants:
        if only and mutant.number in only or arguments.again:
            results.of.pop(mutant.number, None)
    for number in range(3):
        for mutant in chosen:
            survived, noticed = results.of.get(mutant.number, (0, ""))
            if noticed or survived > number:
                continue
            start = time.monotonic()
            tests = rounds(mutant)[number]
            noticed = next(filter(None, (bench.notices(mutant, *one) for one in tests)), "")
            results.set(mutant, number + 1, noticed)
            print(f"{mutant.number} {mutant.path}: {noticed or f'survived round {number + 1}'} "
                  f"({time.monotonic() - start:.0f} s)", flush=True)
    survived = [m for m in mutants if results.of.get(m.number) == (3, "")]
    for mutant in survived:
        print(f"survived: {mutant.number} {mutant.path}: {mutant.original} -> {mutant.replacement}")
    noticed = sum(noticed != "" for _, noticed in results.of.values())
    left = len(mutants) - noticed - len(survived)
    print(f"{len(mutants)} mutants: {noticed} noticed, {len(survived)} survived, {left} not tried with all tests")


if __name__ == "__main__":
    main()
