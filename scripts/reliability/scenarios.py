"""Accidents that each need their own steps: signals, two processes, repaired data, moved folders, lost locks."""

import shutil
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import configs
import kill
import record
from common import Case, Context, Ended, Failure, Process, run, sets

LONG = sets(train__epochs=100000)


def wait_for_step(process: Process, run: Path, step: int = 1) -> None:
    deadline = time.monotonic() + 60
    while (record.logged_steps(run) or [0])[-1] < step:
        if not process.running() or time.monotonic() > deadline:
            raise Failure(f"no step {step}: {process.wait(0).describe()}")
        time.sleep(0.005)


class Scenarios:
    def __init__(self, context: Context, references):
        self.context, self.references = context, references

    def kvt(self, folder: Path, *arguments, **options) -> Ended:
        return run(self.context, arguments, folder, kill.LIMIT, **options)

    def start(self, folder: Path, *arguments, **options) -> Process:
        return Process(self.context, ["train", "config.toml", *arguments], folder, **options)

    # Signals.

    def ignored(self, name: str):
        """What was ignored at the start, as by `nohup`, does not stop a run."""
        def work(folder: Path, random) -> None:
            expected, _ = self.references.get("plain")
            self.references.workspace(folder, "plain")
            process = self.start(folder, ignored=[name])
            try:
                wait_for_step(process, folder / "run")
                process.send(getattr(signal, f"SIG{name}"))
            finally:
                ended = process.wait(kill.LIMIT)
            ended.check_success()
            kill.compare(expected, folder)
        return work

    def asked(self, number: int):
        """Asked to stop, a run saves and ends with its documented code."""
        def work(folder: Path, random) -> None:
            expected, _ = self.references.get("plain")
            self.references.workspace(folder, "plain")
            process = self.start(folder)
            try:
                wait_for_step(process, folder / "run", 7)
                process.send(number)
            finally:
                ended = process.wait(kill.LIMIT)
            if ended.code != kill.DOCUMENTED[number]:
                raise Failure(f"exit code {kill.DOCUMENTED[number]} is documented: {ended.describe()}")
            saved = record.step_of(record.pointer(folder / "run", "last"))
            if saved != record.logged_steps(folder / "run")[-1]:
                raise Failure(f"step {saved} is saved: {ended.describe()}")
            self.kvt(folder, "train", "config.toml", "--resume").check_success()
            kill.compare(expected, folder)
        return work

    def during_evaluation(self, folder: Path, random) -> None:
        """An evaluation hears it too."""
        self.references.workspace(folder, "plain", own_data=True)
        # An evaluation of seconds after a training of a moment.
        many = sets(data__shapes__train_per_class=4, data__shapes__val_per_class=4000, train__epochs=1, eval__batch_size=4)
        whole = folder / "whole"
        started = time.monotonic()
        self.kvt(folder, "train", "config.toml", *many, "--run-dir", whole).check_success()
        long = time.monotonic() - started
        started = time.monotonic()
        process = self.start(folder, *many)
        try:
            wait_for_step(process, folder / "run", 2)
            began = time.monotonic()
            process.send(signal.SIGINT)
        finally:
            ended = process.wait(kill.LIMIT)
        if ended.code != 130:
            raise Failure(f"an interrupt during the evaluation is not heard ({time.monotonic() - began:.1f} of {long:.1f} s): "
                          f"{ended.describe()}")
        self.kvt(folder, "train", "config.toml", "--resume", *many).check_success()
        if texts := record.differences(record.read(whole), record.read(folder / "run")):
            raise Failure("\n  ".join(texts))

    # Two processes.

    def same_shapes(self, folder: Path, random) -> None:
        """Two processes that generate one data set both continue."""
        processes = []
        for name in "ab":
            (folder / name).mkdir()
            configs.write(folder / name, "plain", '[data]\npath = "../shapes"\n[data.shapes]\ntrain_per_class = 300\n')
            processes.append(Process(self.context, ["train", "config.toml", "--set", "train.max_steps=2"], folder / name))
        for ended in [process.wait(kill.LIMIT) for process in processes]:
            ended.check_success()
        if left := record.leftovers(folder):
            raise Failure(f"left over: {left}")

    def stale_files(self, folder: Path, random) -> None:
        """The process that continues a killed run removes its temporary files."""
        expected, _ = self.references.get("plain")
        self.references.workspace(folder, "plain")
        self.kvt(folder, "train", "config.toml", *sets(train__max_steps=16)).check_success()
        (folder / "run/.kvt-tmp-abc").write_text("half")
        (folder / "run/checkpoints/.kvt-tmp-abc").write_text("half")
        (folder / "run/checkpoints/.step-00000099.tmp-1").mkdir()
        self.kvt(folder, "train", "config.toml", "--resume").check_success()
        kill.compare(expected, folder)

    def second_writer(self, remove: bool):
        """No second process writes a run that is being written, even if its lock file was removed."""
        def work(folder: Path, random) -> None:
            self.references.workspace(folder, "plain")
            process = self.start(folder, *LONG)
            try:
                wait_for_step(process, folder / "run")
                if remove:
                    (folder / "run/run.lock").unlink()
                for more in ([], ["--resume"]):
                    second = self.kvt(folder, "train", "config.toml", *LONG, *more, *sets(train__max_steps=1))
                    second.check_error("being written")
                if not process.running():
                    raise Failure(f"the first one ended: {process.wait(1).describe()}")
            finally:
                process.send(signal.SIGKILL)
                process.wait(10)
        return work

    def read_while_written(self, folder: Path, random) -> None:
        """Reading is always possible."""
        self.references.workspace(folder, "ema")
        process = self.start(folder, *LONG)
        try:
            wait_for_step(process, folder / "run", 40)
            for _ in range(6):
                self.kvt(folder, "eval", "--run", "run").check_success()
                self.kvt(folder, "compare", "run", "--output", "table").check_success()
            if not process.running():
                raise Failure(f"the first one ended: {process.wait(1).describe()}")
        finally:
            process.send(signal.SIGKILL)
            process.wait(10)

    # Data.

    def repaired(self, split: str):
        """An image that cannot be read stops the run; once it is repaired, the run continues where it was."""
        def work(folder: Path, random) -> None:
            self.references.workspace(folder, "plain", '[data]\nkind = "folder"\npath = "photos"\n')
            shutil.copytree(self.references.data(), folder / "photos")
            (folder / "photos/dataset.toml").unlink()
            self.kvt(folder, "train", "config.toml", "--run-dir", "whole").check_success()
            image = sorted((folder / "photos" / split).glob("*/*.png"))[0]
            content = image.read_bytes()
            self.kvt(folder, "train", "config.toml", *sets(train__max_steps=16)).check_success()
            image.write_bytes(bytes(len(content)))
            self.kvt(folder, "train", "config.toml", "--resume").check_error(image.name)
            saved, logged = record.step_of(record.pointer(folder / "run", "last")), record.logged_steps(folder / "run")[-1]
            if saved < logged:
                raise Failure(f"the error lost the steps after {saved}; {logged} were done")
            image.write_bytes(content)
            self.kvt(folder, "train", "config.toml", "--resume").check_success()
            self.same(folder / "whole", folder / "run")
        return work

    def same(self, whole: Path, found: Path) -> None:
        texts = record.differences(record.read(whole), record.read(found))
        if texts:
            raise Failure("differs from the run that nothing disturbed:\n  " + "\n  ".join(texts))

    def moved(self, folder: Path, random) -> None:
        """A data set may be moved."""
        expected, _ = self.references.get("plain")
        self.references.workspace(folder, "plain")
        self.kvt(folder, "train", "config.toml", *sets(train__max_steps=16)).check_success()
        (folder / "data").rename(folder / "elsewhere")
        self.kvt(folder, "train", "config.toml", "--resume", *sets(data__path="elsewhere/shapes")).check_success()
        self.same(self.context.work / "reference-plain" / "run", folder / "run")

    def exchanged(self, folder: Path, random) -> None:
        """Other images under the same names are noticed."""
        self.references.workspace(folder, "plain", '[data]\nkind = "folder"\npath = "photos"\n')
        shutil.copytree(self.references.data(), folder / "photos")
        (folder / "photos/dataset.toml").unlink()
        self.kvt(folder, "train", "config.toml", *sets(train__max_steps=16)).check_success()
        for image in (folder / "photos/train").glob("*/*.png"):
            image.write_bytes(image.read_bytes() + b"\0" * 7)
        self.kvt(folder, "train", "config.toml", "--resume").check_error("data")

    # The run's folder.

    def flipped(self, folder: Path, random) -> None:
        """A bit of the last checkpoint's weights is flipped, which is also the best one: an older checkpoint takes over."""
        expected, _ = self.references.get("ema")
        self.references.workspace(folder, "ema")
        self.kvt(folder, "train", "config.toml", *sets(train__max_steps=32)).check_success()
        self.kvt(folder, "train", "config.toml", "--resume", *sets(train__max_steps=48)).check_success()
        last = record.pointer(folder / "run", "last")
        (folder / "run/checkpoints/best").write_text(f"{last.name}\n")
        weights = last / "model.safetensors"
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
        ended = self.kvt(folder, "train", "config.toml", "--resume").check_success()
        if "warning" not in ended.stderr:
            raise Failure(f"nothing says that an older checkpoint was taken: {ended.describe()}")
        kill.compare(expected, folder)

    def without_log(self, folder: Path, random) -> None:
        """The run does not depend on its log, and says that it is gone."""
        expected, _ = self.references.get("ema")
        self.references.workspace(folder, "ema")
        self.kvt(folder, "train", "config.toml", *sets(train__max_steps=32)).check_success()
        (folder / "run/log.jsonl").unlink()
        ended = self.kvt(folder, "train", "config.toml", "--resume").check_success()
        found = record.read(folder / "run")
        if "warning" not in ended.stderr or found.files != expected.files or found.steps != expected.steps[32:]:
            raise Failure(f"other weights, other steps, or not a word: {ended.describe()}")

    def without_board(self, folder: Path, random) -> None:
        """TensorBoard's files are deleted: they get the points of the steps that follow."""
        expected, _ = self.references.get("ema")
        self.references.workspace(folder, "ema")
        self.kvt(folder, "train", "config.toml", *sets(train__max_steps=32)).check_success()
        shutil.rmtree(folder / "run/tensorboard")
        self.kvt(folder, "train", "config.toml", "--resume").check_success()
        found = record.read(folder / "run")
        # What the log still has of the last step may be shown again.
        shown = {point: value for point, value in expected.board.items() if point[1] > 32 or point in found.board}
        expected = replace(expected, board=shown)
        if texts := record.differences(expected, found):
            raise Failure("\n  ".join(texts))

    def without(self, *names: str):
        """What a run can do without."""
        def work(folder: Path, random) -> None:
            expected, _ = self.references.get("ema")
            self.references.workspace(folder, "ema")
            self.kvt(folder, "train", "config.toml", *sets(train__max_steps=32)).check_success()
            for name in names:
                (folder / "run" / name).unlink()
            self.kvt(folder, "train", "config.toml", "--resume").check_success()
            self.same(self.context.work / "reference-ema" / "run", folder / "run")
            if record.pointer(folder / "run", "best") is None:
                raise Failure("no `best` checkpoint at the end")
        return work

    def all(self) -> dict:
        return {
            "ignored HUP": self.ignored("HUP"),
            "ignored INT": self.ignored("INT"),
            "asked by INT": self.asked(signal.SIGINT),
            "asked by TERM": self.asked(signal.SIGTERM),
            "asked by HUP": self.asked(signal.SIGHUP),
            "asked by USR1": self.asked(signal.SIGUSR1),
            "asked during an evaluation": self.during_evaluation,
            "two generate the same shapes": self.same_shapes,
            "stale temporary files": self.stale_files,
            "a second writer": self.second_writer(False),
            "a second writer without the lock file": self.second_writer(True),
            "read while written": self.read_while_written,
            "a training image repaired": self.repaired("train"),
            "a validation image repaired": self.repaired("val"),
            "data moved": self.moved,
            "data exchanged": self.exchanged,
            "a flipped bit": self.flipped,
            "without its environment": self.without("environment.json"),
            "without its table": self.without("epochs.csv"),
            "without its board": self.without_board,
            "without its log": self.without_log,
            "without its best pointer": self.without("checkpoints/best"),
            "without its last pointer": self.without("checkpoints/last"),
            "without its lock": self.without("run.lock"),
        }


SHORT = ["ignored HUP", "asked by TERM", "two generate the same shapes", "a second writer without the lock file", "a flipped bit"]


def cases(context: Context, references):
    for name, work in Scenarios(context, references).all().items():
        if not context.short or name in SHORT:
            yield Case(f"scenarios/{name}", work)
