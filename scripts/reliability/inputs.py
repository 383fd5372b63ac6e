"""Wrong inputs: every argument of every command, with mistakes that people and machines make."""

import itertools
import os
import shutil
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import broken
import configs
import record
from common import GIB, Case, Context, Ended, Failure, NotRun, run, sets

ERROR, FINE, EITHER, REPORT = "error", "fine", "either", "report"


@dataclass
class Input:
    """A command line in a folder with a small run, data and weights, and what must come of it.

    `expected` is an error, success, either of the two, or a report, which says on stdout what is wrong. An error has one
    of the words in `mentions`.
    """

    name: str
    arguments: list
    expected: str = ERROR
    mentions: tuple[str, ...] = ()
    prepare: Callable[[Path], None] = lambda folder: None
    check: Callable[[Ended, Path], None] = lambda ended, folder: None
    as_nobody: bool = False
    limit: float = 30.0
    memory: int = 2 * GIB
    # For what the system does to the command line.
    options: dict = field(default_factory=dict)


class Bed:
    """What the commands work with: made once, and shown to each case by links."""

    def __init__(self, context: Context, references):
        self.context, self.references, self.folder = context, references, None

    def make(self) -> Path:
        return self.references.once("bed", self._make)[0]

    def _make(self):
        self.references.get("ema")
        folder = self.context.work / "bed"
        folder.mkdir()
        shutil.copytree(self.context.work / "reference-ema" / "run", folder / "run", symlinks=True)
        configs.write(folder, "ema")
        shutil.copytree(self.references.data(), folder / "photos")
        (folder / "photos/dataset.toml").unlink()
        configs_text = configs.merge((folder / "config.toml").read_text(), '[data]\nkind = "folder"\npath = "photos"\n')
        (folder / "photos.toml").write_text(configs_text)
        shutil.copy(record.pointer(folder / "run", "last") / "model.safetensors", folder / "w.safetensors")
        shutil.copy(next((folder / "photos").glob("val/*/*.png")), folder / "image.png")
        shutil.copy(folder / "run/classes.txt", folder / "classes.txt")
        broken.safetensors(folder / "in.safetensors", {"images": ("F32", [2, 3, 16, 16], bytes(4 * 2 * 3 * 256))})
        (folder / "data").mkdir()
        (folder / "data/shapes").symlink_to(self.references.data())
        return (folder,)

    def case(self, wrong: Input) -> Case:
        def work(folder: Path, random) -> Counter:
            bed = self.make()
            for path in bed.iterdir():
                (folder / path.name).symlink_to(path)
            if wrong.as_nobody and os.geteuid() == 0:
                folder.chmod(0o777)
            wrong.prepare(folder)
            judge(wrong, run(self.context, wrong.arguments, folder, wrong.limit, as_nobody=wrong.as_nobody,
                             **wrong.options), folder)
            return Counter({"command lines": 1})

        return Case(f"inputs/{wrong.name}", work)


def judge(wrong: Input, ended: Ended, folder: Path) -> None:
    if "Permission denied" in ended.stderr and ended.code == 126:
        raise NotRun(f"the other user cannot run the program: {ended.stderr.strip()}")
    ended.check_sane(wrong.memory)
    if wrong.expected == FINE:
        ended.check_success()
    elif wrong.expected == ERROR or (wrong.expected == EITHER and ended.code != 0):
        ended.check_error(*wrong.mentions)
    elif ended.code not in (0, 1):
        raise Failure(f"an exit code of its own: {ended.describe()}")
    if left := record.leftovers(folder):
        raise Failure(f"left over: {left}: {ended.describe()}")
    wrong.check(ended, folder)


# --- Paths ---------------------------------------------------------------------------------------

P = object()
TRAIN = ["train", "config.toml", "--run-dir", "out"]
PHOTOS = ["train", "photos.toml", "--run-dir", "out"]
CONVERT = ["weights", "convert"]

# Where a path is read: a name, the command line with `P` for the path, and its endings.
READ = [
    ("train config", ["train", P], ["toml"]),
    ("train --config", ["train", "--config", P], ["toml"]),
    ("train weights", [*TRAIN, "--set", ("init.weights=", P)], ["safetensors", "pth"]),
    ("train data", [*PHOTOS, "--set", ("data.path=", P)], [""]),
    ("train resume", ["train", "config.toml", "--resume", "--run-dir", P], [""]),
    ("eval run", ["eval", "--run", P], [""]),
    ("eval checkpoint", ["eval", "--run", "run", "--checkpoint", P], [""]),
    ("eval config", ["eval", "--config", P, "--weights", "w.safetensors"], ["toml"]),
    ("eval weights", ["eval", "--config", "config.toml", "--weights", P], ["safetensors", "pth"]),
    ("eval data", ["eval", "--run", "run", "--data", P], [""]),
    ("predict run", ["predict", "--run", P, "image.png"], [""]),
    ("predict image", ["predict", "--run", "run", P], ["png", "jpg", "webp", "bmp"]),
    ("predict second", ["predict", "--run", "run", "image.png", P, "--json"], ["png"]),
    ("predict classes", ["predict", "--run", "run", "image.png", "--classes", P], ["txt"]),
    ("compare", ["compare", P, "--output", "out"], ["toml"]),
    ("compare second", ["compare", "run", P, "--output", "out"], [""]),
    ("logits config", ["logits", "--config", P, "--weights", "w.safetensors", "--input", "in.safetensors", "--output",
                       "out.safetensors"], ["toml"]),
    ("logits weights", ["logits", "--config", "config.toml", "--weights", P, "--input", "in.safetensors", "--output",
                        "out.safetensors"], ["safetensors", "pth"]),
    ("logits input", ["logits", "--config", "config.toml", "--weights", "w.safetensors", "--input", P, "--output",
                      "out.safetensors"], ["safetensors", "pth"]),
    ("bench config", ["bench", "step", "--config", P, "--runs", "1"], ["toml"]),
    ("config check", ["config", "check", P], ["toml"]),
    ("config print", ["config", "print", P], ["toml"]),
    ("data check", ["data", "check", P], [""]),
    ("inspect", ["weights", "inspect", P], ["safetensors", "pth", "bin", "txt"]),
    ("inspect config", ["weights", "inspect", "w.safetensors", "--config", P], ["toml"]),
    ("convert", [*CONVERT, P, "out.safetensors", "--config", "config.toml"], ["safetensors", "pth"]),
]

