"""The results of a run, and whether two runs have the same."""

import csv
import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import tensorboard
from common import Failure

# What depends on the clock.
TIMES = {"seconds", "images_per_second", "data_wait", "data_wait_share"}
TEMPORARY = (".kvt-tmp-", ".step-")
WEIGHTS = ("model.safetensors", "optimizer.safetensors", "ema.safetensors")


@dataclass
class Record:
    """A finished run, without its times."""

    steps: list[dict]
    evals: list[dict]
    epochs: list[dict]
    table: list[dict]
    board: dict[tuple[str, int], float]
    files: dict[str, str]
    progress: dict


def read(run: Path) -> Record:
    """Reads a finished run; something that is there twice, torn or left over is a failure."""
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    kinds = {kind: [timeless(event) for event in events if event["kind"] == kind]
             for kind in ("step", "eval", "epoch")}
    with open(run / "epochs.csv", newline="") as file:
        table = [timeless(row) for row in csv.DictReader(file)]
    last = pointer(run, "last")
    if last is None:
        raise Failure("no `last` checkpoint")
    files = {f"last/{name}": digest(last / name) for name in WEIGHTS if (last / name).exists()}
    best = pointer(run, "best")
    if best is not None:
        files |= {f"best/{name}": digest(best / name) for name in WEIGHTS if (best / name).exists()}
    files["classes.txt"] = digest(run / "classes.txt")
    return Record(kinds["step"], kinds["eval"], kinds["epoch"], table, board(run), files,
                  timeless(json.loads((last / "state.json").read_text())))


def timeless(record):
    """A record without what depends on the clock, at any depth, and without the length of the log, which has times."""
    if isinstance(record, dict):
        return {key: timeless(value) for key, value in record.items() if key not in TIMES | {"log_offset"}}
    if isinstance(record, list):
        return [timeless(value) for value in record]
    return record


def board(run: Path) -> dict[tuple[str, int], float]:
    folder = run / "tensorboard"
    if not folder.is_dir():
        return {}
    try:
        points = tensorboard.scalars(folder)
    except tensorboard.Broken as error:
        raise Failure(f"TensorBoard: {error}") from None
    doubled = [point for point, count in Counter((tag, step) for tag, step, _ in points).items() if count > 1]
    if doubled:
        raise Failure(f"TensorBoard shows {len(doubled)} points more than once, such as {doubled[0]}")
    return {(tag, step): value for tag, step, value in points if tag != "train/images_per_second"}


def differences(expected: Record, found: Record) -> list[str]:
    """The differences between a run and the undisturbed one."""
    texts = []
    steps = [step["step"] for step in found.steps]
    wanted = [step["step"] for step in expected.steps]
    if steps != wanted:
        lost, doubled = set(wanted) - set(steps), [step for step, count in Counter(steps).items() if count > 1]
        texts.append(f"log.jsonl: steps {sorted(lost)} lost, {doubled} doubled, or out of order")
    elif found.steps != expected.steps:
        at = next(index for index, pair in enumerate(zip(expected.steps, found.steps)) if pair[0] != pair[1])
        texts.append(f"log.jsonl: {found.steps[at]} instead of {expected.steps[at]}")
    for name in ("evals", "epochs", "table", "board", "progress"):
        if getattr(found, name) != getattr(expected, name):
            texts.append(f"{name} differ: {shorten(getattr(expected, name), getattr(found, name))}")
    for name in sorted(expected.files.keys() | found.files.keys()):
        if expected.files.get(name) != found.files.get(name):
            texts.append(f"{name} differs")
    return texts


def shorten(expected, found) -> str:
    if isinstance(expected, list):
        if len(expected) != len(found):
            return f"{len(found)} instead of {len(expected)} entries"
        return next(f"{f} instead of {e}" for e, f in zip(expected, found) if e != f)
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    return f"{len(keys)} values, such as {keys[0]}: {found.get(keys[0])} instead of {expected.get(keys[0])}"


def leftovers(folder: Path) -> list[str]:
    """Temporary files and folders that were not cleaned up."""
    return [os.path.join(path, name) for path, folders, files in os.walk(folder)
            for name in folders + files if name.startswith(TEMPORARY)]


def pointer(run: Path, name: str) -> Path | None:
    """The checkpoint that a pointer file names."""
    try:
        return run / "checkpoints" / (run / "checkpoints" / name).read_text().strip()
    except FileNotFoundError:
        return None


def step_of(checkpoint: Path | None) -> int | None:
    """The step in a checkpoint's name."""
    return None if checkpoint is None else int(checkpoint.name.split("-")[1])


def logged_steps(run: Path) -> list[int]:
    """The steps in the log, also while it is being written."""
    try:
        lines = (run / "log.jsonl").read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line)["step"] for line in lines if line.startswith(b'{"kind":"step"')]


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes()).hexdigest()


def tree(folder: Path) -> dict[str, str]:
    """Every file of a folder with its content, for what must not change."""
    return {str(path.relative_to(folder)): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}
