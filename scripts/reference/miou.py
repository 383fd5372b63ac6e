"""Golden numbers of the metrics of segmentation: mmsegmentation's IoUMetric.

Writes `crates/kvt-train/tests/golden/dense/miou.json`: `cases`, name ->

  classes, ignore         numbers of the labels
  images                  a list of {prediction, label}, each as rows
  intersection, union, predicted, labelled
                          pixels of each class, of all images
  iou, acc                of each class, in percent; null where there is nothing to divide by
  miou, macc, aacc        in percent
"""

import math

import mm
import torch
from common import golden, save_json
from mmseg.evaluation.metrics import IoUMetric

SEED, IGNORED = 31, 255


def draw(generator, size, classes, labels, predicted):
    """Predictions that are right for about two pixels of three."""
    pick = lambda choices: torch.tensor(choices)[torch.randint(0, len(choices), size, generator=generator)]
    label, prediction = pick(labels), pick(predicted)
    right = (torch.rand(size, generator=generator) < 0.6) & torch.isin(label, torch.tensor(predicted))
    prediction = torch.where(right, label, prediction)
    label[torch.rand(size, generator=generator) < 0.15] = IGNORED
    return prediction, label


def cases():
    generator = torch.Generator().manual_seed(SEED)
    worked = (torch.tensor([[0, 0, 1, 1], [0, 2, 2, 1], [0, 2, 2, 2]]),
              torch.tensor([[0, 0, 0, 1], [0, 1, 2, 1], [255, 2, 2, 255]]))
    everything = list(range(5))
    return {
        "worked": (4, [worked]),  # nothing of class 3
        "random": (5, [draw(generator, (9, 12), 5, everything, everything)]),
        "absent": (5, [draw(generator, (7, 6), 5, [0, 1, 4], [0, 1, 4])]),
        "predicted_only": (5, [draw(generator, (7, 6), 5, [0, 1], [0, 1, 3])]),
        "labelled_only": (5, [draw(generator, (7, 6), 5, [0, 1, 2], [0, 1])]),
        "several": (5, [draw(generator, size, 5, labels, everything)
                        for size, labels in (((5, 8), [0, 1]), ((11, 3), [2, 3]), ((4, 4), [0, 3, 4]))]),
        "ignored_image": (3, [draw(generator, (6, 6), 3, [0, 1, 2], [0, 1, 2]),
                              (torch.zeros(3, 5, dtype=torch.int64), torch.full((3, 5), IGNORED))]),
    }


def record(classes, images):
    areas = [IoUMetric.intersect_and_union(prediction, label, classes, IGNORED) for prediction, label in images]
    intersection, union, predicted, labelled = (sum(part).double() for part in zip(*areas))
    metrics = IoUMetric.total_area_to_metrics(intersection, union, predicted, labelled, metrics=["mIoU"])
    percent = lambda values: [None if math.isnan(x) else 100 * x for x in values.tolist()]
    mean = lambda values: torch.tensor([x for x in values if x is not None], dtype=torch.float64).mean().item()
    iou, acc = (percent(torch.as_tensor(metrics[name])) for name in ("IoU", "Acc"))
    count = lambda values: [int(x) for x in values.tolist()]
    return {
        "classes": classes, "ignore": IGNORED,
        "images": [{"prediction": p.tolist(), "label": l.tolist()} for p, l in images],
        "intersection": count(intersection), "union": count(union), "predicted": count(predicted),
        "labelled": count(labelled), "iou": iou, "acc": acc, "miou": mean(iou), "macc": mean(acc),
        "aacc": 100 * float(metrics["aAcc"]),
    }


if __name__ == "__main__":
    found = {name: record(*case) for name, case in cases().items()}
    for name, case in found.items():
        print(name, [round(case[metric], 3) for metric in ("miou", "macc", "aacc")], case["iou"])
    save_json(golden("kvt-train") / "dense" / "miou.json", {"mm": mm.VERSIONS, "cases": found}, SEED)
