"""Files of the user: runs that are moved while they are trained, devices, pipes and links as outputs, signals in what writes."""

import os
import shutil
import signal
import stat
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import broken
import kill
import record
from common import MIB, Case, Context, Failure, NotRun, Process, run, sets
from scenarios import LONG, wait_for_step

# A system whose files cannot be locked, as on some network file systems.
WITHOUT_LOCKS = "#include <errno.h>\nint flock(int fd, int operation) { errno = ENOSYS; return -1; }\n"


class Files:
    def __init__(self, context: Context, references):
        self.context, self.references = context, references

    def kvt(self, folder: Path, *arguments, **options):
        return run(self.context, arguments, folder, kill.LIMIT, **options)

    # Runs that are moved.

    def moved(self, instead: str):
        """The process of a run that was moved ends and writes nothing to the old place; the moved run can be resumed."""
        def work(folder: Path, random) -> Counter:
            expected, _ = self.references.get("plain")
            self.references.workspace(folder, "plain")
            process = Process(self.context, ["train", "config.toml"], folder)
            try:
                wait_for_step(process, folder / "run", random.randrange(1, 30))
                process.send(signal.SIGSTOP)
                (folder / "run").rename(folder / "moved")
                if instead == "run":
                    self.kvt(folder, "train", "config.toml", *sets(seed=4, train__epochs=1)).check_success()
                elif instead == "folder":
                    (folder / "run/checkpoints").mkdir(parents=True)
                before = record.tree(folder / "run")
                process.send(signal.SIGCONT)
            finally:
                process.send(signal.SIGCONT)
                ended = process.wait(kill.LIMIT)
            ended.check_error("was moved or deleted")
            if record.tree(folder / "run") != before or (instead == "nothing") == (folder / "run").exists():
                raise Failure(f"something was written where the run was: {ended.describe()}")
            self.kvt(folder, "train", "config.toml", "--resume", "--run-dir", "moved").check_success()
            if texts := record.differences(expected, record.read(folder / "moved")):
                raise Failure("differs from the run that nothing disturbed:\n  " + "\n  ".join(texts))
            return Counter({"moved runs": 1})
        return work

    def deleted(self, folder: Path, random) -> Counter:
        """A run whose folder is deleted ends."""
        self.references.workspace(folder, "plain")
        process = Process(self.context, ["train", "config.toml", *LONG], folder)
        try:
            wait_for_step(process, folder / "run", 5)
            (folder / "run").rename(folder / "gone")
            shutil.rmtree(folder / "gone")
        finally:
            ended = process.wait(kill.LIMIT)
        ended.check_error("was moved or deleted")
        if (folder / "run").exists():
            raise Failure(f"the folder is back: {ended.describe()}")
        return Counter({"moved runs": 1})

    def without_locks(self, folder: Path, random) -> Counter:
        """Where nothing can be locked, a run is trained and says so, and a second writer is still refused."""
        expected, _ = self.references.get("plain")
        self.references.workspace(folder, "plain")
        (folder / "lock.c").write_text(WITHOUT_LOCKS)
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-o", "lock.so", "lock.c"], cwd=folder, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotRun(f"no C compiler: {error}") from None
        options = {"environment": {"LD_PRELOAD": str(folder / "lock.so")}}
        process = Process(self.context, ["train", "config.toml"], folder, **options)
        try:
            wait_for_step(process, folder / "run", 20)
            process.send(signal.SIGSTOP)
            second = self.kvt(folder, "train", "config.toml", "--resume", **options)
            second.check_error("being written")
        finally:
            process.send(signal.SIGKILL)
            ended = process.wait(kill.LIMIT)
        if "without locks" not in ended.stderr:
            raise Failure(f"not a word of it: {ended.describe()}")
        # The killed one is known to be gone.
        self.kvt(folder, "train", "config.toml", "--resume", **options).check_success()
        kill.compare(expected, folder)
        if (folder / "run/run.lock").read_text():
            raise Failure("the lock file still names a process")
        return Counter()

    # Outputs.

    def verbs(self, folder: Path) -> dict:
        """What writes a file: the name of the file, and the command."""
        self.references.get("ema")
        reference = self.context.work / "reference-ema" / "run"
        weights = record.pointer(reference, "last") / "model.safetensors"
        image = next(self.references.data().glob("val/*/*.png"))
        broken.safetensors(folder / "in.safetensors", {"images": ("F32", [2, 3, 16, 16], bytes(4 * 2 * 3 * 256))})
        return {
            "report": ("page.html", ["report", reference, "--out", "page.html"]),
            "average": ("w.safetensors", ["weights", "average", weights, weights, "--output", "w.safetensors", "--force"]),
            "convert": ("w.safetensors", ["weights", "convert", weights, "w.safetensors", "--config", reference / "config.toml",
                                          "--force"]),
            "predict": ("p.csv", ["predict", "--run", reference, image, "--output", "p.csv", "--force"]),
            "logits": ("l.safetensors", ["logits", "--config", reference / "config.toml", "--weights", weights, "--input",
                                         "in.safetensors", "--output", "l.safetensors"]),
            "bench": ("b.json", ["bench", "attention", "--device=cpu", "--shape=1,1,8,4", "--runs=1", "--json", "b.json"]),
            "eval": ("out/classes.csv", ["eval", "--run", reference, "--out", "out"]),
            "compare": ("out/table.csv", ["compare", reference, "--output", "out"]),
            "manual": ("out/kvt.1", ["man", "out"]),
        }

    def output(self, verb: str, kind: str):
        """What is there already stays what it is: a link, a device, a pipe, a file that is read-only."""
        def work(folder: Path, random) -> Counter:
            name, command = self.verbs(folder)[verb]
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            getattr(self, kind)(folder, path, command)
            if left := record.leftovers(folder):
                raise Failure(f"left over: {left}")
            return Counter({"outputs": 1})
        return work

    def link(self, folder: Path, path: Path, command: list) -> None:
        target, copy = folder / "elsewhere" / path.name, folder / "copy"
        target.parent.mkdir()
        target.write_text("old")
        os.link(target, copy)
        path.symlink_to(os.path.relpath(target, path.parent))
        ended = self.kvt(folder, *command).check_success()
        if not path.is_symlink() or target.read_bytes() == b"old" or copy.read_text() != "old":
            raise Failure(f"the link is gone, or its file is old, or overwritten instead of replaced: {ended.describe()}")

    def dangling(self, folder: Path, path: Path, command: list) -> None:
        target = folder / "elsewhere" / path.name
        target.parent.mkdir()
        path.symlink_to(target)
        ended = self.kvt(folder, *command).check_success()
        if not path.is_symlink() or not target.is_file():
            raise Failure(f"not written through the link: {ended.describe()}")

    def device(self, folder: Path, path: Path, command: list) -> None:
        """A device like `/dev/null`, made here, so that a mistake does not replace the machine's."""
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except OSError as error:
            raise NotRun(f"no device can be made: {error}") from None
        try:
            path.open("wb").close()
        except OSError as error:
            raise NotRun(f"no device can be opened: {error}") from None
        ended = self.kvt(folder, *command).check_success()
        if not stat.S_ISCHR(path.stat().st_mode):
            raise Failure(f"a file is in place of the device: {ended.describe()}")

    def pipe(self, folder: Path, path: Path, command: list) -> None:
        os.mkfifo(path)
        read = []
        reader = threading.Thread(target=lambda: read.append(path.read_bytes()), daemon=True)
        reader.start()
        ended = self.kvt(folder, *command).check_success()
        reader.join(10)
        if not stat.S_ISFIFO(path.stat().st_mode) or not read or not read[0]:
            raise Failure(f"the pipe is gone, or nothing came through it: {ended.describe()}")

    def read_only(self, folder: Path, path: Path, command: list) -> None:
        path.write_text("old")
        path.chmod(0o444)
        ended = self.kvt(folder, *command).check_error("is read-only")
        if path.read_text() != "old":
            raise Failure(f"replaced: {ended.describe()}")

    def standard_output(self, folder: Path, path: Path, command: list) -> None:
        """`/dev/stdout` as a file and as a pipe; as root a mistake would replace the machine's, so the case uses a link to it."""
        path.symlink_to("/proc/self/fd/1")
        with open(folder / "all.txt", "wb") as file:
            file.write(b"before\n")
            file.flush()
            process = Process(self.context, command, folder, stdout=file)
            ended = process.wait(kill.LIMIT).check_success()
        content = (folder / "all.txt").read_bytes()
        if not path.is_symlink() or not content.startswith(b"before\n") or len(content) < 20:
            raise Failure(f"the link is gone, or the output: {ended.describe()}")

    # Signals.

    def writers(self) -> dict:
        """What takes a while to write: the output, and the command."""
        self.references.get("ema")
        reference = self.context.work / "reference-ema" / "run"
        return {
            "data pack": ("shards", ["data", "pack", self.many(), "shards", "--shard-size=1"]),
            "weights average": ("w.safetensors", ["weights", "average", self.large(), self.large(), "--output",
                                                    "w.safetensors", "--force"]),
            "report": ("page.html", ["report", reference, "--out", "page.html"]),
            "reproduce": ("out", ["reproduce", "scram-fig3", "--out", "out"]),
        }

    def many(self) -> Path:
        return self.references.once("many", self._many)[0]

    def _many(self):
        folder = self.context.work / "many"
        self.kvt(self.context.work, "data", "generate", folder, "--image-size=16", "--classes=3", "--train-per-class=600",
                 "--val-per-class=30").check_success()
        return (folder,)

    def large(self) -> Path:
        return self.references.once("large", self._large)[0]

    def _large(self):
        numbers = 8 * MIB
        path = self.context.work / "large.safetensors"
        return (broken.safetensors(path, {"a": ("F32", [numbers], bytes(4 * numbers))}),)

    def signals(self, verb: str, number: int, strikes: int):
        """Ended at any moment, a verb leaves its old output or its new one, whole, and no temporary file: at once after a signal
        that can be heard, and once it has run again after one that cannot."""
        def work(folder: Path, random) -> Counter:
            output, command = self.writers()[verb]
            whole = self.kvt(folder, *command).check_success()
            expected = content(folder / output)
            counts = Counter()
            for _ in range(strikes):
                clear(folder / output)
                process = Process(self.context, command, folder)
                time.sleep(random.random() * whole.seconds)
                process.send(number)
                ended = process.wait(kill.LIMIT)
                if ended.code not in (0, -number):
                    raise Failure(f"ended by neither itself nor the signal: {ended.describe()}")
                counts["signals"] += ended.code != 0
                left = record.leftovers(folder)
                if left and number != signal.SIGKILL:
                    raise Failure(f"left over: {left}: {ended.describe()}")
                counts["left by SIGKILL"] += bool(left)
                found = content(folder / output)
                # The files of `reproduce` appear one after the other, each of them whole.
                is_part = isinstance(found, dict) and verb == "reproduce" and found.items() <= expected.items()
                if found not in (expected, None) and not is_part:
                    raise Failure(f"half of the output: {ended.describe()}")
            clear(folder / output)
            ended = self.kvt(folder, *command).check_success()
            if content(folder / output) != expected:
                raise Failure(f"another output than without signals: {ended.describe()}")
            if left := record.leftovers(folder):
                raise Failure(f"left over after the next start: {left}")
            return counts
        return work

    def all(self) -> dict:
        cases = {f"moved, in its place {instead}": self.moved(instead) for instead in ("run", "folder", "nothing")}
        cases["deleted"] = self.deleted
        cases["without locks"] = self.without_locks
        kinds = ("link", "dangling", "device", "pipe", "read_only", "standard_output")
        for verb in ("report", "average", "convert", "predict", "logits", "bench", "eval", "compare", "manual"):
            cases |= {f"output/{verb}/{kind}": self.output(verb, kind) for kind in kinds}
        strikes = 4 if self.context.short else 40
        for verb in ("data pack", "weights average", "report", "reproduce"):
            for name in ("TERM", "INT", "HUP", "KILL"):
                cases[f"signal/{verb}/{name}"] = self.signals(verb, getattr(signal, f"SIG{name}"), strikes)
        return cases


def content(path: Path):
    """The content of a file or of a folder, without what is temporary; `None` if there is nothing."""
    if path.is_dir():
        files = record.tree(path).items()
        return {name: digest for name, digest in files if not name.startswith(record.TEMPORARY)}
    return record.digest(path) if path.is_file() else None


def clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


SHORT = ["moved, in its place run", "without locks", *(f"output/{verb}/{kind}" for verb in ("report", "average")
         for kind in ("link", "device", "pipe", "read_only", "standard_output")),
         *(f"signal/{verb}/{name}" for verb in ("data pack", "weights average", "report", "reproduce") for name in ("TERM", "KILL"))]


def cases(context: Context, references):
    for name, work in Files(context, references).all().items():
        if not context.short or name in SHORT:
            yield Case(f"files/{name}", work)
