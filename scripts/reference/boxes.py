"""Golden numbers of boxes: mmdet's coder, anchors and assigner, torchvision's suppression of boxes that overlap.

Writes `crates/kvt-models/tests/golden/dense/boxes.json`:

  coder    {stds, image: [height, width] or null, priors, targets, encoded, deltas, decoded}: `encoded` is of the targets,
           `decoded` of the deltas, clipped to the image
  anchors  of images of 64 x 96 and 70 x 45 (maps of whole cells), by level: {image, stride, size: [height, width], count,
           places, boxes}, the boxes at some places, all at small levels
  assign   {positive, negative, min_positive, boxes, objects, assigned}: the number of the object from 1, 0 background,
           -1 neither
  nms      {boxes, scores, classes or null, iou, kept}: places of the boxes that are kept, best first

Boxes are x1, y1, x2, y2. IoUs are no nearer than 1e-4 to a threshold, but where they are equal to 0.5 exactly. In f32; the
suppression in f64, whose classes are moved apart there without a loss.
"""

import mm
import torch
import torchvision
from common import golden, save_json
from mmdet.models.task_modules import AnchorGenerator, DeltaXYWHBBoxCoder, MaxIoUAssigner
from mmengine.structures import InstanceData
from torchvision.ops import box_iou

SEED, MARGIN, STRIDES = 14, 1e-4, [4, 8, 16, 32, 64]
RULES = {"rpn": (0.7, 0.3, 0.3), "roi": (0.5, 0.5, 0.5)}
FIXED_BOXES = [[0, 0, 10, 10], [0, 0, 10, 8], [0, 0, 10, 5], [20, 20, 30, 30], [20, 20, 30, 29], [40, 40, 50, 50],
               [0, 5, 10, 15], [60, 60, 64, 64]]
FIXED_OBJECTS = [[0, 0, 10, 10], [21, 21, 31, 31], [40, 40, 47, 47], [60, 60, 80, 80]]
FIXED_NMS = [[0, 0, 10, 10], [0, 0, 10, 5], [1, 0, 11, 10], [0, 0, 10, 10], [5, 5, 15, 15]]


def draw(count, generator, side=64, whole=True):
    low = side * torch.rand(count, 2, generator=generator)
    boxes = torch.cat([low, low + 2 + 0.6 * side * torch.rand(count, 2, generator=generator)], 1)
    return boxes.round() if whole else (boxes * 8).round() / 8


def is_open(ious, thresholds):
    """Whether an IoU is near a threshold, but not equal to one of 0.5."""
    return any(((ious - t).abs() < MARGIN).logical_and((t != 0.5) | (ious != t)).any() for t in thresholds)


def coder_cases(generator):
    fixed = torch.tensor([[10.0, 20, 50, 100]]), torch.tensor([[14.0, 16, 54, 116]]), torch.tensor([[0.0, 0, 100, -100]])
    for stds in ([1.0] * 4, [0.1, 0.1, 0.2, 0.2]):
        for image in ((90, 60), None):
            priors, targets = (draw(8, generator, whole=False) for _ in range(2))
            deltas = (64 * torch.randn(8, 4, generator=generator) / torch.tensor(stds)).round() / 64
            deltas[:2, 2:] *= 8  # beyond the limit
            yield stds, image, *(torch.cat(pair) for pair in zip(fixed, (priors, targets, deltas)))


def coded(stds, image, priors, targets, deltas):
    coder = DeltaXYWHBBoxCoder(target_means=[0.0] * 4, target_stds=stds)
    encoded, decoded = coder.encode(priors, targets), coder.decode(priors, deltas, max_shape=image)
    lists = dict(priors=priors, targets=targets, encoded=encoded, deltas=deltas, decoded=decoded)
    return dict(stds=stds, image=image, **{name: value.tolist() for name, value in lists.items()})


