"""pycocotools' twelve numbers of detections, as JSON, to compare with `kvt eval --json`.

    python coco_check.py instances_val.json detections.json

The first file has COCO's annotations, the second a list of detections in COCO's format of results: image_id, category_id,
score, bbox and, for masks, segmentation (runs, also uncompressed ones). Masks count by their own area, not by that of their
boxes. Prints {"boxes": {name: number}, "masks": {..}}, each number between 0 and 1, null where nothing counts; masks only where
every detection has one.
"""

import argparse
import contextlib
import io
import json
from importlib.metadata import version

from pycocotools import mask as coco
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

NAMES = ["ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar1", "ar10", "ar100", "ar_small", "ar_medium", "ar_large"]


def numbers(truth, results, kind):
    if not results:
        return dict.fromkeys(NAMES, 0.0)  # pycocotools takes no empty list
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = COCOeval(truth, truth.loadRes(results), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return {name: None if value < 0 else float(value) for name, value in zip(NAMES, evaluation.stats, strict=True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("annotations")
    parser.add_argument("detections")
    paths = parser.parse_args()
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(paths.annotations)
    if any(annotation["id"] == 0 for annotation in truth.dataset["annotations"]):
        parser.error("an annotation has the id 0, which pycocotools takes for none")
    with open(paths.detections) as file:
        results = json.load(file)
    for one in results:
        runs = one.get("segmentation", {})
        if isinstance(runs.get("counts"), list):  # pycocotools compresses those of annotations only
            one["segmentation"] = coco.frPyObjects(runs, *runs["size"])
    without = lambda key: [{name: value for name, value in one.items() if name != key} for one in results]
    found = {"boxes": numbers(truth, without("segmentation"), "bbox")}
    if all("segmentation" in one for one in results):
        found["masks"] = numbers(truth, without("bbox"), "segm")
    print(json.dumps({"pycocotools": version("pycocotools"), "detections": len(results), **found}, indent=1))


if __name__ == "__main__":
    main()
