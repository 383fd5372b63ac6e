"""Golden run-length encoded masks, by pycocotools.

Writes `crates/kvt-data/tests/golden/dense/coco_rle.json`. `masks`: `size` [height, width], `rows` (the pixels row by row, four in
a hexadecimal digit, the first in its highest bit), `text` (the compressed form), `area`, `box` [x, y, width, height]. `runs`: the
same of large masks, which are given as `counts`.
"""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy
from pycocotools import mask as coco

SEED = 5
OUT = Path(__file__).resolve().parents[2] / "crates/kvt-data/tests/golden/dense/coco_rle.json"


def described(rle):
    box = coco.toBbox(rle)
    assert (box == box.round()).all()
    return dict(
        size=[int(side) for side in rle["size"]],
        text=rle["counts"].decode(),
        area=int(coco.area(rle)),
        box=[int(side) for side in box],
    )


def mask_case(mask):
    bits = mask.astype(numpy.uint8).ravel()
    digits = numpy.pad(bits, (0, -len(bits) % 4)).reshape(-1, 4) @ numpy.array([8, 4, 2, 1])
    rows = "".join(f"{digit:x}" for digit in digits)
    return dict(rows=rows, **described(coco.encode(numpy.asfortranarray(mask.astype(numpy.uint8)))))


def masks(random):
    yield numpy.zeros((3, 5), bool)
    yield numpy.ones((3, 5), bool)
    yield numpy.eye(7, dtype=bool)
    for corner in [(0, 0), (0, -1), (-1, 0), (-1, -1)]:
        mask = numpy.zeros((4, 6), bool)
        mask[corner] = True
        yield mask
    for height, width in [(1, 1), (1, 40), (40, 1)]:
        yield random.random((height, width)) < 0.5
    # A whole column, and a run over the end of a column.
    mask = numpy.zeros((6, 4), bool)
    mask[:, 2] = True
    yield mask
    mask = numpy.zeros((6, 4), bool)
    mask[4:, 1] = mask[:3, 2] = True
    yield mask
    for density in [0.02, 0.1, 0.5, 0.9, 0.98]:
        for _ in range(5):
            height, width = random.integers(2, 40, 2)
            yield random.random((height, width)) < density
    for _ in range(25):
        height, width = random.integers(10, 60, 2)
        y, x = numpy.mgrid[:height, :width]
        mask = numpy.zeros((height, width), bool)
        for _ in range(random.integers(1, 4)):
            cy, cx = random.uniform(0, height), random.uniform(0, width)
            ry, rx = random.uniform(1, height / 2), random.uniform(1, width / 2)
            mask ^= ((y - cy) / ry) ** 2 + ((x - cx) / rx) ** 2 < 1
        yield mask


def runs(random):
    """Runs that need up to seven groups of bits, growing and shrinking."""
    for size in [(100, 100), (480, 640), (3000, 2000), (40000, 50000), (65535, 65537)]:
        for count in [1, 2, 5, 12]:
            left, counts = size[0] * size[1], []
            for _ in range(count - 1):
                counts.append(int(1 + (left - 1) * random.random() ** 6))
                left -= counts[-1]
            counts.append(left)
            yield size, counts


def main():
    random = numpy.random.default_rng(SEED)
    value = dict(
        provenance=dict(
            script=f"scripts/reference/{Path(__file__).name}",
            seed=str(SEED),
            python=platform.python_version(),
            numpy=numpy.__version__,
            pycocotools=version("pycocotools"),
        ),
        masks=[mask_case(mask) for mask in masks(random)],
        runs=[
            dict(counts=counts, **described(coco.frPyObjects(dict(size=list(size), counts=counts), *size)))
            for size, counts in runs(random)
        ],
    )
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(value, indent=1) + "\n")
    print(f"{OUT.name}  {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
