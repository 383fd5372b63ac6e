"""What every section shares: cases and their results, keyed randomness, processes with limits."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

MIB = 1 << 20
GIB = 1 << 30
# Everything here is tiny: a case that needs more is wrong.
MEMORY = 2 * GIB
# Protects the machine; only a runaway process reaches this limit.
ADDRESS_SPACE = 8 * GIB
# What a panic, an abort or a debugging aid leaves on stderr.
PANICS = ("panicked at", "RUST_BACKTRACE", "memory allocation of", "stack overflow", "internal error")
NOBODY = 65534


class Failure(Exception):
    """The program did something that it must not do."""


class NotRun(Exception):
    """The case could not be tried here; the text says why."""


@dataclass
class Context:
    """The settings that all cases share."""

    kvt: Path
    work: Path
    seed: int
    jobs: int
    deadline: float
    short: bool
    full: bool

    def random(self, name: str) -> random.Random:
        """The generator of one case: the same for the same seed and name."""
        return random.Random(f"{self.seed}/{name}")

    def out_of_time(self) -> bool:
        return time.monotonic() > self.deadline


@dataclass
class Case:
    """One thing to try. `work` gets an empty folder and its own generator, and returns counts."""

    name: str
    work: Callable[[Path, random.Random], Counter | None]


@dataclass
class Result:
    name: str
    state: str
    detail: str = ""
    counts: Counter = field(default_factory=Counter)


def carry_out(context: Context, case: Case) -> Result:
    """Runs one case in its own folder, which stays only if the case failed."""
    folder = Path(tempfile.mkdtemp(prefix="case-", dir=context.work))
    folder.chmod(0o755)
    try:
        counts = case.work(folder, context.random(case.name))
    except Failure as failure:
        return Result(case.name, "failed", f"{failure}\n(left in {folder})")
    except NotRun as reason:
        remove(folder)
        return Result(case.name, "not run", str(reason))
    except Exception:  # For example an unreadable file: it fails this case only, as a difference would.
        return Result(case.name, "failed", f"{traceback.format_exc()}\n(left in {folder})")
    remove(folder)
    return Result(case.name, "ok", counts=counts or Counter())


def remove(folder: Path) -> None:
    """Deletes a folder, whatever its modes are."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            child = os.path.join(path, name)
            if not os.path.islink(child):
                os.chmod(child, 0o755)
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Ended:
    """How a process ended; a negative code is the signal that killed it."""

    command: str
    code: int
    timed_out: bool
    seconds: float
    memory: int
    stdout: str
    stderr: str

    def describe(self) -> str:
        end = "still ran" if self.timed_out else f"exit code {self.code}"
        text = self.stderr.strip() or self.stdout.strip()
        if len(text) > 2000:
            text = f"{text[:1000]} [...] {text[-1000:]}"
        return f"`{self.command}`: {end} after {self.seconds:.1f} s, {self.memory / MIB:.0f} MiB\n{text}"

    def check_sane(self, memory: int = MEMORY) -> None:
        """Whatever the input: no panic, no abort, no hang, and no excessive memory."""
        if self.timed_out:
            raise Failure(f"does not end: {self.describe()}")
        if self.code < 0:
            raise Failure(f"killed by {signal.Signals(-self.code).name}: {self.describe()}")
        for mark in PANICS:
            if mark in self.stderr:
                raise Failure(f"`{mark}` in its output: {self.describe()}")
        if self.memory > memory:
            raise Failure(f"more than {memory / MIB:.0f} MiB of memory: {self.describe()}")

    def check_success(self) -> "Ended":
        self.check_sane()
        if self.code != 0:
            raise Failure(f"should succeed: {self.describe()}")
        return self

    def check_error(self, *mentions: str, codes: tuple[int, ...] = (1, 2)) -> "Ended":
        """A clear error: a line that begins with `error:`, and one of `mentions` in the text."""
        self.check_sane()
        if self.code not in codes:
            raise Failure(f"should be an error: {self.describe()}")
        if self.code == 2 and "Usage: " in self.stderr and not mentions:
            # A command without its sub-command shows them.
            return self
        at = self.stderr.find("error:")
        if at < 0:
            raise Failure(f"no `error:` line: {self.describe()}")
        if mentions and not any(word in self.stderr[at:] for word in mentions):
            raise Failure(f"none of {list(mentions)} in the error: {self.describe()}")
        return self


