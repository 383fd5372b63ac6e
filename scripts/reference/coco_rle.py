"""Golden run-length encoded masks, by pycocotools.

Writes `crates/kvt-data/tests/golden/dense/coco_rle.json`. `masks`: `size` [height, width], `rows` (the pixels row by row, four in
a hexadecimal digit, the first in its highest bit), `text` (the compressed form), `area`, `box` [x, y, width, height]. `runs`: the
same of large masks, which are given as `counts`. `objects`: objects of one or more polygons, with the `text` of each part alone,
and `text`, `area` and `box` of their union. `overlaps`: intersection over union of pairs of objects (by their places) of one size, where
the second one is no crowd, and where it is.
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
    assert (box == box.round()).all() and box[0] + box[2] <= rle["size"][1]
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
    """Runs that need up to six groups of bits, growing and shrinking: pycocotools reads no negative number of seven."""
    for size in [(100, 100), (480, 640), (3000, 2000), (20000, 20000)]:
        for count in [1, 2, 5, 12]:
            left, counts = size[0] * size[1], []
            for _ in range(count - 1):
                counts.append(int(1 + (left - 1) * random.random() ** 6))
                left -= counts[-1]
            counts.append(left)
            yield size, counts


def polygon(random, height, width):
    """Corners in hundredths of a pixel, as COCO has them, or less exact; some outside of the image."""
    kind = random.integers(6)
    count = int(random.integers(3, 12))
    if kind == 0:  # Anywhere, also crossing itself, partly outside.
        points = random.uniform(-0.5, 1.5, (count, 2)) * [width, height]
    elif kind == 1:  # Whole pixels and halves, so that edges meet the middles of pixels.
        points = random.integers(-4, 2 * max(height, width) + 4, (count, 2)) / 2
    elif kind == 2:  # A line there and back, without an area.
        ends = random.uniform(0, 1, (2, 2)) * [width, height]
        points = numpy.array([ends[0], ends.mean(0), ends[1], ends[0]])
    elif kind == 3:  # Wholly outside, at negative coordinates or beyond the image.
        points = random.uniform(0, 1, (count, 2)) * 10 + [[-15, -15], [width + 2, height + 2]][random.integers(2)]
    else:  # A convex blob, as objects are.
        angles = numpy.sort(random.uniform(0, 2 * numpy.pi, count))
        circle = numpy.stack([numpy.cos(angles), numpy.sin(angles)], 1)
        points = random.uniform(0, 1, 2) * [width, height] + circle * random.uniform(1, max(height, width) / 2, 2)
    return [float(value) for value in points.round(int(random.integers(1, 3))).ravel()]


def objects(random):
    size, found = (1, 1), []
    for number in range(240):
        if number % 4 == 0:
            size = [int(side) for side in random.integers(1, 60, 2)]
        parts = [polygon(random, *size) for _ in range(random.choice([1, 1, 1, 2, 3]))]
        if number % 7 == 0:  # A corner twice: an edge without length.
            parts[0] = parts[0][:2] + parts[0]
        if min(parts[0]) < 0 and number % 7 == 0:
            # C divides 0 by 0 there, which shows at negative coordinates.
            parts[0] = parts[0][2:]
        found.append((size, parts))
    # An edge along the border, the whole image, and the fifths that a float of 32 bits misses.
    found.append(([5, 7], [[0, 0, 7, 0, 7, 5, 0, 5]]))
    found.append(([40, 60], [[10.1, 10.3, 50.7, 10.3, 50.7, 30.9, 10.1, 30.9]]))
    rles = [coco.frPyObjects(parts, *size) for size, parts in found]
    merged = [coco.merge(parts) for parts in rles]
    cases = [
        dict(polygons=parts, parts=[rle["counts"].decode() for rle in own], **described(whole))
        for (_, parts), own, whole in zip(found, rles, merged)
    ]
    overlaps = []
    for a in range(0, 240, 4):
        for b in range(a + 1, a + 4):
            plain, crowd = (float(coco.iou([merged[a]], [merged[b]], [flag])[0, 0]) for flag in (0, 1))
            overlaps.append([a, b, plain, crowd])
    return cases, overlaps


def main():
    random = numpy.random.default_rng(SEED)
    # Drawn by generators of their own, so that the other cases stay.
    cases, overlaps = objects(numpy.random.default_rng(SEED + 1))
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
        objects=cases,
        overlaps=overlaps,
    )
    OUT.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({key: value[key] for key in ["provenance", "masks", "runs"]}, indent=1)
    lines = lambda key: ",\n".join("  " + json.dumps(entry) for entry in value[key])
    rest = "".join(f',\n "{key}": [\n{lines(key)}\n ]' for key in ["objects", "overlaps"])
    OUT.write_text(text[: -len("\n}")] + rest + "\n}\n")
    print(f"{OUT.name}  {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
