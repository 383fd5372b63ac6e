"""Whether the comparison notices damage: a finished run is damaged in each of the ways that it looks for."""

import json
import shutil
from collections import Counter
from pathlib import Path

import record
from common import Case, Context, Failure


def flip(run: Path, name: str) -> None:
    path = record.pointer(run, "last") / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def lines(run: Path, change) -> None:
    path = run / "log.jsonl"
    texts = path.read_text().splitlines(keepends=True)
    at = next(index for index, text in enumerate(texts) if '"kind":"step","step":9,' in text)
    change(texts, at)
    path.write_text("".join(texts))


def other_loss(texts: list[str], at: int) -> None:
    event = json.loads(texts[at])
    event["loss"] += 1e-12
    texts[at] = json.dumps(event, separators=(",", ":")) + "\n"


def doubled_points(run: Path) -> None:
    (path,) = (run / "tensorboard").iterdir()
    shutil.copy(path, path.with_name(path.name + "0"))


def other_row(run: Path) -> None:
    path = run / "epochs.csv"
    rows = path.read_text().splitlines(keepends=True)
    path.write_text("".join(rows[:-1]))


SPOILT = {
    "a bit of the weights": lambda run: flip(run, "model.safetensors"),
    "a bit of the moments": lambda run: flip(run, "optimizer.safetensors"),
    "a bit of the average": lambda run: flip(run, "ema.safetensors"),
    "a lost step": lambda run: lines(run, lambda texts, at: texts.pop(at)),
    "a doubled step": lambda run: lines(run, lambda texts, at: texts.insert(at, texts[at])),
    "another loss": lambda run: lines(run, other_loss),
    "a lost epoch": other_row,
    "doubled points": doubled_points,
    "a left-over file": lambda run: (run / ".kvt-tmp-x").write_text(""),
    "a left-over folder": lambda run: (run / "checkpoints/.step-00000001.tmp-1").mkdir(),
    "no last checkpoint": lambda run: (run / "checkpoints/last").unlink(),
}


def cases(context: Context, references):
    import kill

    for name, spoil in SPOILT.items():
        def work(folder: Path, random, spoil=spoil) -> Counter:
            expected, _ = references.get("ema")
            shutil.copytree(context.work / "reference-ema" / "run", folder / "run")
            kill.compare(expected, folder)
            spoil(folder / "run")
            try:
                kill.compare(expected, folder)
            except Failure:
                return Counter()
            raise Failure("the comparison does not notice")

        yield Case(f"noticed/{name}", work)