# Where a path is written, and what may be there already.
WRITTEN = [
    ("train run", ["train", "config.toml", "--set", "train.max_steps=1", "--run-dir", P], "", {"missing", "folder"}),
    ("compare output", ["compare", "run", "--output", P], "", {"missing", "folder"}),
    ("logits output", ["logits", "--config", "config.toml", "--weights", "w.safetensors", "--input", "in.safetensors",
                       "--output", P], "safetensors", {"missing"}),
    ("convert output", [*CONVERT, "w.safetensors", P, "--config", "config.toml"], "safetensors", {"missing"}),
    ("convert output, forced", [*CONVERT, "w.safetensors", P, "--config", "config.toml", "--force"], "safetensors",
     {"missing"}),
    ("bench json", ["bench", "attention", "--device=cpu", "--shape=1,1,8,4", "--runs=1", "--json", P], "json", {"missing"}),
    ("data generate", ["data", "generate", P, "--train-per-class=2", "--val-per-class=1"], "", {"missing", "folder"}),
]


def fill(arguments: list, path) -> list:
    """The command line with a path in its place, also within an argument."""
    encoded = os.fsencode(path)
    done = []
    for argument in arguments:
        if argument is P:
            argument = encoded
        elif isinstance(argument, tuple):
            argument = b"".join(encoded if part is P else part.encode() for part in argument)
        done.append(argument)
    return done


def path_of(make, ending: str) -> bytes:
    """The name says what is wrong; `unnameable` is no UTF-8."""
    name = b"caf\xe9" if make is broken.unnameable else make.__name__.encode()
    return name + (b"." + ending.encode() if ending else b"")


def paths():
    for (what, arguments, endings), make in itertools.product(READ, broken.WRONG):
        for ending in endings:
            path = path_of(make, ending)
            mention = os.fsdecode(path) if make is not broken.unnameable else "caf"
            # An unnameable path is shown in part, and a `--set` cannot hold it at all.
            mentions = (mention, "UTF-8") if make is broken.unnameable else (mention,)
            if make is broken.missing and what == "compare":
                mentions = (mention,)
            yield Input(f"{what}, {make.__name__} .{ending}", fill(arguments, path), mentions=mentions,
                        prepare=at(make, path), as_nobody=make is broken.secret, limit=15)
    for (what, arguments, ending, fine), make in itertools.product(WRITTEN, broken.WRONG):
        # It measures the machine each time.
        slow = arguments[0] == "bench"
        if make is broken.secret or (slow and make not in (broken.missing, broken.folder, broken.dangling)):
            continue
        path = path_of(make, ending)
        mention = os.fsdecode(path) if make is not broken.unnameable else "caf"
        expected = FINE if make.__name__ in fine else EITHER
        yield Input(f"{what}, {make.__name__}", fill(arguments, path), expected, (mention, "UTF-8"),
                    prepare=at(make, path), limit=90 if slow else 15)
    # A base is named in a file, where every name is UTF-8.
    for make in broken.WRONG:
        if make is broken.unnameable:
            continue
        path = os.fsdecode(path_of(make, "toml"))

        def prepare(folder: Path, make=make, path=path) -> None:
            at(make, path)(folder)
            (folder / "top.toml").write_text(f'base = "{path}"\n')

        # An empty base is valid; the missing keys are another error.
        yield Input(f"base, {make.__name__}", ["config", "check", "top.toml"], mentions=(path, "model.name"), prepare=prepare,
                    as_nobody=make is broken.secret, limit=15)


def at(make, path):
    return lambda folder: make(os.path.join(os.fsencode(folder), os.fsencode(path)))


# --- Configuration keys ---------------------------------------------------------------------------

# What each type of the reference must not accept, with the words that name it.
NO_INTEGER = ["-1", "1.5", "nan", "word", "99999999999999999999", "[]", "{}", "true", ""]
NO_FLOAT = ["nan", "inf", "-inf", "word", "[]", "{}", "true", ""]
ODD_INTEGER = ["0", "1", "9223372036854775807", "4294967296", "65537"]
ODD_FLOAT = ["0", "-1.0", "1e-300", "1e300", "1.0", "0.999999999"]
# What these keys have besides numbers and names: an empty text is no table, as the configuration of every run says.
WORDS = {"data.workers": "auto", "data.labels": "''"}
# Asked for, so many images or steps are made; only how long it takes is odd.
LONG = {"data.shapes.train_per_class", "data.shapes.val_per_class", "data.shapes.image_size"}


