"""Random kills: whatever the moment, the same command continues, and the run ends as if nothing had happened."""

import os
import shutil
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import configs
import record
from common import Case, Context, Ended, Failure, Process, run

# Asked to stop, a run saves and ends with one of these; see docs/guide/resume.md.
DOCUMENTED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGUSR1: 138}
LIMIT = 120.0
POLL = 0.0005


class References:
    """Each configuration, run once without a disturbance."""

    def __init__(self, context: Context):
        self.context = context
        self.lock = threading.Lock()
        self.locks: dict[str, threading.Lock] = {}
        self.known: dict[str, tuple | Failure] = {}

    def data(self) -> Path:
        """The generated images that the cases share."""
        return self.once("data", self._generate)[0]

    def _generate(self):
        folder = self.context.work / "shapes"
        run(self.context, ["data", "generate", folder, "--image-size=16", "--classes=3", "--train-per-class=32",
                           "--val-per-class=8"], self.context.work).check_success()
        return (folder,)

    def workspace(self, folder: Path, name: str, more: str = "", own_data: bool = False) -> Path:
        """A folder in which configuration `name` can be trained."""
        configs.write(folder, name, more)
        if not own_data:
            (folder / "data").mkdir()
            (folder / "data/shapes").symlink_to(self.data())
        return folder

    def get(self, name: str) -> tuple[record.Record, float]:
        """The finished run of a configuration, and how long it takes."""
        return self.once(name, lambda: self._train(name))

    def _train(self, name: str):
        folder = self.context.work / f"reference-{name}"
        folder.mkdir()
        self.workspace(folder, name)
        ended = run(self.context, ["train", "config.toml"], folder, LIMIT).check_success()
        return record.read(folder / "run"), ended.seconds

    def once(self, key: str, make):
        with self.lock:
            lock = self.locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self.known:
                try:
                    self.known[key] = make()
                except Failure as failure:
                    # Every case that needs it fails with this, and does not try again.
                    self.known[key] = failure
            if isinstance(known := self.known[key], Failure):
                raise Failure(f"what it starts from, {key}: {known}")
            return known


class Moment:
    """When to strike, drawn once: at a time, after a number of lines of the log, or while a checkpoint is written."""

    def __init__(self, random, seconds: float, lines: int, first: bool):
        kinds = ["time"] * 5 + ["start"] * 2 + ["line"] * 5 + ["saving"] * 7 + (["first save"] * 4 if first else [])
        self.kind = random.choice(kinds)
        self.delay = {
            "time": random.uniform(0, seconds),
            "start": random.uniform(0, 0.3 * seconds),
            "line": random.uniform(0, 0.03),
            "saving": random.uniform(0, 0.03),
            "first save": random.uniform(0, 0.03),
        }[self.kind]
        self.count = {"line": random.randint(1, max(1, lines)), "saving": random.randint(1, 6)}.get(self.kind, 1)

    def wait(self, process: Process, run: Path) -> bool:
        """Returns at the moment; false if the process ended before it."""
        deadline = time.monotonic() + LIMIT
        seen: set[str] = set()
        lines = lines_of(run)
        while not self._come(run, seen, lines):
            if not process.running() or time.monotonic() > deadline:
                return False
            # A resumed run cuts its log first.
            lines = min(lines, lines_of(run))
            time.sleep(POLL)
        end = time.monotonic() + self.delay
        while time.monotonic() < end:
            if not process.running():
                return False
            time.sleep(POLL)
        return process.running()

    def _come(self, run: Path, seen: set[str], before: int) -> bool:
        match self.kind:
            case "time" | "start":
                return True
            case "line":
                return lines_of(run) - before >= self.count
            case _:
                try:
                    seen.update(name for name in os.listdir(run / "checkpoints") if name.startswith(".step-"))
                except FileNotFoundError:
                    pass
                return len(seen) >= self.count


