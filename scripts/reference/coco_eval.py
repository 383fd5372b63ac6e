"""Golden numbers of average precision, by pycocotools.

Writes `crates/kvt-train/tests/golden/dense/coco_eval.json`: `cases`, name ->

  shapes    "boxes" or "masks": what is compared
  classes   how many
  truths    objects, each [image, class, [x, y, width, height], area, 1 for a crowd, mask]
  found     detections, each [image, class, [x, y, width, height], score, mask]
  stats     pycocotools' twelve numbers: AP, AP50, AP75, AP of small, medium and large objects, AR of 1, 10 and 100 detections,
            AR of small, medium and large objects; -1 where nothing counts
  ap        of each class, null where it has no objects

A mask is [height, width, text] with COCO's compressed runs, or null. Detections of masks have no box, so that pycocotools takes
the mask's area.
"""

import contextlib
import io
import json
from importlib.metadata import version

import numpy
from common import golden, provenance, wrote
from pycocotools import mask as coco
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

SEED, SETS, SIZE = 15, 40, (60, 80)
IMAGES = [5, 2, 9, 11]


def truth(image, kind, box, area=None, crowd=0, mask=None):
    return [image, kind, box, box[2] * box[3] if area is None else area, crowd, mask]


def found(image, kind, box, score, mask=None):
    return [image, kind, box, score, mask]


def hand_cases():
    yield "boxes", "boxes", 2, [
        truth(1, 0, [10, 10, 40, 40]), truth(1, 0, [100, 100, 20, 20]), truth(2, 0, [50, 50, 100, 100]),
        truth(2, 1, [0, 0, 50, 50]),
    ], [
        found(1, 0, [12, 10, 40, 40], 0.9), found(1, 0, [10, 10, 40, 30], 0.8), found(1, 0, [100, 100, 20, 16], 0.7),
        found(2, 0, [60, 50, 100, 100], 0.95), found(2, 0, [0, 0, 30, 30], 0.6), found(2, 1, [0, 5, 50, 50], 0.5),
    ]
    yield "crowd", "boxes", 1, [
        truth(1, 0, [0, 0, 100, 100], crowd=1), truth(1, 0, [10, 10, 30, 30]), truth(1, 0, [150, 150, 20, 20]),
    ], [
        found(1, 0, [10, 10, 30, 30], 0.9), found(1, 0, [50, 50, 40, 40], 0.9), found(1, 0, [60, 10, 30, 30], 0.8),
        found(1, 0, [150, 150, 20, 20], 0.3), found(1, 0, [150, 150, 20, 20], 0.3), found(2, 0, [0, 0, 10, 10], 0.85),
    ]
    whole, cut = (numpy.zeros((20, 30), bool) for _ in range(2))
    whole[4:14, 5:20] = cut[4:14, 8:20] = True
    cut[4, 8] = False
    for name, crowd in (("mask", 0), ("mask_crowd", 1)):
        others = [truth(8, 0, [0, 0, 30, 20], 600, 0, encoded(numpy.ones((20, 30), bool)))] if crowd else []
        right = [found(8, 0, [0, 0, 30, 20], 0.6, others[0][-1])] if crowd else []
        yield name, "masks", 1, [truth(7, 0, [5, 4, 15, 10], 150, crowd, encoded(whole)), *others], [
            found(7, 0, [8, 4, 12, 10], 0.7, encoded(cut)), *right]
    yield "free_class", "boxes", 2, [truth(1, 0, [10, 10, 40, 40])], [
        found(1, 1, [1, 1, 20, 20], 0.9), found(1, 0, [10, 10, 40, 40], 0.2)]
    yield "missed", "boxes", 1, [truth(1, 0, [10, 10, 40, 40]), truth(3, 0, [0, 0, 5, 5])], [
        found(2, 0, [10, 10, 40, 40], 0.5)]
    # Detections beyond the hundredth of an image and class do not count; the right one of the second image does.
    many = [found(1, 0, [place % 50, 0, 4, 4], (200 - place) / 256) for place in range(130)]
    yield "many", "boxes", 1, [truth(1, 0, [30, 20, 30, 30]), truth(2, 0, [0, 0, 30, 30])], [
        *many, found(1, 0, [30, 20, 30, 30], 0.01), found(2, 0, [0, 0, 30, 28], 0.001)]
    # An object that two detections fit equally, and a detection that fits two objects equally.
    yield "equal", "boxes", 1, [truth(1, 0, [0, 0, 20, 20]), truth(1, 0, [0, 0, 20, 20], area=5000)], [
        found(1, 0, [0, 0, 20, 16], 0.5), found(1, 0, [0, 0, 16, 20], 0.5), found(1, 0, [0, 4, 20, 16], 0.5)]