class Process:
    """A running `kvt`, in its own process group, with its output in files beside the case."""

    def __init__(self, context: Context, arguments, folder: Path, *, as_nobody=False, file_limit=None,
                 ignored=(), environment=None, stdout=None):
        """`file_limit` is the largest file it may write in bytes; `ignored` are signals that it inherits as ignored."""
        self.command = " ".join(["kvt", *(os.fsdecode(a) if isinstance(a, bytes) else str(a) for a in arguments)])
        self.command = self.command.encode(errors="replace").decode()
        # Under a limit on files its output must not be one: what fits a pipe's buffer is enough there.
        self.piped = file_limit is not None
        self.output = None if self.piped or stdout is not None else tempfile.TemporaryFile(dir=context.work)
        self.errors = None if self.piped else tempfile.TemporaryFile(dir=context.work)
        shell = [f"ulimit -v {ADDRESS_SPACE // 1024}"]
        if file_limit is not None:
            # The signal would end the process before it can say anything; ignored, the write fails.
            shell += ["trap '' XFSZ", f"ulimit -f {file_limit // 512}"]
        shell += [f"trap '' {name}" for name in ignored]
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if as_nobody and os.geteuid() == 0 else {}
        self.start = time.monotonic()
        self.popen = subprocess.Popen(
            ["/bin/sh", "-c", "; ".join(shell) + '; exec "$@"', "sh", context.kvt, *arguments],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout or self.output or subprocess.PIPE,
            stderr=self.errors or subprocess.PIPE,
            start_new_session=True, env={**os.environ, "RUST_BACKTRACE": "0", **(environment or {})}, **user)
        self.status = None
        self.memory = 0
        self.timed_out = False
        self.seconds = 0.0

    def running(self) -> bool:
        if self.status is not None:
            return False
        pid, status, usage = os.wait4(self.popen.pid, os.WNOHANG)
        if pid == 0:
            return True
        self.status = self.popen.returncode = os.waitstatus_to_exitcode(status)
        self.memory = usage.ru_maxrss * 1024
        self.seconds = time.monotonic() - self.start
        return False

    def send(self, number: int) -> None:
        if self.running():
            os.kill(self.popen.pid, number)

    def wait(self, limit: float) -> Ended:
        """Waits for its end, and makes one after `limit` seconds."""
        deadline = time.monotonic() + limit
        pause = 0.001
        while self.running():
            if time.monotonic() > deadline:
                self.timed_out = True
                os.killpg(self.popen.pid, signal.SIGKILL)
                deadline += 3600
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        if self.piped:
            output, errors = (pipe.read().decode(errors="replace") for pipe in (self.popen.stdout, self.popen.stderr))
        else:
            output, errors = self._text(self.output), self._text(self.errors)
        return Ended(self.command, self.status, self.timed_out, self.seconds, self.memory, output, errors)

    def text(self) -> str:
        """What it has said on stderr so far."""
        return self._text(self.errors)

    @staticmethod
    def _text(file) -> str:
        if file is None:
            return ""
        # Not `seek` and `read`: the process writes through the same open file.
        return os.pread(file.fileno(), 4 * MIB, 0).decode(errors="replace")


def run(context: Context, arguments, folder: Path, limit: float = 60.0, **options) -> Ended:
    return Process(context, arguments, folder, **options).wait(limit)


def sets(**values) -> list[str]:
    """`--set` arguments; two underscores mean the dot of a key."""
    return [word for key, value in values.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
