"""Golden mixing: timm's Mixup and FastCollateMixup, with what they drew.

Writes `crates/kvt-train/tests/golden/mix.safetensors`:

  pixels [6,3,9,7] uint8, labels [6] int64      the batch; normalised with `mean` and `std` it is what Mixup gets
  float_<case>.draws, .images, .targets         Mixup on normalised images
  pixel_<case>.draws, .images, .targets         FastCollateMixup on `pixels`, then normalised as PrefetchLoader does
  boxes [n,9]                                   height, width, lam, centre row and column of timm's rand_bbox, and its box:
                                                top, left, bottom, right
  converted [6,3,9,7]                           the normalised batch for a teacher with mean and std 0.5
  resized_small [2,3,5,5], resized_large [2,3,12,12]   the first two, as `interpolate(mode="bilinear")` resizes them

A row of `draws` is (kind, own, top, left, height, width): kind 0 keeps the image, 1 is mixup with the weight `own`, 2 is
CutMix with the rectangle. One row per image, or one for all with mode batch. Targets: 5 classes, smoothing 0.1.
"""

import numpy as np
import timm.data.mixup as mixup
import torch

from common import golden, save

SEED = 11
IMAGES, HEIGHT, WIDTH, CLASSES = 6, 9, 7, 5
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BOTH = dict(mixup_alpha=0.8, cutmix_alpha=1.0)
CASES = {
    "batch_mixup": dict(mode="batch", mixup_alpha=0.8),
    "batch_cutmix": dict(mode="batch", cutmix_alpha=1.0, mixup_alpha=0.0),
    "batch_minmax": dict(mode="batch", cutmix_minmax=(0.2, 0.8), mixup_alpha=0.0),
    "pair_both": dict(mode="pair", prob=0.8, **BOTH),
    "elem_both": dict(mode="elem", prob=0.8, **BOTH),
    "elem_minmax": dict(mode="elem", cutmix_minmax=(0.2, 0.8), **BOTH),
    "batch_half": dict(mode="batch", mixup_alpha=0.8, half=True),
}


def recorded(base, half=False, **options):
    """A mixer of timm's, and what it draws: (lam, cutmix) per batch or element, then the boxes in their order."""

    class Recorder(base):
        def _params_per_batch(self):
            lam, use = super()._params_per_batch()
            lam = 0.5 if half else lam
            self.params = [(lam, use)]
            return lam, use

        def _params_per_elem(self, count):
            lam, use = super()._params_per_elem(count)
            self.params = list(zip(lam.tolist(), use.tolist()))
            return lam, use

    return Recorder(num_classes=CLASSES, label_smoothing=0.1, **options)


def run(mixer, call):
    boxes = []
    original = mixup.cutmix_bbox_and_lam

    def spy(*args, **kwargs):
        box, lam = original(*args, **kwargs)
        boxes.append(box)
        return box, lam

    mixup.cutmix_bbox_and_lam = spy
    try:
        images, targets = call()
    finally:
        mixup.cutmix_bbox_and_lam = original
    boxes = iter(boxes)
    rows = []
    for lam, cutmix in mixer.params:
        if lam == 1:
            rows.append((0, 1, 0, 0, 0, 0))
        elif cutmix:
            top, bottom, left, right = (int(side) for side in next(boxes))
            rows.append((2, 1, top, left, bottom - top, right - left))
        else:
            rows.append((1, lam, 0, 0, 0, 0))
    assert next(boxes, None) is None
    if mixer.mode == "pair":
        rows += rows[::-1]
    return torch.tensor(rows, dtype=torch.float64), images, targets


def box_table(generator):
    rows = []
    for height, width in ((9, 7), (32, 32), (224, 224)):
        for _ in range(20):
            lam = generator.integers(0, 128) / 128
            centre = [int(generator.integers(0, side)) for side in (height, width)]
            draws = iter(centre)
            original, np.random.randint = np.random.randint, lambda *args, **kwargs: next(draws)
            try:
                top, bottom, left, right = mixup.rand_bbox((3, height, width), lam)
            finally:
                np.random.randint = original
            rows.append([height, width, lam, *centre, top, left, bottom, right])
    return torch.tensor(np.array(rows, dtype=np.float64))


def main():
    np.random.seed(SEED)
    generator = np.random.default_rng(SEED)
    pixels = generator.integers(0, 256, (IMAGES, 3, HEIGHT, WIDTH), dtype=np.uint8)
    labels = torch.tensor([4, 0, 2, 2, 1, 3])
    channels = lambda values: torch.tensor(values).reshape(1, 3, 1, 1)
    normal = (torch.from_numpy(pixels) / 255 - channels(MEAN)) / channels(STD)
    tensors = {"pixels": torch.from_numpy(pixels), "labels": labels, "boxes": box_table(generator)}
    kinds = set()
    for name, options in CASES.items():
        mixer = recorded(mixup.Mixup, **options)
        draws, images, targets = run(mixer, lambda: mixer(normal.clone(), labels))
        tensors |= {f"float_{name}.draws": draws, f"float_{name}.images": images, f"float_{name}.targets": targets}
        kinds |= {(name, int(kind)) for kind in draws[:, 0]}

        mixer = recorded(mixup.FastCollateMixup, **options)
        batch = [(image.copy(), int(label)) for image, label in zip(pixels, labels)]
        draws, images, targets = run(mixer, lambda: mixer(batch))
        assert images.dtype == torch.uint8
        mean, std = (torch.tensor([x * 255 for x in v]).reshape(1, 3, 1, 1) for v in (MEAN, STD))
        images = images.float().sub(mean).div(std)
        tensors |= {f"pixel_{name}.draws": draws, f"pixel_{name}.images": images, f"pixel_{name}.targets": targets}
    converted = (normal * channels(STD) + channels(MEAN) - 0.5) / 0.5
    tensors["converted"] = converted
    for name, side in (("small", 5), ("large", 12)):
        tensors[f"resized_{name}"] = torch.nn.functional.interpolate(converted, (side, side), mode="bilinear")[:2]
    assert {kind for _, kind in kinds} == {0, 1, 2}, kinds
    save(golden("kvt-train") / "mix.safetensors", tensors, dict(mean=MEAN, std=STD, cases=list(CASES)), SEED)


if __name__ == "__main__":
    main()
