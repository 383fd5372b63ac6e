"""Golden results of the augmentation of images with label maps: mmcv's and mmsegmentation's transforms, with given draws.

Writes to `crates/kvt-data/tests/golden/dense/`:

  joint_augment.safetensors, all uint8, images as (rows, columns, RGB)
    image [37,53,3], label [37,53]      what all start from; 255 is ignored
    resize.<HxW>.{image,label}          bilinear without antialiasing, by OpenCV: its weights have 11 bits, so that exact
                                        ones are up to 1 away; nearest, exact
    flip.{image,label}                  left to right
    crop.{image,label}                  of `config.crop`: top, bottom, left, right
    photometric.<case>                  `config.photometric`: case -> [[step, draw], ...] in their order; brightness is added,
                                        contrast and saturation are factors, hue is added to half of the angle
    chain.{image,label}                 resized to `config.chain.size`, cropped, flipped; the label padded with 255 to
                                        `config.chain.pad`

  joint_augment.json
    sizes   {size: [h, w], scale: [long, short], ratio, result: [h, w]}: the size after resizing by this ratio
    crops   {label: rows, crop: [h, w], cat_max_ratio, offsets: [[top, left], ...], box: [top, bottom, left, right]}: of the
            offsets, as they are drawn, the first that is good enough counts, else the eleventh
"""

from unittest import mock

import cv2
import mm
import mmcv
import numpy
import torch
from common import golden, save, save_json
from mmseg.datasets.transforms import PhotoMetricDistortion, RandomCrop
from mmseg.datasets.transforms import transforms as mm_transforms

SEED, IGNORED = 41, 255
SIZES = [(20, 31), (64, 100), (37, 53), (74, 106), (30, 43)]
CROP = [5, 25, 11, 41]
PHOTOMETRIC = {
    "brighter": [["brightness", 25.3]],
    "darker": [["brightness", -31.7]],
    "more_contrast": [["contrast", 1.37]],
    "less_contrast": [["contrast", 0.52]],
    "saturated": [["saturation", 1.44]],
    "pale": [["saturation", 0.61]],
    "hue_up": [["hue", 17]],
    "hue_down": [["hue", -18]],
    "contrast_first": [["brightness", 12.5], ["contrast", 1.2], ["saturation", 0.8], ["hue", 7]],
    "contrast_last": [["brightness", -9.25], ["saturation", 1.3], ["hue", -11], ["contrast", 0.7]],
}
CHAIN = dict(size=[30, 43], crop=[0, 30, 6, 38], flip=True, pad=[32, 32])


class Draws:
    """Stands for numpy's `random`: gives these values."""

    def __init__(self, values):
        self.values = list(values)

    def randint(self, *_):
        return self.values.pop(0)

    uniform = randint


