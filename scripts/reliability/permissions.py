"""Folders and files that may not be written or read, tried as another user if this one may do everything."""

import os
from collections import Counter
from pathlib import Path

import kill
import record
from common import NOBODY, Case, Context, Failure, NotRun, run, sets


def give(folder: Path) -> None:
    """Makes a folder and all in it the other user's."""
    if os.geteuid() != 0:
        return
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


class Bed:
    """A configuration, and where asked for a run that was stopped half-way, all of it the other user's."""

    def __init__(self, context: Context, references, folder: Path):
        self.context, self.references, self.folder = context, references, folder
        references.workspace(folder, "ema")
        give(folder)
        probe = self.kvt("config", "check", "config.toml")
        if probe.code != 0:
            raise NotRun(f"the other user cannot run the program: {probe.stderr.strip()}")

    def kvt(self, *arguments):
        return run(self.context, arguments, self.folder, kill.LIMIT, as_nobody=True)

    def half(self) -> None:
        # To the end of an epoch: a stop within one is evaluated, which the undisturbed run does not do there.
        self.kvt("train", "config.toml", *sets(train__max_steps=32)).check_success()

    def finish(self) -> None:
        """Continues, and ends as if nothing had happened."""
        self.kvt("train", "config.toml", "--resume").check_success()
        kill.compare(self.references.get("ema")[0], self.folder)


def resuming(path: str, mode: int, mention: str):
    """A part of a stopped run loses its mode: an error that names it; with the mode back the run continues."""

    def work(bed: Bed) -> None:
        bed.half()
        target = bed.folder / path
        old = target.stat().st_mode
        target.chmod(mode)
        bed.kvt("train", "config.toml", "--resume").check_error(mention)
        target.chmod(old)
        bed.finish()

    return work


def harmless(path: str, mode: int):
    """A part of a stopped run that is not needed: the run continues, or says what is wrong."""

    def work(bed: Bed) -> None:
        bed.half()
        target = bed.folder / path
        old = target.stat().st_mode
        target.chmod(mode)
        ended = bed.kvt("train", "config.toml", "--resume")
        target.chmod(old)
        if ended.code != 0:
            ended.check_error(Path(path).name)
        bed.finish()

    return work


def starting(path: str, mode: int, mention: str, *overrides: str):
    """A folder that a start needs: an error that names it, and no run that would be in the way."""

    def work(bed: Bed) -> None:
        target = bed.folder / path
        target.mkdir(parents=True, exist_ok=True)
        give(bed.folder)
        target.chmod(mode)
        bed.kvt("train", "config.toml", *overrides).check_error(mention)
        target.chmod(0o755)
        bed.kvt("train", "config.toml", *overrides).check_success()

    return work


def read_only_reading(bed: Bed) -> None:
    """Reading needs no right to write."""
    bed.half()
    for path in [bed.folder / "run", *(bed.folder / "run").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    image = next(bed.references.data().glob("val/*/*.png"))
    bed.kvt("eval", "--run", "run").check_success()
    bed.kvt("predict", "--run", "run", image).check_success()
    bed.kvt("compare", "run", "--output", "table").check_success()
    bed.kvt("train", "config.toml", "--resume").check_error("run")


def unreadable_data(bed: Bed) -> None:
    """An image, a class and a split that may not be read."""
    (bed.folder / "data/shapes").unlink()
    run(bed.context, ["data", "generate", "data/shapes", "--image-size=16", "--classes=3", "--train-per-class=8",
                      "--val-per-class=4"], bed.folder).check_success()
    (bed.folder / "data/shapes").rename(bed.folder / "photos")
    give(bed.folder)
    image = next((bed.folder / "photos/train").glob("*/*.png"))
    for path in (image, image.parent, bed.folder / "photos/train"):
        old = path.stat().st_mode
        path.chmod(0)
        bed.kvt("train", "config.toml", *sets(data__kind="folder", data__path="photos")).check_error(path.name)
        ended = bed.kvt("data", "check", "photos")
        ended.check_sane()
        if ended.code == 0 or path.name not in ended.stdout + ended.stderr:
            raise Failure(f"`data check` passes over `{path.name}`: {ended.describe()}")
        path.chmod(old)


def outputs(bed: Bed) -> None:
    """Everything else that writes a file."""
    bed.half()
    closed = bed.folder / "closed"
    closed.mkdir(mode=0o555)
    weights = record.pointer(bed.folder / "run", "last") / "model.safetensors"
    bed.kvt("weights", "convert", weights, "closed/w.safetensors", "--config", "config.toml").check_error("closed/")
    bed.kvt("compare", "run", "--output", "closed/table").check_error("closed/")
    bed.kvt("data", "generate", "closed/shapes").check_error("closed/")
    ended = bed.kvt("bench", "attention", "--device=cpu", "--shape=1,1,8,4", "--runs=1", "--json", "closed/bench.json")
    ended.check_error("closed/")
    if "GFLOP/s" in ended.stdout:
        raise Failure(f"fails after the measurement: {ended.describe()}")


CASES = {
    "new run, folder above": starting("above", 0o555, "above/run", *sets(run__dir="above/run")),
    "new run, its folder": starting("run", 0o555, "run"),
    "shapes, folder above": starting("sets", 0o555, "sets", *sets(data__path="sets/shapes")),
    "resume, run": resuming("run", 0o555, "run"),
    "resume, run unreadable": resuming("run", 0o000, "run"),
    "resume, checkpoints": resuming("run/checkpoints", 0o555, "checkpoints"),
    "resume, checkpoints unreadable": resuming("run/checkpoints", 0o000, "checkpoints"),
    "resume, log": resuming("run/log.jsonl", 0o444, "log.jsonl"),
    "resume, log unreadable": resuming("run/log.jsonl", 0o000, "log.jsonl"),
    "resume, board": resuming("run/tensorboard", 0o555, "tensorboard"),
    "resume, configuration": resuming("run/config.toml", 0o000, "config.toml"),
    "resume, lock": harmless("run/run.lock", 0o444),
    "resume, environment": harmless("run/environment.json", 0o000),
    "resume, table": harmless("run/epochs.csv", 0o000),
    "resume, classes": harmless("run/classes.txt", 0o000),
    "resume, pointer": harmless("run/checkpoints/last", 0o000),
    "reading": read_only_reading,
    "data": unreadable_data,
    "outputs": outputs,
}
SHORT = ["new run, its folder", "resume, checkpoints", "resume, log", "reading"]


def cases(context: Context, references):
    for name, check in CASES.items():
        if context.short and name not in SHORT:
            continue

        def work(folder: Path, random, check=check) -> Counter:
            check(Bed(context, references, folder))
            return Counter()

        yield Case(f"permissions/{name}", work)