def anchors(image):
    sizes = [(-(-image[0] // 4), -(-image[1] // 4))]
    while len(sizes) < len(STRIDES):
        sizes.append(tuple(-(-side // 2) for side in sizes[-1]))
    generator = AnchorGenerator(scales=[8], ratios=[0.5, 1.0, 2.0], strides=STRIDES)
    for stride, size, boxes in zip(STRIDES, sizes, generator.grid_priors(sizes, device="cpu")):
        places = sorted({*range(0, len(boxes), 1 if len(boxes) < 30 else 31), *range(min(9, len(boxes))), len(boxes) - 1})
        yield dict(image=image, stride=stride, size=size, count=len(boxes), places=places, boxes=boxes[places].tolist())


def assigned(rule, boxes, objects):
    positive, negative, lowest = RULES[rule]
    assigner = MaxIoUAssigner(pos_iou_thr=positive, neg_iou_thr=negative, min_pos_iou=lowest, match_low_quality=True,
                              ignore_iof_thr=-1)
    found = assigner.assign(InstanceData(priors=boxes),
                            InstanceData(bboxes=objects, labels=torch.zeros(len(objects), dtype=torch.long)))
    return dict(positive=positive, negative=negative, min_positive=lowest, boxes=boxes.tolist(), objects=objects.tolist(),
                assigned=found.gt_inds.tolist())


def assign_cases(generator):
    boxes, objects = torch.tensor(FIXED_BOXES).float(), torch.tensor(FIXED_OBJECTS).float()
    for rule, (positive, negative, _) in RULES.items():
        yield assigned(rule, boxes, objects)
        yield assigned(rule, boxes, torch.zeros(0, 4))
        wanted = 6
        while wanted:
            objects = draw(wanted % 5 + 1, generator)
            near = objects[torch.randint(0, len(objects), (20,), generator=generator)]
            near = near + torch.randint(-4, 5, near.shape, generator=generator)
            near = near[(near[:, 2:] > near[:, :2]).all(1)]
            boxes = torch.cat([draw(10, generator), near])
            if not is_open(box_iou(objects, boxes), (positive, negative)):
                yield assigned(rule, boxes, objects)
                wanted -= 1


def kept(boxes, scores, classes, iou):
    wide = boxes.double(), scores.double()
    if classes is None:
        places = torchvision.ops.nms(*wide, iou)
    else:
        places = torchvision.ops.batched_nms(*wide, classes, iou)
    return dict(boxes=boxes.tolist(), scores=scores.tolist(), classes=None if classes is None else classes.tolist(), iou=iou,
                kept=places.tolist())


def nms_cases(generator):
    boxes, scores = torch.tensor(FIXED_NMS).float(), torch.tensor([0.9, 0.8, 0.7, 0.9, 0.6])
    yield kept(boxes, scores, None, 0.5)
    yield kept(boxes, scores, None, 0.49)
    yield kept(boxes, scores, torch.tensor([0, 1, 0, 1, 0]), 0.5)
    yield kept(boxes[:0], scores[:0], None, 0.5)
    wanted = 9
    while wanted:
        iou, classes = (0.7, 0.5)[wanted % 2], torch.randint(0, 3, (30,), generator=generator)
        centres = draw(8, generator, side=40, whole=False)[torch.randint(0, 8, (30,), generator=generator)]
        boxes = centres + torch.randint(-10, 11, centres.shape, generator=generator) / 8
        # A few steps only: equal scores, whose first box is the better one.
        scores = torch.randint(0, 12 if wanted % 3 == 0 else 1024, (30,), generator=generator) / 1024
        if not is_open(box_iou(boxes.double(), boxes.double()), (iou,)):
            yield kept(boxes, scores, classes if wanted % 4 < 2 else None, iou)
            wanted -= 1


def main():
    generator = torch.Generator().manual_seed(SEED)
    value = {
        "mm": mm.detection_versions(),
        "coder": [coded(*case) for case in coder_cases(generator)],
        "anchors": [level for image in ((64, 96), (70, 45)) for level in anchors(image)],
        "assign": list(assign_cases(generator)),
        "nms": list(nms_cases(generator)),
    }
    print([case["assigned"] for case in value["assign"][:2]], [case["kept"] for case in value["nms"][:3]])
    save_json(golden("kvt-models") / "dense" / "boxes.json", value, SEED)


if __name__ == "__main__":
    main()
