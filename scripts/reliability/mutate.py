"""Files with a few bytes changed: a right result or a clear error, and nothing else."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import broken
import configs
import kill
import record
from common import GIB, Case, Context, Failure, run

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "crates/kvt-data/tests/fixtures"
WEIGHTS = ROOT / "crates/kvt-models/tests/golden"
# Images of one process: starting it costs more than reading them.
BATCH = 12
# Words of a hint.
HINTS = ("use ", "restore", "delete", "remove", "rename", "repair", "copy", "run.dir", "--resume", "move", "set ", "write",
            "start a new run", "give ", "put ", "from best",
            # For example a folder instead of a file: the system's message with the path is enough.
            "os error")


def mutated(content: bytes, random) -> bytes:
    """Other bytes, in one or two of the ways in which files go bad."""
    changed = bytearray(content)
    for _ in range(random.choice([1, 1, 2])):
        size = len(changed)
        if size == 0:
            return bytes(changed)
        start = random.randrange(size)
        # Headers are small and matter most.
        if random.random() < 0.4:
            start = random.randrange(min(size, 128))
        end = min(size, start + random.choice([1, 2, 4, 16, 64, 512, 4096]))
        match random.choice(["bit", "bit", "bit", "bits", "byte", "cut", "zero", "double", "drop", "swap", "edge"]):
            case "bit":
                changed[start] ^= 1 << random.randrange(8)
            case "bits":
                for _ in range(random.randint(2, 8)):
                    changed[random.randrange(size)] ^= 1 << random.randrange(8)
            case "byte":
                changed[start] = random.randrange(256)
            case "cut":
                del changed[start:]
            case "zero":
                changed[start:end] = bytes(end - start)
            case "double":
                changed[end:end] = changed[start:end]
            case "drop":
                del changed[start:end]
            case "swap":
                other = random.randrange(size)
                changed[start], changed[other] = changed[other], changed[start]
            case "edge":
                # The largest numbers, where sizes and offsets are.
                wide = min(random.choice([2, 4, 8]), size - start)
                changed[start:start + wide] = random.choice([b"\xff", b"\x7f", b"\0", b"\x80"]) * wide
    return bytes(changed)


def mutated_text(content: bytes, random) -> bytes:
    """Another text: bytes as above, or whole lines and values."""
    if random.random() < 0.4:
        return mutated(content, random)
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    match random.choice(["drop", "double", "move", "value", "cut"]):
        case "drop":
            del lines[at]
        case "double":
            lines.insert(at, lines[at])
        case "move":
            lines.insert(random.randrange(len(lines)), lines.pop(at))
        case "value":
            key = lines[at].split(b"=")[0]
            value = random.choice([b"-1", b"0", b"1e309", b"nan", b"[]", b"{}", b'"', b"'''", b"99999999999999999999", b"true",
                                   b"2020-01-01", b"[[1]]", b'"\\u0000"', b"0x", b"1_"])
            lines[at] = key + b"= " + value
        case "cut":
            lines[at] = lines[at][:random.randrange(len(lines[at]) + 1)]
    return b"\n".join(lines)


def images(context: Context, references):
    """`kvt predict` gives each image either classes or an error that names it."""
    sources = [path for path in sorted(PICTURES.glob("*/*")) if path.suffix in (".png", ".jpg", ".webp")]

    def work(folder: Path, random) -> Counter:
        references.get("ema")
        sources_here = [*sources, broken.bmp(folder / "source.bmp", 9, 7), broken.png(folder / "source.png", 40, 30)]
        names = []
        for number in range(BATCH):
            source = random.choice(sources_here)
            # The ending is right, wrong or another format's: the content decides.
            name = f"m{number:02}{random.choice([source.suffix, source.suffix, '.png', '.jpg', '.bmp', '.webp'])}"
            (folder / name).write_bytes(mutated(source.read_bytes(), random))
            names.append(name)
        reference = context.work / "reference-ema" / "run"
        ended = run(context, ["predict", "--run", reference, "--json", *names], folder, 60)
        ended.check_sane(2 * GIB)
        entries = json.loads(ended.stdout) if ended.stdout.strip() else []
        if [entry["image"] for entry in entries] != names:
            raise Failure(f"each image has a record, in their order: {ended.describe()}")
        found = {entry["image"] for entry in entries if "error" not in entry}
        for name in names:
            refused = any(line.startswith("error:") and name in line for line in ended.stderr.splitlines())
            if refused == (name in found):
                raise Failure(f"`{name}` is {'both' if refused else 'neither'} an error and a result: {ended.describe()}")
        if (ended.code == 0) != (len(found) == len(names)):
            raise Failure(f"another exit code was to be expected: {ended.describe()}")
        return Counter({"images": len(names), "images read": len(found)})

    return work


def weights(context: Context, references):
    """`kvt weights inspect` and `kvt logits` read a weight file or name it."""

    def work(folder: Path, random) -> Counter:
        references.get("ema")
        last = record.pointer(context.work / "reference-ema" / "run", "last")
        sources = [last / "model.safetensors", last / "optimizer.safetensors", WEIGHTS / "deit_nested.pth",
                   broken.pth(folder / "small.pth", {"a": ([2, 3], [3, 1]), "b": ([6], [1])}, 6)]
        counts = Counter()
        for number in range(4):
            source = random.choice(sources)
            name = f"m{number}{source.suffix}"
            (folder / name).write_bytes(mutated(source.read_bytes(), random))
            ended = run(context, ["weights", "inspect", name], folder, 30)
            ended.check_sane(1 * GIB)
            counts["weights"] += 1
            counts["weights read"] += ended.code == 0
            if ended.code != 0:
                ended.check_error(name)
            if "\x1b" in ended.stdout + ended.stderr:
                raise Failure(f"a raw escape byte reaches the terminal: {ended.describe()!r}")
            configs.write(folder, "plain")
            ended = run(context, ["weights", "convert", name, f"o{number}.safetensors", "--config", "config.toml"], folder, 30)
            ended.check_sane(1 * GIB)
            if ended.code != 0:
                ended.check_error(name, "fit", "out of order")
        return counts

    return work


def toml(context: Context, references):
    """`kvt config check` and `print` accept a file or name it."""
    sources = sorted((ROOT / "configs").rglob("*.toml"))

    def work(folder: Path, random) -> Counter:
        counts = Counter()
        for number in range(6):
            if random.random() < 0.5:
                content = configs.write(folder, random.choice(list(configs.CONFIGS))).read_bytes()
            else:
                source = random.choice(sources)
                content = source.read_bytes()
                for base in source.parent.glob("*.toml"):
                    shutil.copy(base, folder)
            (folder / "mutated.toml").write_bytes(mutated_text(content, random))
            ended = run(context, ["config", "check", "mutated.toml"], folder, 20)
            ended.check_sane(1 * GIB)
            counts["configurations"] += 1
            counts["configurations read"] += ended.code == 0
            if ended.code != 0:
                ended.check_error()
                if "mutated.toml" not in ended.stderr and "`" not in ended.stderr:
                    raise Failure(f"neither file nor key in the error: {ended.describe()}")
                continue
            # What passes can be printed, and what is printed passes and prints the same.
            printed = run(context, ["config", "print", "mutated.toml"], folder, 20).check_success().stdout
            (folder / "printed.toml").write_text(printed)
            again = run(context, ["config", "print", "printed.toml"], folder, 20).check_success().stdout
            if again != printed:
                raise Failure(f"printed twice it differs:\n{printed}\n{again}")
        return counts

    return work


def run_folder(context: Context, references):
    """One file of a stopped run is damaged: the run ends like an undisturbed one, or the error says what to do."""

    def work(folder: Path, random) -> Counter:
        name = random.choice(["ema", "steps"])
        expected, _ = references.get(name)
        half(context, references, folder, name)
        files = sorted(path for path in (folder / "run").rglob("*") if path.is_file())
        # As many of the small files as of the large ones.
        kinds = sorted({path.name if "tfevents" not in path.name else "board" for path in files} - {"run.lock"})
        kind = random.choice([*kinds, "last", "best", "log.jsonl"])
        target = random.choice([path for path in files if path.name == kind or (kind == "board" and "tfevents" in path.name)])
        shown = str(target.relative_to(folder))
        content = target.read_bytes()
        change = random.choice(["mutate"] * 8 + ["delete", "empty", "zero", "folder"])
        match change:
            case "mutate":
                new = (mutated_text if target.suffix in (".toml", ".json", ".jsonl", ".csv", ".txt", "") else mutated)(content, random)
                target.write_bytes(new)
                change = "nothing" if new == content else change
            case "empty":
                target.write_bytes(b"")
            case "zero":
                start = random.randrange(len(content) + 1)
                target.write_bytes(content[:start] + bytes(len(content) - start))
            case _:
                target.unlink()
                if change == "folder":
                    target.mkdir()
        what = f"`{shown}` after {change}"
        image = sorted(references.data().glob("val/*/*.png"))[0]
        for command in (["eval", "--run", "run"], ["eval", "--run", "run", "--checkpoint", "last", "--ema"],
                        ["predict", "--run", "run", image], ["compare", "run", "--output", "table"]):
            ended = run(context, command, folder, 30)
            ended.check_sane(1 * GIB)
            if ended.code != 0:
                ended.check_error()
        ended = run(context, ["train", "config.toml", "--resume"], folder, kill.LIMIT)
        try:
            ended.check_sane()
            if ended.code != 0:
                ended.check_error(target.name, str(target.parent.relative_to(folder)), "config.toml", codes=(1,))
                if not any(hint in ended.stderr for hint in HINTS):
                    raise Failure(f"no hint in the message: {ended.describe()}")
                return Counter({"run folders": 1, "run folders refused": 1})
            compare(expected, folder, target, ended.stderr)
        except Failure as failure:
            raise Failure(f"{what}: {failure}") from None
        return Counter({"run folders": 1})

    return work


def compare(expected: record.Record, folder: Path, target: Path, said: str) -> None:
    """The weights are the same whatever was damaged. A damaged log or event file may lack what was damaged, but not in silence."""
    kind = target.name
    if kind == "log.jsonl":
        # Lines that no longer parse may be anywhere; what the run itself adds is as ever.
        weights_alone(expected, folder)
        text = (folder / "run/log.jsonl").read_text(errors="replace")
        steps = {event["step"] for event in map(parsed, text.splitlines()) if event.get("kind") == "step"}
        lost = {step["step"] for step in expected.steps} - steps
        if lost and "warning" not in said:
            raise Failure(f"steps {sorted(lost)} are no longer in the log, and nothing says so: {said}")
        return
    if "tfevents" in kind:
        weights_alone(expected, folder)
        return
    if target.parent.name.startswith("step-") and "warning" in said:
        # It may have been the best one, which is lost: kvt says so, and another becomes the best.
        expected = without_best(expected)
        texts = record.differences(expected, without_best(record.read(folder / "run")))
        if left := record.leftovers(folder):
            texts.append(f"left over: {left}")
        if texts:
            raise Failure("differs from the run that nothing disturbed:\n  " + "\n  ".join(texts))
        return
    kill.compare(expected, folder)


def without_best(found: record.Record) -> record.Record:
    files = {name: digest for name, digest in found.files.items() if not name.startswith("best/")}
    return replace(found, files=files, progress={**found.progress, "progress": {**found.progress["progress"], "best": None}})


def weights_alone(expected: record.Record, folder: Path) -> None:
    last = record.pointer(folder / "run", "last")
    for name in record.WEIGHTS:
        if f"last/{name}" in expected.files and record.digest(last / name) != expected.files[f"last/{name}"]:
            raise Failure(f"{name} differs")


def parsed(line: str) -> dict:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def half(context: Context, references, folder: Path, name: str) -> None:
    """A run that was stopped after its third epoch, with more than one checkpoint."""
    source = references.once(f"half-{name}", lambda: stop(context, references, name))[0]
    references.workspace(folder, name)
    shutil.copytree(source / "run", folder / "run")


def stop(context: Context, references, name: str):
    folder = context.work / f"half-{name}"
    folder.mkdir()
    references.workspace(folder, name)
    # To the end of an epoch: a stop within one is evaluated, which the undisturbed run does not do there.
    run(context, ["train", "config.toml", "--set", "train.max_steps=32"], folder, kill.LIMIT).check_success()
    # In two pieces, so that what a resume appends is there too.
    run(context, ["train", "config.toml", "--set", "train.max_steps=48", "--resume"], folder, kill.LIMIT).check_success()
    return (folder,)


def cases(context: Context, references):
    kinds = {"images": images, "weights": weights, "toml": toml, "run": run_folder}
    each = {"images": 3, "weights": 3, "toml": 3, "run": 8} if context.short else \
        {"images": 100, "weights": 150, "toml": 120, "run": 240}
    for name, make in kinds.items():
        for number in range(each[name]):
            yield Case(f"mutate/{name}/{number}", make(context, references))