def encoded(mask):
    rle = coco.encode(numpy.asfortranarray(mask.astype(numpy.uint8)))
    return [*rle["size"], rle["counts"].decode()]


def ellipse(box):
    rows, columns = numpy.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    x, y, width, height = box
    return (2 * (columns - x) / width - 1) ** 2 + (2 * (rows - y) / height - 1) ** 2 < 1


def eighths(values):
    return [float(value) for value in numpy.round(numpy.asarray(values) * 8) / 8]


def random_case(number):
    random, masks, classes = numpy.random.default_rng(SEED + number), number % 3 == 2, 3
    scale = 0.5 if masks else 1.0
    shape = lambda box: encoded(ellipse(box)) if masks else None
    truths, detections = [], []
    for image in IMAGES:
        for _ in range(random.integers(0, 7)):
            box = eighths(scale * numpy.array([*random.integers(0, 100, 2), *random.choice([8, 20, 40, 100, 130], 2)]))
            area = float(numpy.round(box[2] * box[3] * random.choice([1, 0.7])))
            truths.append(truth(image, int(random.integers(classes)), box, area, int(random.random() < 0.15), shape(box)))
        for _ in range(random.integers(0, 14)):
            kind = int(random.integers(classes))
            if truths and random.random() < 0.8:
                near = truths[random.integers(len(truths))]
                box = eighths(numpy.array(near[2]) + scale * 3 * random.normal(size=4))
                box[2:] = [max(side, 1.0) for side in box[2:]]
                kind = near[1] if random.random() < 0.8 else kind
            else:
                box = eighths(scale * numpy.array([*random.uniform(0, 100, 2), *random.uniform(5, 130, 2)]))
            detections.append(found(image, kind, box, int(random.integers(11)) / 10, shape(box)))
    return f"random_{number}", "masks" if masks else "boxes", classes, truths, detections


def evaluate(shapes, classes, truths, detections):
    rle = lambda mask: dict(size=mask[:2], counts=mask[2])
    segment = lambda mask: {} if mask is None else {"segmentation": rle(mask)}
    dataset = COCO()
    images = sorted({item[0] for item in (*truths, *detections)})
    annotations = [
        dict(id=place + 1, image_id=image, category_id=kind + 1, bbox=box, area=area, iscrowd=crowd, **segment(mask))
        for place, (image, kind, box, area, crowd, mask) in enumerate(truths)]
    dataset.dataset = dict(
        images=[dict(id=image, width=300, height=300) for image in images],
        categories=[dict(id=kind + 1, name=str(kind)) for kind in range(classes)],
        annotations=annotations,
        info={})
    results = [dict(image_id=image, category_id=kind + 1, score=score, **(segment(mask) or dict(bbox=box)))
               for image, kind, box, score, mask in detections]
    with contextlib.redirect_stdout(io.StringIO()):
        dataset.createIndex()
        evaluation = COCOeval(dataset, dataset.loadRes(results), {"boxes": "bbox", "masks": "segm"}[shapes])
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, 2]
    of_class = [precision[:, :, kind] for kind in range(classes)]
    ap = [float(part[part > -1].mean()) if (part > -1).any() else None for part in of_class]
    return dict(shapes=shapes, classes=classes, truths=truths, found=detections,
                stats=[float(value) for value in evaluation.stats], ap=ap)


def main():
    cases = {}
    for name, *case in (*hand_cases(), *(random_case(number) for number in range(SETS))):
        if case[2] and case[3]:
            cases[name] = evaluate(*case)
            if not name.startswith("random"):
                print(name, [round(value, 6) for value in cases[name]["stats"]])
    about = json.dumps(provenance(SEED) | {"pycocotools": version("pycocotools")})
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
    path = golden("kvt-train") / "dense" / "coco_eval.json"
    path.write_text(f'{{\n "provenance": {about},\n "cases": {{\n{lines}\n }}\n}}\n')
    print(len(cases), "cases, means", numpy.mean([case["stats"] for case in cases.values()], 0).round(2).tolist())
    wrote(path)


if __name__ == "__main__":
    main()