def reference(context: Context, folder: Path) -> list[tuple[str, str, str]]:
    """The keys of `kvt config reference` with their types and defaults."""
    text = run(context, ["config", "reference"], folder).check_success().stdout
    keys, section = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line.strip("# `[]")
            section = "" if section == "Top level" else section + "."
        elif line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            keys.append((section + cells[0].strip("` |"), cells[1], cells[2].strip("`")))
    return keys


def keys(context: Context):
    for key, kind, default in reference(context, context.work):
        if key == "base":
            continue
        kind = kind.removeprefix("non-empty ").replace("`", "")
        if kind.startswith('"') and "integer" not in kind:
            wrong, odd = ["", "wrod", "3", "true", "[]", "{}", "nan", "-1.0", "1e300", "DENSE"], []
            if "list" in kind:
                odd = ["[1.0]", "[0.0]", "[nan]", "[1e300, 1e300, 1e300]"]
            # Some take a word or a switch.
            if "true" in kind:
                wrong, odd = [value for value in wrong if value != "true"], [*odd, "true"]
        elif kind.startswith("true"):
            wrong, odd = ["maybe", "1", "[]", ""], []
        elif kind.startswith("list of 2") or kind.startswith("list of 3"):
            wrong, odd = ["1.0", "[]", "[1.0]", "[1.0, 2.0, 3.0, 4.0]", '["a", "b", "c"]', "[nan, nan]", "[nan, nan, nan]"], \
                ["[0.0, 0.0]", "[0.0, 0.0, 0.0]", "[-1.0, -1.0]", "[1e300, 1e300]", "[1e300, 1e300, 1e300]",
                 "[1e-300, 1e-300]", "[1e-300, 1e-300, 1e-300]", "[0.9, 0.1]"]
        elif kind == "string":
            wrong, odd = ["''", "[]", "3", '"a\\u0000b"'], ["../up", '" "', '"a\\nb"', "x" * 300]
        elif "integer" in kind:
            wrong, odd = NO_INTEGER, ODD_INTEGER
            if "list" in kind:
                # A list, or a share, may be right here.
                wrong = [value for value in wrong if not (value == "1.5" and "float" in kind)]
                odd = [*odd, "[1]", "[0]", "[1, 2, 3, 4, 5, 6, 7]", "[-1]", "[9223372036854775807]"]
        else:
            wrong, odd = NO_FLOAT, ODD_FLOAT
        # A section that does not apply is refused as a whole.
        names = (key.rsplit(".", 1)[-1], *(["class_attention"] if "class_attention" in key else []))
        for value in wrong:
            if value == WORDS.get(key):
                continue
            # Any text is a string, but an empty one only where it is the default.
            is_text = value != "''" and "string" in kind.split()
            may_be_right = is_text or value.replace("'", '"') == default
            yield Input(f"key {key}={value}", ["config", "check", "config.toml", "--set", f"{key}={value}"],
                        EITHER if may_be_right else ERROR, names)
            if kind == "string" and "u0000" in value:
                yield train_with(key, value)
        for value in odd:
            yield Input(f"key {key}={value[:40]}", ["config", "check", "config.toml", "--set", f"{key}={value}"], EITHER, names)
            if key not in LONG and not key.startswith("run."):
                yield train_with(key, value)


def train_with(key: str, value: str) -> Input:
    """If the check accepts a value, training uses it, or says why it cannot."""
    steps = [] if key == "train.max_steps" else ["--set", "train.max_steps=2"]
    # A k without a kind is refused at once, but the case needs its effect.
    knn = ["--set", "model.attention.kind=knn"] if key.startswith("model.attention.n") else []
    return Input(f"train {key}={value[:40]}", ["train", "config.toml", "--run-dir", "out", *steps, *knn, "--set", f"{key}={value}"],
                 EITHER)


# --- The rest -------------------------------------------------------------------------------------


def no_escape(ended: Ended, folder: Path) -> None:
    if "\x1b" in ended.stdout + ended.stderr:
        raise Failure(f"a raw escape byte reaches the terminal: {ended.describe()!r}")


def says(*words: str):
    """The output has the words, whatever the exit code."""
    def check(ended: Ended, folder: Path) -> None:
        for word in words:
            if word not in ended.stdout + ended.stderr:
                raise Failure(f"`{word}` is not in its output: {ended.describe()}\n{ended.stdout}")
    return check


def no_nan(ended: Ended, folder: Path) -> None:
    if ended.code == 0 and "warning" not in ended.stderr:
        raise Failure(f"no error and no warning: {ended.describe()}")


def absent(name: str):
    def check(ended: Ended, folder: Path) -> None:
        if (folder / name).exists():
            raise Failure(f"`{name}` stayed: {ended.describe()}")
    return check


def own(folder: Path, name: str) -> Path:
    """A copy of something shared, to be damaged."""
    (folder / name).unlink()
    source = folder.parent / "bed" / name
    if source.is_dir():
        shutil.copytree(source, folder / name, symlinks=True)
    else:
        shutil.copy(source, folder / name)
    return folder / name