def lines_of(run: Path) -> int:
    try:
        return (run / "log.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def strike(process: Process, random, moment: Moment, run: Path, counts: Counter) -> Ended | None:
    """Kills or stops the process at the moment. `None` if that happened, else how it ended by itself."""
    number = random.choice([signal.SIGKILL] * 12 + list(DOCUMENTED))
    if not moment.wait(process, run):
        return process.wait(LIMIT)
    # What it prints once it listens.
    began = "keys per query" in process.text()
    process.send(number)
    ended = process.wait(LIMIT)
    if ended.code == 0 or (ended.code == 1 and "holds no run" in ended.stderr):
        return ended
    counts["kills"] += 1
    counts[f"by {signal.Signals(number).name}"] += 1
    counts[f"moment: {moment.kind}"] += 1
    if number == signal.SIGKILL:
        if ended.code != -signal.SIGKILL:
            raise Failure(f"ended by itself: {ended.describe()}")
        return None
    # Before it trains there is nothing to save, and the system may end it.
    if ended.code == -number and not began:
        return None
    if ended.code != DOCUMENTED[number]:
        raise Failure(f"{signal.Signals(number).name} should give exit code {DOCUMENTED[number]}: {ended.describe()}")
    ended.check_sane()
    counts["stops"] += 1
    if (run / "log.jsonl").exists():
        saved, logged = record.step_of(record.pointer(run, "last")), record.logged_steps(run)
        if logged and (saved is None or saved < logged[-1]):
            raise Failure(f"stopped after step {logged[-1]}, but step {saved} is saved: {ended.describe()}")
    return None


def train_case(context: Context, references: References, name: str, own_data: bool):
    def work(folder: Path, random) -> Counter:
        expected, seconds = references.get(name)
        references.workspace(folder, name, own_data=own_data)
        counts = Counter()
        finish(context, folder, random, counts, seconds, len(expected.steps))
        compare(expected, folder)
        if random.random() < 0.1:
            # A finished run has nothing left to do.
            run(context, ["train", "config.toml", "--resume"], folder, LIMIT).check_success()
            compare(expected, folder)
        return counts

    return work


def finish(context: Context, folder: Path, random, counts: Counter, seconds: float, lines: int) -> None:
    """Trains `config.toml` to its end, through some kills."""
    target = folder / "run"
    kills = random.choice([1, 1, 2, 2, 3, 4, 6])
    resume = False
    for attempt in range(kills + 1):
        moment = None if attempt == kills else Moment(random, 1.05 * seconds, lines, attempt == 0)
        saved = record.step_of(record.pointer(target, "last"))
        logged = len(record.logged_steps(target))
        while True:
            command = ["train", "config.toml", *(["--resume"] if resume else [])]
            process = Process(context, command, folder)
            ended = process.wait(LIMIT) if moment is None else strike(process, random, moment, target, counts)
            if resume and ended and ended.code == 1 and "holds no run" in ended.stderr:
                # Killed before there was a run: the plain command starts it.
                if saved is not None:
                    raise Failure(f"a run with a checkpoint is none: {ended.describe()}")
                resume = False
                continue
            break
        if resume:
            counts["resumes"] += 1
            check_went_on(process.text(), saved)
            counts["steps done again"] += max(0, logged - (saved or 0))
        resume = True
        if ended is not None:
            ended.check_success()
            return
    raise Failure("never finished")


def check_went_on(said: str, saved: int | None) -> None:
    """The run continues from its last checkpoint, not from an older one or from the beginning."""
    if saved is None:
        return
    for line in said.splitlines():
        if "no checkpoint yet" in line:
            raise Failure(f"step {saved} was saved, but the run starts from the beginning: {said}")
        if "resumed in epoch" in line and (after := int(line.rsplit("after step ", 1)[1].split()[0].strip(",;."))) < saved:
            raise Failure(f"step {saved} was saved, but the run continues after step {after}: {said}")


def compare(expected: record.Record, folder: Path) -> None:
    found = record.read(folder / "run")
    texts = record.differences(expected, found)
    left = record.leftovers(folder)
    if left:
        texts.append(f"left over: {left}")
    if texts:
        raise Failure("differs from the run that nothing disturbed:\n  " + "\n  ".join(texts))


def compare_case(context: Context, references: References):
    """`kvt compare`, which the same command continues."""

    def work(folder: Path, random) -> Counter:
        names = ["plain", "intervals"]
        references.workspace(folder, names[0])
        (folder / "config.toml").unlink()
        for name in names:
            path = configs.write(folder, name, f'[run]\ndir = "runs/{name}"\n')
            path.rename(folder / f"{name}.toml")
        wanted = [references.get(name) for name in names]
        seconds = sum(time for _, time in wanted)
        command = ["compare", "plain.toml", "intervals.toml", "--output", "table"]
        counts = Counter()
        for attempt in range(random.choice([1, 2, 3]) + 1):
            process = Process(context, command, folder)
            started = folder / "runs/intervals" if (folder / "runs/intervals").exists() else folder / "runs/plain"
            moment = Moment(random, seconds, 60, False)
            ended = strike(process, random, moment, started, counts)
            counts["resumes"] += attempt > 0
            if ended is not None:
                break
        if ended is None:
            counts["resumes"] += 1
            ended = run(context, command, folder, LIMIT)
        ended.check_success()
        for name, (expected, _) in zip(names, wanted):
            texts = record.differences(expected, record.read(folder / "runs" / name))
            if texts:
                raise Failure(f"run `{name}` differs:\n  " + "\n  ".join(texts))
        for name in ("table.md", "table.csv", "table.json", "top1.png", "loss.svg"):
            if not (folder / "table" / name).is_file():
                raise Failure(f"no `{name}`: {ended.describe()}")
        if left := record.leftovers(folder):
            raise Failure(f"left over: {left}")
        return counts

    return work


def read_case(context: Context, references: References):
    """Killed while it reads, `kvt` has changed nothing."""

    def work(folder: Path, random) -> Counter:
        references.get("ema")
        finished = context.work / "reference-ema"
        shutil.copytree(finished / "run", folder / "run")
        (folder / "data").mkdir()
        (folder / "data/shapes").symlink_to(references.data())
        image = next(references.data().glob("val/*/*.png"))
        before = record.tree(folder / "run")
        command = random.choice([
            ["eval", "--run", "run", "--json"],
            ["eval", "--run", "run", "--ema", "--split", "train", "--json"],
            ["predict", "--run", "run", image, "--json"],
            ["compare", "run", "--output", "table"],
            ["data", "check", "data/shapes"],
        ])
        expected = run(context, command, folder, LIMIT).check_success()
        process = Process(context, command, folder)
        time.sleep(random.uniform(0, expected.seconds))
        counts = Counter(kills=int(process.running()))
        process.send(signal.SIGKILL)
        process.wait(LIMIT)
        if record.tree(folder / "run") != before:
            raise Failure(f"`{expected.command}` changed the run")
        again = run(context, command, folder, LIMIT).check_success()
        if again.stdout != expected.stdout:
            raise Failure(f"another result after a kill: {again.stdout} instead of {expected.stdout}")
        if left := record.leftovers(folder):
            raise Failure(f"left over: {left}")
        return counts

    return work


def generate_case(context: Context):
    """The generated data set is there whole or not at all, and a later start cleans up."""

    def work(folder: Path, random) -> Counter:
        command = ["data", "generate", "sets/shapes", "--image-size=24", "--train-per-class=300", "--val-per-class=30"]
        run(context, [*command[:2], "whole", *command[3:]], folder, LIMIT).check_success()
        counts = Counter()
        for _ in range(random.choice([1, 2, 3])):
            process = Process(context, command, folder)
            # From the first file on; the last moments are the renames.
            time.sleep(random.uniform(0, 0.5))
            counts["kills"] += int(process.running())
            process.send(signal.SIGKILL)
            process.wait(LIMIT)
        run(context, command, folder, LIMIT).check_success()
        counts["resumes"] += 1
        if record.tree(folder / "sets/shapes") != record.tree(folder / "whole"):
            raise Failure("the data set differs after a kill")
        if left := record.leftovers(folder):
            raise Failure(f"left over: {left[:3]}")
        return counts

    return work


def cases(context: Context, references: References):
    """Without an end: the caller counts the kills."""
    names = list(configs.CONFIGS)
    number = 0
    while True:
        for name in names:
            own_data = number % 4 == 3
            yield Case(f"kill/{name}/{number}", train_case(context, references, name, own_data))
        yield Case(f"kill/compare/{number}", compare_case(context, references))
        yield Case(f"kill/read/{number}", read_case(context, references))
        if number % 3 == 0:
            yield Case(f"kill/generate/{number}", generate_case(context))
        number += 1
