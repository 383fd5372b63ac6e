"""The quick start of a new user, killed again and again, and each time continued by the same command."""

import signal
import time
from collections import Counter
from pathlib import Path

import record
from common import Case, Context, Failure, Process, run, say

CONFIGS = Path(__file__).resolve().parents[2] / "configs/quickstart"
KILLS = 20
LIMIT = 3600.0


def less(epochs: int, images: int) -> list[str]:
    """The same parts in less time."""
    return [item for key, value in [("train.epochs", epochs), ("data.shapes.train_per_class", images), ("data.shapes.val_per_class", 20)]
            for item in ("--set", f"{key}={value}")]


def cases(context: Context):
    yield Case("quickstart/compare", compare(context))


def compare(context: Context):
    more = less(3, 60) if context.short else [] if context.full else less(6, 150)
    kills = 4 if context.short else KILLS
    command = ["compare", CONFIGS / "dense.toml", CONFIGS / "knn.toml", "--output", "table", "--device", "cpu", *more]

    def work(folder: Path, random) -> Counter:
        whole, killed = folder / "whole", folder / "killed"
        whole.mkdir(), killed.mkdir()
        seconds = run(context, command, whole, LIMIT).check_success().seconds
        say(f"    the quick start takes {seconds:.0f} s without a kill")
        # One moment within each twentieth of its time, the first within its first second.
        moments = [random.uniform(0, 1)] + [seconds / kills * random.uniform(0, 1) for _ in range(kills - 1)]
        counts = Counter()
        for moment in moments:
            process = Process(context, command, killed)
            deadline = time.monotonic() + moment
            # A start takes a while itself: the later moments count from the first sign of training.
            while moment is not moments[0] and "parameters" not in process.text() and process.running():
                time.sleep(0.01)
                deadline = time.monotonic() + moment
            while time.monotonic() < deadline and process.running():
                time.sleep(0.005)
            if not process.running():
                process.wait(1).check_success()
                break
            process.send(signal.SIGKILL)
            process.wait(60)
            counts["kills"] += 1
            counts["resumes"] += 1
        run(context, command, killed, LIMIT).check_success()
        for name in ("dense", "knn"):
            expected, found = (record.read(base / "runs/quickstart" / name) for base in (whole, killed))
            if texts := record.differences(expected, found):
                raise Failure(f"run `{name}` differs:\n  " + "\n  ".join(texts))
        for name in ("table.md", "table.csv", "top1.svg"):
            if (whole / "table" / name).read_bytes() != (killed / "table" / name).read_bytes():
                raise Failure(f"`{name}` differs")
        if left := record.leftovers(killed):
            raise Failure(f"left over: {left}")
        return counts

    return work