def nan_weights(folder: Path) -> None:
    tensors = broken.read_safetensors(folder / "w.safetensors")
    kind, shape, content = tensors["blocks.0.mlp.fc1.weight"]
    tensors["blocks.0.mlp.fc1.weight"] = (kind, shape, b"\x00\x00\xc0\x7f" * (len(content) // 4))
    broken.safetensors(folder / "nan.safetensors", tensors)


def escapes(folder: Path) -> None:
    broken.safetensors(folder / "esc.safetensors", {"a\x1b[31mred\x1b]0;title\x07": ("F32", [1], bytes(4))})


def unreadable(folder: Path, what: str, content: bytes = b"no image") -> None:
    for path in own(folder, "photos").glob(f"{what}/*/*.png"):
        path.write_bytes(content)


def linked(folder: Path) -> None:
    photos = own(folder, "photos")
    place = next((photos / "train").iterdir())
    (place / "dangling.png").symlink_to("nowhere.png")
    (place / "circular.png").symlink_to("circular.png")
    (place / "up").symlink_to("..")


def foreign(folder: Path) -> None:
    photos = own(folder, "photos")
    place = next((photos / "train").iterdir())
    for ending in ("gif", "heic", "tiff", "avif"):
        (place / f"a.{ending}").write_bytes(b"x")


def misnamed(folder: Path) -> None:
    """Images whose names are no UTF-8."""
    photos = own(folder, "photos")
    for place in (photos / "train").iterdir():
        for image in place.iterdir():
            os.rename(image, os.path.join(os.fsencode(place), b"\xff" + os.fsencode(image.name)))


def rename_class(name: bytes):
    def prepare(folder: Path) -> None:
        photos = own(folder, "photos")
        for split in ("train", "val"):
            source = sorted((photos / split).iterdir())[0]
            os.rename(source, os.path.join(os.fsencode(source.parent), name))
    return prepare


def one_class(folder: Path) -> None:
    photos = own(folder, "photos")
    for split in ("train", "val"):
        for place in sorted((photos / split).iterdir())[1:]:
            shutil.rmtree(place)


def emptied(what: str):
    def prepare(folder: Path) -> None:
        for path in own(folder, "photos").glob(what):
            path.unlink()
    return prepare


def first_image(make, split: str = "train"):
    """The first image of a split, replaced."""
    def prepare(folder: Path) -> None:
        path = sorted(own(folder, "photos").glob(f"{split}/*/*.png"))[0]
        path.unlink()
        make(path)
    return prepare


def sized(path: Path, size: int) -> None:
    """A file of a size that is not on the disk."""
    with open(path, "wb") as file:
        file.truncate(size)


def text(name: str, content: str | bytes):
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode()) and None


def others():
    yield from commands()
    yield from configurations()
    yield from pictures()
    yield from weights()
    yield from data()


def commands():
    """Invalid command lines."""
    for arguments in (
        [], ["trian"], ["--nothing"], ["train"], ["train", "config.toml", "extra"], ["train", "config.toml", "--rseume"],
        ["train", "config.toml", "--config", "config.toml"], ["eval"], ["eval", "--run", "run", "--config", "config.toml"],
        ["eval", "--run", "run", "--weights", "w.safetensors"], ["eval", "--run", "run", "--split", "test"],
        ["eval", "--run", "run", "--split", "val", "--data", "photos/val"], ["eval", "--config", "config.toml"],
        ["predict", "--run", "run"], ["predict", "--run", "run", "image.png", "--top", "0"],
        ["predict", "--run", "run", "image.png", "--top", "-1"], ["predict", "image.png"], ["compare"],
        ["compare", "config.toml", "config.toml", "--output", "out"], ["compare", "config.toml", "--seeds", "0"],
        ["compare", "config.toml", "--seeds", "x"], ["compare", "run/log.jsonl"], ["compare", "photos", "--output", "out"],
        ["logits"], ["logits", "--model", "nothing", "--weights", "w.safetensors", "--input", "in.safetensors", "--output", "o.safetensors"],
        ["bench"], ["bench", "attention", "--shape", "0,0,0,0"], ["bench", "attention", "--shape", "1,2,3"],
        ["bench", "attention", "--shape", "-1,1,1,1"], ["bench", "attention", "--shape", "4294967296,4294967296,2,2"],
        ["bench", "attention", "--k", "0"], ["bench", "attention", "--runs", "0"], ["bench", "attention", "--runs", "1e3"],
        ["bench", "attention", "--implementation", "slow"], ["bench", "step"], ["bench", "step", "--model", "x"],
        ["bench", "step", "--model", "deit_tiny_patch16_224", "--batch", "0"],
        ["bench", "step", "--model", "deit_tiny_patch16_224", "--kind", "sparse"], ["models"], ["models", "show"],
        ["models", "show", "deit_tny_patch16_224"], ["models", "show", ""], ["models", "show", "a\nb"],
        ["models", "show", "deit_tiny_patch16_224", "--img-size", "0"],
        ["models", "show", "deit_tiny_patch16_224", "--img-size", "18446744073709551615"],
        ["models", "show", "deit_tiny_patch16_224", "--set", "model.depth=99999999999"],
        ["models", "show", "deit_tiny_patch16_224", "--set", "model.embed_dim=9223372036854775807"],
        ["models", "show", "deit_tiny_patch16_224", "--set", "model.mlp_ratio=1e300"],
        ["devices", "extra"], ["config"], ["config", "schema", "x"], ["data"], ["data", "check"],
        ["data", "check", "photos", "--splits", ""], ["data", "check", "photos", "--splits", "train,test"],
        ["data", "check", "photos", "--splits", "train,nowhere/x"],
        ["data", "generate", "out", "--classes", "1"], ["data", "generate", "out", "--classes", "11"],
        ["data", "generate", "out", "--classes", "18446744073709551616"], ["data", "generate", "out", "--image-size", "0"],
        ["data", "generate", "out", "--image-size", "4294967295"], ["data", "generate", "out", "--clutter", "nan"],
        ["data", "generate", "out", "--clutter", "2"], ["data", "generate", "out", "--occlusion", "-1"],
        ["data", "generate", "out", "--train-per-class", "0"], ["data", "generate", "photos"],
        ["weights"], ["weights", "inspect"], ["weights", "inspect", "w.safetensors", "--model", "x"],
        ["weights", "inspect", "w.safetensors", "--set", "model.depth=1"],
        ["weights", "inspect", "w.safetensors", "--model", "deit_tiny_patch16_224", "--set", "model.depth=0"],
        ["weights", "convert", "w.safetensors"], ["weights", "convert", "w.safetensors", "o.pth", "--config", "config.toml"],
        ["weights", "convert", "w.safetensors", "o.safetensors", "--model", "deit_tiny_patch16_224"],
        ["weights", "convert", "w.safetensors", "o.safetensors", "--config", "config.toml", "--to", "keras"],
    ):
        expected = ERROR if arguments else EITHER
        yield Input("command " + " ".join(arguments)[:90].replace("\n", "\\n"), arguments, expected)
    for device in ("", " ", "cpu ", " cpu", "CPU", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:99", "cuda:99999999999999999999",
                   "cpu:1", "cpu:0x0", "cpu:+1", "cpu:999999", "wgpu:-1", "auto:1", "auto:", ":", "a\nb", "cpu:0:0", "cpu:½"):
        # What is set on the command line loses the spaces around it.
        yield Input(f"device {device!r}", [*TRAIN, f"--device={device}"], FINE if device.strip() == "cpu" else ERROR,
                    mentions=("device", f"not include `{device.split(':')[0]}`"))
    yield Input("device from a file", ["train", "top.toml", "--run-dir", "out"], mentions=("train.device",),
                prepare=text("top.toml", 'base = "config.toml"\n[train]\ndevice = ""\n'))
    yield Input("device with a space from a file", ["train", "top.toml", "--run-dir", "out"], mentions=("train.device",),
                prepare=text("top.toml", 'base = "config.toml"\n[train]\ndevice = "cpu "\n'))
    for value in ("train.epochs=1\nseed=5", "seed=1\n", "\nseed=1", "seed=1\r\nseed=2", "model.name=a\nb", "run.dir=a\nb=c",
                  "seed", "=", "=1", ".=1", "seed.=1", ".seed=1", "train=1", "train.epochs.x=1", "sede=1", "trian.epochs=1",
                  "base=config.toml", "seed=1 2", "seed==1", "train={epochs=1", "train.epochs=1e2", "a" * 5000 + "=1",
                  ".".join("a" * 2000) + "=1", "seed=" + "[" * 2000, "x\x1b[31m=1", "model.name=\x1b[31m"):
        shown = value[:40].encode("unicode_escape").decode()
        expected = EITHER if value in ("seed=1\n", "\nseed=1") else ERROR
        yield Input(f"set {shown}", ["config", "check", "config.toml", "--set", value], expected)
    yield Input("set that is no UTF-8", ["config", "check", "config.toml", "--set", b"run.dir=caf\xe9"], mentions=("UTF-8",))
    yield Input("device that is no UTF-8", [*TRAIN, "--device", b"\xff"], mentions=("UTF-8",))
    yield Input("model that is no UTF-8", ["models", "show", b"\xff"], mentions=("UTF-8",))
    for command in (["models", "list"], ["config", "schema"], ["config", "print", "config.toml"], ["eval", "--run", "run"],
                    ["predict", "--run", "run", "image.png"], ["weights", "inspect", "w.safetensors"], ["data", "check", "photos"]):
        yield full_output(command)
    yield Input("bench json, no folder", ["bench", "attention", "--device=cpu", "--shape=1,1,8,4", "--runs=1", "--json",
                                         "nowhere/b.json"], mentions=("nowhere/b.json",), check=before_measuring)
    yield Input("home without a folder", ["models", "list"], FINE, options={"environment": {"HOME": "/nonexistent"}})
    yield Input("odd environment", ["models", "list"], EITHER, options={"environment": {"RAYON_NUM_THREADS": "x", "COLUMNS": "0"}})


def full_output(command: list) -> Input:
    wrong = Input("full output: " + " ".join(command), command, mentions=("os error", "No space"))
    wrong.options = {"stdout": os.open("/dev/full", os.O_WRONLY)} if os.path.exists("/dev/full") else {}
    return wrong


def before_measuring(ended: Ended, folder: Path) -> None:
    if "GFLOP/s" in ended.stdout:
        raise Failure(f"fails after the measurement: {ended.describe()}")


def configurations():
    """Files that are not configurations, or ask for the impossible."""
    base = 'base = "config.toml"\n'
    for name, content, mentions in (
        ("circle", 'base = "top.toml"\n', ("circle",)), ("base in a section", base + "[train]\nbase = 1\n", ("base",)),
        ("base of a wrong type", "base = 3\n", ("base",)), ("byte order mark", b"\xef\xbb\xbf" + base.encode(), ()),
        ("no UTF-8", b"seed = \xff\n", ("top.toml",)), ("a NUL", b"seed = 1\0\n", ("top.toml",)),
        ("UTF-16", base.encode("utf-16"), ("top.toml",)), ("doubled key", base + "seed = 1\nseed = 2\n", ("seed",)),
        ("doubled section", base + "[train]\n[train]\n", ("train",)), ("deep", base + "seed = " + "[" * 100_000 + "\n", ("top.toml",)),
        ("deep tables", base + "x = " + "{a=" * 5000 + "1" + "}" * 5000 + "\n", ("top.toml", "x")),
        ("long key", base + "k" * 100_000 + " = 1\n", ("k",)), ("long dotted key", base + ".".join(["k"] * 20_000) + " = 1\n", ("top.toml",)),
        ("nothing", "", ("model.name",)), ("a section as a value", base + "train = 3\n", ("train",)),
        ("a value as a section", base + "[seed]\n", ("seed",)), ("an array of sections", base + "[[train]]\n", ("train",)),
        ("a date", base + "seed = 2020-01-01\n", ("seed",)), ("no bracket", base + "[train\n", ("top.toml",)),
        ("escape bytes", base + '"\\u001b[31m" = 1\n', ("unknown",)),
    ):
        expected = EITHER if name == "byte order mark" else ERROR
        yield Input(f"toml: {name}", ["config", "check", "top.toml"], expected, mentions, prepare=text("top.toml", content))

    def chain(folder: Path) -> None:
        for number in range(3000):
            (folder / f"c{number}.toml").write_text(f'base = "c{number + 1}.toml"\n')

    yield Input("toml: 3000 bases", ["config", "check", "c0.toml"], prepare=chain)
    for more in (["augment.crop_pct=1e-6"], ["augment.crop_pct=1e-300"], ["augment.preset=imagenet", "augment.crop_pct=0.0001"],
                 ["train.batch_size=9223372036854775807", "train.accumulate=9223372036854775807"],
                 ["train.batch_size=4294967296", "train.accumulate=4294967296"], ["model.img_size=18"], ["model.img_size=4000000000"],
                 ["model.patch_size=0"], ["model.embed_dim=15"], ["model.embed_dim=10000000000"], ["model.depth=10000000000"],
                 ["model.num_heads=1000000007"], ["model.num_heads=[1, 2]"], ["model.name=swin_tiny_patch4_window7_224", "model.window_size=0"],
                 ["model.in_chans=2"], ["model.num_classes=2"], ["model.num_classes=10000000000"], ["model.attention.kind=knn",
                 "model.attention.neighbors=0"], ["model.attention.neighbors=5"], ["data.train=../../x"], ["data.train="],
                 ["data.shapes.classes=1"], ["data.shapes.classes=11"], ["data.shapes.image_size=7"], ["augment.scale=[0.9, 0.1]"],
                 ["schedule.warmup_epochs=1e300", "optim.lr=nan"], ["optim.lr=0"], ["optim.lr=-1"]):
        yield Input("train " + " ".join(more), [*TRAIN, *(word for value in more for word in ("--set", value))],
                    check=absent("out/config.toml"))
    for name in ("train.batch_size=1000", "augment.padding=1000000000", "augment.padding=18446744073709551615", "data.prefetch=1000000000000",
                 "data.workers=1000", "eval.batch_size=1000000000000", "train.epochs=4294967295", "augment.ratio=[1e-300, 1e300]",
                 "augment.scale=[1e-300, 1e-300]", "data.max_skipped=18446744073709551615", "log.every_steps=9223372036854775807",
                 "checkpoint.every_steps=9223372036854775807", "checkpoint.every_epochs=4294967295", "optim.lr_batch=9223372036854775807"):
        extra = ["augment.preset=imagenet"] if "ratio" in name or "scale" in name else []
        yield Input(f"train {name}", [*TRAIN, *(word for value in [name, *extra, "train.max_steps=2"] for word in ("--set", value))], EITHER)
    yield Input("a loss that is no number", [*TRAIN, *sets(optim__lr="1e30", optim__clip_norm="0", schedule__warmup_epochs="0")],
                mentions=("NaN", "inf"))
    yield Input("a loss that is no number, names that are no UTF-8",
                [*PHOTOS, *sets(optim__lr="1e30", optim__clip_norm="0", schedule__warmup_epochs="0")], mentions=("NaN", "inf"),
                prepare=misnamed)
    yield Input("resume with another recipe", ["train", "config.toml", "--resume", "--set", "optim.lr=0.5"], mentions=("optim.lr",),
                prepare=lambda folder: own(folder, "run") and None)
    yield Input("train over a run", ["train", "config.toml"], mentions=("--resume",), prepare=lambda folder: own(folder, "run") and None)
    yield Input("train in a folder of other files", ["train", "config.toml", "--run-dir", "photos"], mentions=("photos",))


def pictures():
    """Images that are too much, too little or none."""
    made = {
        "a line of 65500 pixels": lambda path: broken.png(path, 1, 65500),
        "a row of 65500 pixels": lambda path: broken.png(path, 65500, 1),
        "1000 megapixels of 1 bit": lambda path: broken.png(path, 32000, 32000, 1, 1),
        "65500 x 65500 pixels of 1 bit": lambda path: broken.png(path, 65500, 65500, 1, 1),
        "a claim of 2^31 pixels": lambda path: path.write_bytes(broken.png(path, 16, 16).read_bytes()[:16] + b"\x7f\xff\xff\xff" * 2
                                                               + path.read_bytes()[24:]),
        "a BMP that claims 60000 x 60000": lambda path: broken.bmp(path, 4, 4, (60000, 60000)),
        "a BMP with a negative width": lambda path: broken.bmp(path, 4, 4, (-4, 4)),
        "an empty picture": lambda path: broken.png(path, 0, 0),
        "a file of 8 GiB": lambda path: sized(path, 8 * GIB),
        "a GIF": lambda path: path.write_bytes(b"GIF89a" + bytes(100)),
        "an LFS pointer": broken.pointer,
    }
    # Tall and thin is unusual, not wrong.
    fine = ("a line of 65500 pixels", "a row of 65500 pixels")
    for name, make in made.items():
        expected = EITHER if name in fine else ERROR

        def one(folder: Path, make=make) -> None:
            make(folder / "odd.png")

        yield Input(f"predict {name}", ["predict", "--run", "run", "odd.png"], expected, ("odd.png",), prepare=one)
        yield Input(f"train on {name}", [*PHOTOS, "--set", "train.max_steps=20"], expected, (".png",), prepare=first_image(make))
        yield Input(f"skip {name}", [*PHOTOS, *sets(train__max_steps=20, data__on_error="skip")], FINE, prepare=first_image(make))
        yield Input(f"check {name}", ["data", "check", "photos"], REPORT, prepare=first_image(make),
                    check=says("unreadable `") if expected == ERROR else lambda ended, folder: None)


    # At the size of a real model, where the long side would be resized to millions of pixels.
    large = sets(model__img_size=224, model__patch_size=56, train__max_steps=20)
    for name in fine:
        for preset in ("none", "imagenet"):
            yield Input(f"train at 224 px on {name}, {preset}", [*PHOTOS, *large, *sets(augment__preset=preset)], EITHER, (".png",),
                        prepare=first_image(made[name]), memory=GIB, limit=120)
            # Evaluation keeps the centre of what it resizes.
            yield Input(f"evaluate at 224 px on {name}, {preset}", [*PHOTOS, *large, *sets(augment__preset=preset)], EITHER, (".png",),
                        prepare=first_image(made[name], "val"), memory=GIB, limit=120)
        yield Input(f"skip at 224 px {name}", [*PHOTOS, *large, *sets(data__on_error="skip")], FINE,
                    prepare=first_image(made[name], "val"), memory=GIB, limit=120)


def weights():
    """Weight files whose headers are wrong."""
    huge = [1 << 20, 1 << 14]

    def claim(header: bytes):
        return lambda path: path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))

    made = {
        "a view of stride 0 of 64 GiB .pth": lambda path: broken.pth(path, {"head.weight": (huge, [0, 0])}),
        "eight views of stride 0 of 8 GiB .pth": lambda path: broken.pth(
            path, {f"blocks.{number}.weight": ([1 << 15, 1 << 16], [0, 0]) for number in range(8)}),
        "a view of 64 GiB .pth": lambda path: broken.pth(path, {"head.weight": (huge, [1 << 14, 1])}),
        "a storage of 64 GiB .pth": lambda path: broken.pth(path, {"head.weight": (huge, [1 << 14, 1])}, claimed=1 << 34),
        "sizes whose product wraps .pth": lambda path: broken.pth(path, {"head.weight": ([1 << 33, 1 << 33], [0, 0])}),
        "a negative size .pth": lambda path: broken.pth(path, {"head.weight": ([-1, 4], [4, 1])}),
        "a pickle that is cut off .pth": lambda path: path.write_bytes(broken.pth(path, {"a": ([1], [1])}).read_bytes()[:90]),
        "an LFS pointer .safetensors": broken.pointer,
        "an LFS pointer .pth": broken.pointer,
        "a header of 2^63 bytes .safetensors": lambda path: path.write_bytes(b"\xff" * 7 + b"\x7f" + bytes(100)),
        "a tensor beyond the end .safetensors": claim(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,1000000]}}'),
        "offsets that run backwards .safetensors": claim(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}'),
        "a shape of 2^62 .safetensors": claim(b'{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}}'),
        "an unknown type .safetensors": claim(b'{"a":{"dtype":"F13","shape":[4],"data_offsets":[0,16]}}'),
        "no object .safetensors": claim(b"[1,2,3]"),
        "a deep header .safetensors": claim(b"[" * 100_000),
        "no tensor .safetensors": claim(b"{}"),
    }
    for name, make in made.items():
        path = "odd." + name.rsplit(".", 1)[1]

        def prepare(folder: Path, make=make, path=path) -> None:
            make(folder / path)

        fine = EITHER if name.startswith("no tensor") else ERROR
        yield Input(f"inspect {name}", ["weights", "inspect", path], fine, (path,), prepare=prepare)
        yield Input(f"start from {name}", [*TRAIN, "--set", f"init.weights={path}"], mentions=(path,), prepare=prepare,
                    check=absent("out/config.toml"))
    yield Input("inspect a right one .pth", ["weights", "inspect", "a.pth"], FINE,
                prepare=lambda folder: broken.pth(folder / "a.pth", {"a": ([2, 3], [3, 1]), "b": ([3, 2], [1, 3])}, 6) and None)
    yield Input("inspect a pointer", ["weights", "inspect", "odd.safetensors"], mentions=("LFS",),
                prepare=lambda folder: broken.pointer(folder / "odd.safetensors"))
    nan = ["--config", "config.toml", "--weights", "nan.safetensors"]
    yield Input("eval with NaN", ["eval", *nan], EITHER, prepare=nan_weights, check=no_nan)
    yield Input("eval with NaN as JSON", ["eval", *nan, "--json"], EITHER, prepare=nan_weights, check=no_nan)
    yield Input("predict with NaN", ["predict", *nan, "image.png"], EITHER, prepare=nan_weights, check=no_nan)
    yield Input("start from NaN", [*TRAIN, "--set", "init.weights=nan.safetensors"], prepare=nan_weights, mentions=("NaN", "nan"))
    yield Input("escape bytes in names", ["weights", "inspect", "esc.safetensors"], EITHER, prepare=escapes, check=no_escape)
    yield Input("escape bytes in unused names", [*TRAIN, "--set", "init.weights=esc.safetensors"], prepare=escapes, check=no_escape)
    yield Input("images of another type", ["logits", "--config", "config.toml", "--weights", "w.safetensors", "--input",
                "odd.safetensors", "--output", "o.safetensors"], EITHER,
                prepare=lambda folder: broken.safetensors(folder / "odd.safetensors", {"images": ("I64", [1, 3, 16, 16], bytes(6144))}) and None)
    for shape in ([2, 3, 16], [2, 1, 16, 16], [0, 3, 16, 16], [2, 3, 8, 8]):
        numbers = 4
        for size in shape:
            numbers *= size
        yield Input(f"images of shape {shape}", ["logits", "--config", "config.toml", "--weights", "w.safetensors", "--input",
                    "odd.safetensors", "--output", "o.safetensors"], EITHER if 0 in shape else ERROR,
                    prepare=lambda folder, shape=shape, numbers=numbers: broken.safetensors(
                        folder / "odd.safetensors", {"images": ("F32", shape, bytes(numbers))}) and None)


