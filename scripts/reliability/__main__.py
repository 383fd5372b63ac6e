"""Damages runs, disks, inputs and files, and checks how kvt handles it.

  python3 scripts/reliability --short              # two minutes
  python3 scripts/reliability --full               # at least 1,000 kills, and everything else
  python3 scripts/reliability --section kill --kills 200 --minutes 10
  python3 scripts/reliability --seed 3 --case kill/cvt/7

Python 3.10 or later, nothing else; see README.md beside this file.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from fnmatch import fnmatchcase
from pathlib import Path

import disk
import files
import inputs
import kill
import mutate
import noticed
import permissions
import quickstart
import scenarios
from common import Context, Failure, Result, carry_out, remove, say

ROOT = Path(__file__).resolve().parents[2]
# The quickest first; `kill` has no end of its own.
SECTIONS = {
    "noticed": noticed.cases,
    "scenarios": scenarios.cases,
    "files": files.cases,
    "inputs": inputs.cases,
    "permissions": permissions.cases,
    "disk": disk.cases,
    "mutate": mutate.cases,
    "kill": kill.cases,
    "quickstart": lambda context, references: quickstart.cases(context),
}


def parse():
    parser = argparse.ArgumentParser(prog="scripts/reliability", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvt", type=Path, help="the binary; target/release/kvt by default, else target/debug/kvt")
    parser.add_argument("--short", action="store_true", help="a thin slice of everything, for CI")
    parser.add_argument("--full", action="store_true", help="everything, and at least 1,000 kills")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="only this one; may be given again")
    parser.add_argument("--case", action="append", default=[], help="only this case, by its name or a pattern")
    parser.add_argument("--seed", type=int, default=0, help="of everything drawn")
    parser.add_argument("--kills", type=int, help="kills of the section `kill`: 40 with --short, 1000 with --full, else 200")
    parser.add_argument("--minutes", type=float, default=240, help="no new case is started after these")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="cases at a time")
    parser.add_argument("--work", type=Path, help="where the cases run; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="also write the results to a file")
    parser.add_argument("--list", action="store_true", help="only list the cases, without those of `kill`")
    arguments = parser.parse_args()
    arguments.kills = arguments.kills or (40 if arguments.short else 1000 if arguments.full else 200)
    return arguments


def binary(given: Path | None) -> Path:
    choices = [given] if given else [ROOT / "target/release/kvt", ROOT / "target/debug/kvt"]
    for path in choices:
        if path.is_file():
            return path.resolve()
    sys.exit(f"error: no program at {', '.join(map(str, choices))}: build it with `cargo build --release --workspace`, or `cargo test --workspace --no-run`")


def wanted(cases, patterns: list[str], bounded: bool):
    """The cases that were asked for. In a section without an end the search stops after 20,000 cases."""
    for number, case in enumerate(cases):
        if not patterns or any(case.name == pattern or fnmatchcase(case.name, pattern) for pattern in patterns):
            yield case
        if not bounded and patterns and number > 20_000:
            return


def carry_out_section(context: Context, name: str, cases, enough) -> list[Result]:
    """Runs the cases of a section, some at a time, until there are enough of them or no time is left."""
    results: list[Result] = []
    counts: Counter = Counter()

    def take(done: set[Future]) -> None:
        for future in done:
            result = future.result()
            results.append(result)
            counts.update(result.counts)
            if result.state == "failed":
                say(f"  FAILED {result.name}\n    " + result.detail.replace("\n", "\n    "))

    with ThreadPoolExecutor(context.jobs) as pool:
        running: set[Future] = set()
        for case in cases:
            if enough(counts):
                break
            if context.out_of_time():
                results.append(Result(case.name, "not run", "out of time"))
                if name == "kill":
                    break
                continue
            running.add(pool.submit(carry_out, context, case))
            if len(running) >= context.jobs:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                take(done)
        take(wait(running).done)
    return results


def summary(name: str, results: list[Result], seconds: float) -> dict:
    states = Counter(result.state for result in results)
    counts = Counter()
    for result in results:
        counts.update(result.counts)
    reasons = Counter(result.detail for result in results if result.state == "not run")
    line = f"{name:<12}{len(results):5} cases  {states['ok']:5} passed  {states['failed']:4} failed  " \
           f"{states['not run']:4} not run  {seconds:6.0f} s"
    say(line + "".join(f"\n              {count:6} {what}" for what, count in sorted(counts.items()) if count))
    for reason, count in reasons.items():
        say(f"              not run {count}: {reason}")
    return {"section": name, "cases": len(results), "passed": states["ok"], "failed": states["failed"],
            "not_run": dict(reasons), "seconds": round(seconds, 1), "counts": dict(counts),
            "failures": {result.name: result.detail for result in results if result.state == "failed"}}


def hear_signals() -> None:
    """A signal that is ignored here would be ignored by every program that is started; one that is heard is not."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def main() -> int:
    arguments = parse()
    hear_signals()
    kvt = binary(arguments.kvt)
    work = Path(tempfile.mkdtemp(prefix="kvt-reliability-", dir=arguments.work))
    # Another user has to get in.
    work.chmod(0o755)
    context = Context(kvt, work, arguments.seed, arguments.jobs, time.monotonic() + 60 * arguments.minutes, arguments.short,
                      arguments.full)
    context.kvt = shared(kvt, work)
    version = subprocess.run([context.kvt, "--version"], capture_output=True, text=True).stdout.strip()
    say(f"{version} ({kvt}), seed {arguments.seed}, {arguments.jobs} cases at a time")
    references = kill.References(context)
    reports, started = [], time.monotonic()
    for name, make in SECTIONS.items():
        if arguments.section and name not in arguments.section:
            continue
        if arguments.case and not any(pattern.split("/")[0] in (name, "*") for pattern in arguments.case):
            continue
        if name == "quickstart" and arguments.short and not arguments.section and not arguments.case:
            # Its parts are among those of `kill`; whole, it takes minutes.
            continue
        start = time.monotonic()
        try:
            cases = wanted(make(context, references), arguments.case, name != "kill")
            if arguments.list:
                if name != "kill":
                    print("\n".join(case.name for case in cases))
                continue
            enough = (lambda counts: counts["kills"] >= arguments.kills and not arguments.case) if name == "kill" else (lambda counts: False)
            results = carry_out_section(context, name, cases, enough)
        except Failure as failure:
            results = [Result(name, "failed", str(failure))]
            say(f"  FAILED {name}: {failure}")
        reports.append(summary(name, results, time.monotonic() - start))
    failed = [case for report in reports for case in report["failures"]]
    total = sum(report["cases"] for report in reports)
    say(f"{total} cases, {len(failed)} failed, {sum(sum(r['not_run'].values()) for r in reports)} not run, "
        f"{time.monotonic() - started:.0f} s")
    if failed:
        say("again:")
        short = " --short" if arguments.short else ""
        for case in failed:
            say(f"  python3 scripts/reliability --kvt {kvt}{short} --seed {arguments.seed} --case '{case}'")
    else:
        remove(work)
    if arguments.json:
        arguments.json.write_text(json.dumps({"kvt": version, "seed": arguments.seed, "sections": reports}, indent=1) + "\n")
    return 1 if failed else 0


def shared(kvt: Path, work: Path) -> Path:
    """The binary where another user can reach it, and no build replaces it: as a link to it, or as a copy."""
    copy = work / "kvt"
    try:
        os.link(kvt, copy)
    except OSError:
        shutil.copy(kvt, copy)
        copy.chmod(0o755)
    return copy


if __name__ == "__main__":
    sys.exit(main())
