"""Full disks: an error that names the path, the earlier checkpoint still good, and the run continues once there is room.

A real full disk is a small tmpfs, which needs the right to mount. A limit on the size of a file needs no right, and
makes other writes fail.
"""

import subprocess
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import kill
import record
from common import Case, Context, Failure, NotRun, run, sets

CONFIGS = ["ema", "steps", "intervals", "once", "cvt"]


@contextmanager
def small_disk(folder: Path, size: int):
    """A tmpfs of `size` bytes at `folder`, and a function that changes the size."""
    folder.mkdir(parents=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True)
    if made.returncode != 0:
        raise NotRun(f"mounting is not allowed here: {made.stderr.strip()}")

    def resize(size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def training(context: Context, references, name: str, share: float, mounted: bool):
    """Trains on a disk that is full after `share` of what the run needs, then with room to its end."""

    def work(folder: Path, random) -> Counter:
        expected, _ = references.get(name)
        references.workspace(folder, name)
        reference = context.work / f"reference-{name}" / "run"
        files = [path.stat().st_size for path in reference.rglob("*") if path.is_file()]
        command = ["train", "config.toml"]
        counts = Counter()

        def spoilt(**options):
            ended = run(context, command, folder, kill.LIMIT, **options)
            if ended.code == 0:
                counts["had room"] += 1
                return
            counts["full disks"] += 1
            ended.check_error("run/", "`run`")
            ended.check_error("No space left", "File too large", "os error 28", "os error 27")
            if record.pointer(folder / "run", "last") is not None:
                run(context, ["eval", "--run", "run", "--checkpoint", "last"], folder, kill.LIMIT).check_success()
                counts["earlier checkpoints"] += 1

        def go_on():
            ended = run(context, [*command, "--resume"], folder, kill.LIMIT)
            if ended.code == 1 and "holds no run" in ended.stderr:
                ended = run(context, command, folder, kill.LIMIT)
            ended.check_success()
            counts["resumes"] += 1
            kill.compare(expected, folder)

        if mounted:
            # Pages of 4 KiB, a folder takes none.
            need = sum(-(-size // 4096) * 4096 for size in files)
            with small_disk(folder / "run", max(4096, int(share * need) // 4096 * 4096)) as resize:
                spoilt()
                resize(64 << 20)
                go_on()
        else:
            spoilt(file_limit=max(512, int(share * max(files))))
            go_on()
        return counts

    return work


def writers(context: Context, references, mounted: bool):
    """What else writes: the error names the file, and nothing half-made stays."""

    def work(folder: Path, random) -> Counter:
        references.get("ema")
        reference = context.work / "reference-ema" / "run"
        weights = record.pointer(reference, "last") / "model.safetensors"
        model = reference / "config.toml"
        counts = Counter()
        commands = {
            "w.safetensors": ["weights", "convert", weights, "disk/w.safetensors", "--config", model],
            "logits.safetensors": ["logits", "--config", model, "--weights", weights, "--input", images(folder),
                                   "--output", "disk/logits.safetensors"],
            "bench.json": ["bench", "attention", "--device=cpu", "--shape=1,1,8,4", "--runs=1", "--json",
                           "disk/bench.json"],
            "shapes": ["data", "generate", "disk/shapes", "--image-size=32"],
            "table": ["compare", reference, "--output", "disk/table"],
        }
        for name, command in commands.items():
            # These are smaller than any room that a disk can have.
            small = name in ("bench.json", "logits.safetensors")
            if mounted:
                with small_disk(folder / "disk", 8192):
                    (folder / "disk/filler").write_bytes(b"x" * 4096 * (2 if small else 1))
                    check(run(context, command, folder, kill.LIMIT), folder, name)
                (folder / "disk").rmdir()
            else:
                (folder / "disk").mkdir(exist_ok=True)
                check(run(context, command, folder, kill.LIMIT, file_limit=0 if small else 512), folder, name)
            counts["full disks"] += 1
        return counts

    def check(ended, folder: Path, name: str) -> None:
        ended.check_error("disk/")
        if (folder / "disk" / name).is_file():
            raise Failure(f"half of `{name}` stayed: {ended.describe()}")
        if left := record.leftovers(folder):
            raise Failure(f"left over: {left}: {ended.describe()}")

    return work


def images(folder: Path) -> Path:
    """Two prepared images for `kvt logits`."""
    import broken

    return broken.safetensors(folder / "in.safetensors", {"images": ("F32", [2, 3, 16, 16], bytes(4 * 2 * 3 * 256))})


def nonfinite(context: Context, references):
    """The cause comes first where its evidence cannot be written."""

    def work(folder: Path, random) -> Counter:
        references.workspace(folder, "plain", "[optim]\nlr = 1e30\nclip_norm = 0.0\n[schedule]\nwarmup_epochs = 0\n")
        # Enough for the first lines of the log, too little for the batch.
        ended = run(context, ["train", "config.toml", *sets(log__tensorboard="false")], folder, kill.LIMIT, file_limit=4096)
        ended.check_error("NaN", "inf")
        return Counter({"full disks": 1})

    return work


def cases(context: Context, references):
    shares = [0.3, 0.9] if context.short else [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.05]
    for kind, mounted in (("tmpfs", True), ("file-limit", False)):
        for name in CONFIGS[:2] if context.short else CONFIGS:
            for share in shares:
                yield Case(f"disk/{kind}/{name}/{share}", training(context, references, name, share, mounted))
        yield Case(f"disk/{kind}/writers", writers(context, references, mounted))
    yield Case("disk/nonfinite", nonfinite(context, references))