def data():
    """Folders of images that are not as they should be."""
    skip = sets(data__on_error="skip", data__max_skipped=100000)
    yield Input("every training image unreadable, skipped", [*PHOTOS, *skip], prepare=lambda folder: unreadable(folder, "train"),
                mentions=("photos", "unreadable", "read"))
    yield Input("every validation image unreadable, skipped", [*PHOTOS, *skip], prepare=lambda folder: unreadable(folder, "val"),
                mentions=("photos", "read"))
    yield Input("every training image empty", [*PHOTOS], prepare=lambda folder: unreadable(folder, "train", b""), mentions=(".png",))
    yield Input("links in a data set", ["data", "check", "photos"], REPORT, prepare=linked, check=says("dangling.png", "circular.png"))
    yield Input("training on links", [*PHOTOS, "--set", "train.max_steps=2"], mentions=("dangling.png", "circular.png", "up"), prepare=linked)
    yield Input("foreign formats", ["data", "check", "photos"], REPORT, prepare=foreign, check=says("gif"))
    yield Input("foreign formats, HEIC", ["data", "check", "photos"], REPORT, prepare=foreign, check=says("heic"))
    yield Input("names that are no UTF-8", [*PHOTOS, "--set", "train.max_steps=2"], EITHER, prepare=misnamed)
    yield Input("check of names that are no UTF-8", ["data", "check", "photos"], REPORT, prepare=misnamed)
    for name in (b"caf\xe9", b"a\nb", b"a\rb", b"\x1b[31m", b" ", b"a,b\"c"):
        shown = name.decode("latin-1").encode("unicode_escape").decode()
        yield Input(f"class {shown}", [*PHOTOS, "--set", "train.max_steps=2"], EITHER, prepare=rename_class(name))
        yield Input(f"check of class {shown}", ["data", "check", "photos"], REPORT, prepare=rename_class(name))
    yield Input("one class", [*PHOTOS, "--set", "train.max_steps=2"], EITHER, prepare=one_class, check=no_nan)
    yield Input("check of one class", ["data", "check", "photos"], REPORT, prepare=one_class, check=says("one class"))
    for what in ("train/circle/*", "val/circle/*"):
        yield Input(f"nothing in {what}", PHOTOS, prepare=emptied(what), mentions=("circle",))
    yield Input("a split less", PHOTOS, prepare=lambda folder: shutil.rmtree(own(folder, "photos") / "val"), mentions=("val",))
    yield Input("a class less", PHOTOS, prepare=lambda folder: shutil.rmtree(own(folder, "photos") / "val/circle"), mentions=("circle",))
    yield Input("eval on other classes", ["eval", "--run", "run", "--data", "photos/val"], mentions=("circle",),
                prepare=rename_class(b"other"))
    yield Input("classes too few", ["predict", "--run", "run", "image.png", "--classes", "two.txt"], mentions=("two.txt",),
                prepare=text("two.txt", "a\nb\n"))
    yield Input("a file in place of the generated set", TRAIN, mentions=("data/shapes",), prepare=no_set)
    yield Input("shapes made with other settings", [*TRAIN, "--set", "data.shapes.seed=9"], mentions=("shapes",))


def no_set(folder: Path) -> None:
    (folder / "data").unlink()
    (folder / "data").mkdir()
    (folder / "data/shapes").write_text("x")


def cases(context: Context, references):
    bed = Bed(context, references)
    every: dict[str, Case] = {}
    for wrong in itertools.chain(others(), paths()):
        assert wrong.name not in every, wrong.name
        every[wrong.name] = bed.case(wrong)
    # The cases above expect something more precise.
    for wrong in keys(context):
        every.setdefault(wrong.name, bed.case(wrong))
    every = list(every.values())
    # A thin slice goes through all of them in turn, another one for each seed.
    yield from every[context.seed % 12::12] if context.short else every