def start(generator):
    """A picture of smooth colours with some noise, and regions of five classes."""
    rows, columns = numpy.mgrid[0:37, 0:53]
    waves = [numpy.sin(rows / a + c) + numpy.cos(columns / b - c) for a, b, c in ((4, 9, 0), (7, 5, 1), (11, 6, 2))]
    image = 127 + 55 * numpy.stack(waves, -1) + generator.normal(0, 12, (37, 53, 3))
    label = ((rows // 9 + columns // 11) % 5).astype(numpy.uint8)
    label[generator.random((37, 53)) < 0.05] = IGNORED
    return image.clip(0, 255).astype(numpy.uint8), label


def distort(image, steps):
    """mmsegmentation's distortion with these steps. It knows images as BGR."""
    given, names = dict(steps), [step for step, _ in steps]
    draws = lambda step: [1, given[step]] if step in given else [0]
    first = "contrast" in given and ("saturation" not in given or names.index("contrast") < names.index("saturation"))
    contrast = draws("contrast")
    values = [*draws("brightness"), int(first), *(contrast if first else []), *draws("saturation"), *draws("hue"),
              *([] if first else contrast)]
    drawn = Draws(values)
    with mock.patch.object(mm_transforms, "random", drawn):
        found = PhotoMetricDistortion().transform({"img": image[..., ::-1].copy()})["img"]
    if drawn.values:
        raise ValueError(f"{steps}: left {drawn.values}")
    return found[..., ::-1].copy()


def resized(image, label, size):
    height, width = size
    return (mmcv.imresize(image, (width, height), interpolation="bilinear"),
            mmcv.imresize(label, (width, height), interpolation="nearest"))


def tensors(generator):
    image, label = start(generator)
    found = {"image": image, "label": label}
    put = lambda name, pair: found.update({f"{name}.image": pair[0], f"{name}.label": pair[1]})
    cut = lambda pair, box: tuple(RandomCrop((1, 1)).crop(part, box) for part in pair)
    for height, width in SIZES:
        put(f"resize.{height}x{width}", resized(image, label, (height, width)))
    put("flip", tuple(mmcv.imflip(part) for part in (image, label)))
    put("crop", cut((image, label), CROP))
    for case, steps in PHOTOMETRIC.items():
        found[f"photometric.{case}"] = distort(image, steps)
    chain = tuple(mmcv.imflip(part) for part in cut(resized(image, label, CHAIN["size"]), CHAIN["crop"]))
    put("chain", (chain[0], mmcv.impad(chain[1], shape=tuple(CHAIN["pad"]), pad_val=IGNORED)))
    return {name: torch.from_numpy(numpy.ascontiguousarray(value)) for name, value in found.items()}


def sizes(generator):
    found = []
    for size, scale in (((683, 512), (2048, 512)), ((512, 683), (2048, 512)), ((300, 1500), (2048, 512)),
                        ((37, 53), (64, 40)), ((1, 9), (64, 40)), ((64, 64), (64, 64))):
        for ratio in (1.0, 0.5, *generator.uniform(0.5, 2.0, 3).tolist()):
            box = tuple(int(side * ratio) for side in scale)  # as mmcv's RandomResize
            width, height = mmcv.image.geometric.rescale_size((size[1], size[0]), box)
            found.append({"size": size, "scale": scale, "ratio": ratio, "result": [height, width]})
    return found


def crops(generator):
    found = []
    one = numpy.zeros((10, 12), numpy.uint8)
    half = one.copy()
    half[:, 6:] = 1
    corner = one.copy()
    corner[8:, 9:] = 2
    hidden = corner.copy()
    hidden[:, 4:] = IGNORED
    small = half[:4]
    for label in (one, half, corner, hidden, small):
        for crop, ratio in (((6, 6), 0.75), ((4, 5), 0.5), ((6, 6), 1.0)):
            margins = [max(side - cropped, 0) for side, cropped in zip(label.shape, crop)]
            offsets = [[int(generator.integers(0, margin + 1)) for margin in margins] for _ in range(11)]
            draws = Draws([value for offset in offsets for value in offset])
            rule = RandomCrop(crop, cat_max_ratio=ratio, ignore_index=IGNORED)
            with mock.patch.object(numpy, "random", draws):
                box = rule.crop_bbox.__wrapped__(rule, {"img": label, "gt_seg_map": label})
            found.append({"label": label.tolist(), "crop": crop, "cat_max_ratio": ratio, "offsets": offsets,
                          "used": 11 - len(draws.values) // 2, "box": [int(side) for side in box]})
    return found


if __name__ == "__main__":
    generator = numpy.random.default_rng(SEED)
    folder = golden("kvt-data") / "dense"
    config = {"ignore": IGNORED, "crop": CROP, "photometric": PHOTOMETRIC, "chain": CHAIN}
    save(folder / "joint_augment.safetensors", tensors(generator), config, SEED, mm=mm.VERSIONS, cv2=cv2.__version__)
    found = {"mm": mm.VERSIONS, "sizes": sizes(generator), "crops": crops(generator)}
    print([(crop["used"], crop["box"]) for crop in found["crops"]])
    save_json(folder / "joint_augment.json", found, SEED)
