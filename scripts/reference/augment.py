"""What Pillow, timm and torchvision make of small generated images, and which rectangles timm erases.

Writes `crates/kvt-data/tests/golden/augment.safetensors`, images of 8 bits `[height, width, 3]`: the inputs `input.<name>`, and for
each entry of these lists in the metadata an output `<list>.<index>`:

  draws    one of timm's operations (`AugmentOp`): name, magnitude, and its draws in place of random numbers
  calls    a function of Pillow or torchvision with its arguments
  chains   RandAugment, AugMix: operations, signs and shares in place of random numbers
  fits     evaluation transforms of 16 x 16 pixels

With `policies` and `sets` timm's tables are in the metadata too: operations with probability and magnitude, or weight.

and `crates/kvt-data/tests/golden/erasing.json`: rectangles of `RandomErasing`, from numbers in [0, 1) in place of its draws.

    augment.py --photos TAR FILE

writes FILE in the same layout for the middle of some photographs of an archive, 224 x 224 pixels: a test reads it in place of
the committed one (`KVT_AUGMENT_GOLDEN=FILE cargo test --workspace as_pillow`).
"""

import io
import math
import random
import sys
import tarfile
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from timm.data import auto_augment, random_erasing
from timm.data.transforms_factory import transforms_imagenet_eval
from torchvision.transforms import functional

from common import golden, save, save_json

FILL = (124, 116, 104)
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
# Names of timm whose effect has a direction.
SIGNED = {"Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"}


def inputs(seed):
    rng = np.random.default_rng(seed)
    height, width = 25, 33
    y, x = np.mgrid[0:height, 0:width]
    noise = rng.integers(0, 256, (height, width))
    edges = np.where((x // 5 + y // 4) % 2, 230, 20) + rng.integers(-15, 16, (height, width))
    ramp = (x * 7 + y * 3) % 256
    picture = np.stack([edges, ramp, noise], -1)
    dull = np.stack([60 + x, 90 + (x + y), 140 + 20 * np.sin(x / 4.0) * np.cos(y / 3.0)], -1)
    flat = np.stack([np.full_like(x, 77), np.where(x < 9, 10, 12), np.where(y < 2, 0, 255)], -1)
    tiny = rng.integers(0, 256, (2, 2, 3))
    square = picture[:21, :21]
    arrays = {"picture": picture, "dull": dull, "flat": flat, "tiny": tiny, "square": square}
    return {name: Image.fromarray(a.clip(0, 255).astype(np.uint8)) for name, a in arrays.items()}


def draw(name, magnitude, negative=False, bilinear=False, share=0.0):
    return dict(name=name, magnitude=float(magnitude), negative=negative, bilinear=bilinear, share=share)


def hparams(draw, translate_pct=0.45):
    return dict(
        img_mean=FILL, translate_pct=translate_pct, magnitude_max=30,
        interpolation=Image.BILINEAR if draw["bilinear"] else Image.BICUBIC,
    )


def timm_op(draw, translate_pct=0.45):
    """timm's operation with what was drawn in place of its random numbers."""
    op = auto_augment.AugmentOp(draw["name"], prob=1.0, magnitude=draw["magnitude"], hparams=hparams(draw, translate_pct))

    def apply(image):
        negate = lambda value: -value if draw["negative"] else value
        uniform = lambda low, high: low + (high - low) * draw["share"]
        with mock.patch.object(auto_augment, "_randomly_negate", negate), mock.patch("random.uniform", uniform):
            return op(image)

    return apply


def draws():
    """(input, draw): every name, weak and strong, in both directions."""
    found = [("picture", draw(name, 5)) for name in ("AutoContrast", "Equalize", "Invert")]
    # Pillow 13 refuses to keep no bits.
    for name, magnitudes in [
        ("Posterize", (3, 10)), ("PosterizeIncreasing", (2, 9)), ("PosterizeOriginal", (2.6, 10)), ("Solarize", (3, 10)),
        ("SolarizeIncreasing", (0, 9)), ("SolarizeAdd", (4, 15)), ("Desaturate", (3, 10)), ("GaussianBlur", (0, 5, 10)),
    ]:
        found += [("picture", draw(name, magnitude)) for magnitude in magnitudes]
    found += [("picture", draw("GaussianBlurRand", 10, share=share)) for share in (0.0, 0.6)]
    for name in ("Color", "Contrast", "Brightness", "Sharpness"):
        found += [("picture", draw(name, magnitude)) for magnitude in (0, 7)]
        found += [("picture", draw(name + "Increasing", 9, negative=negative)) for negative in (False, True)]
    for name in sorted(SIGNED):
        for magnitude, negative, bilinear in [(9, False, False), (6.3, True, False), (9, True, True), (2.7, False, True)]:
            found.append(("picture", draw(name, magnitude, negative, bilinear)))
    # Quarter turns and nothing, which move whole pixels.
    found += [("square", draw("Rotate", magnitude, negative)) for magnitude, negative in [(0, False), (30, False), (30, True)]]
    return found


def calls():
    """(input, function, argument, filter)."""
    found = [(image, name, 0.0, "") for image in ("dull", "flat", "tiny") for name in ("autocontrast", "equalize")]
    found += [("picture", "grayscale", 0.0, ""), ("tiny", "sharpness", 0.3, "")]
    found += [("picture", "hue", turns, "") for turns in (-0.5, -0.1, 0.0, 0.037, 0.3)]
    found += [("picture", "blur", radius, "") for radius in (0.3, 3.3, 12.0)] + [("tiny", "blur", 2.0, "")]
    found += [("picture", "blend", share, "") for share in (0.25, 1.0)]
    found += [("picture", "rotate", 123.4, "bicubic"), ("tiny", "rotate", -20.0, "bilinear"), ("tiny", "rotate", 20.0, "bicubic")]
    return found


def call(image, name, value, filter):
    match name:
        case "autocontrast": return ImageOps.autocontrast(image)
        case "equalize": return ImageOps.equalize(image)
        case "grayscale": return functional.to_grayscale(image, 3)
        case "sharpness": return ImageEnhance.Sharpness(image).enhance(value)
        case "hue": return functional.adjust_hue(image, value)
        case "blur": return image.filter(ImageFilter.GaussianBlur(value))
        case "blend": return Image.blend(image, ImageOps.invert(image), value)
        case "rotate": return image.rotate(value, resample=FILTERS[filter], fillcolor=FILL)


CHAINS = [
    dict(auto="rand-m9-mstd0.5-inc1", chains=[[draw("Rotate", 9.31, True), draw("ColorIncreasing", 8.6)]]),
    dict(auto="rand-m9-mstd0.5-inc1", chains=[[draw("SharpnessIncreasing", 8.9, True), draw("TranslateXRel", 9.7, False, True)]]),
    dict(auto="rand-m9-mstd0.5-inc1", chains=[[draw("SolarizeAdd", 9.0), draw("ShearY", 9.0, True)]]),
    dict(auto="augmix-m5", share=0.62, weights=[0.5, 0.2, 0.3],
         chains=[[draw("ShearX", 3.1)], [draw("Equalize", 2.0), draw("Rotate", 4.4, True)],
                 [draw("ContrastIncreasing", 4.9), draw("TranslateYRel", 4.0), draw("SolarizeIncreasing", 1.7)]]),
    dict(auto="augmix-m5-b1", share=0.62, weights=[0.5, 0.2, 0.3],
         chains=[[draw("ShearX", 3.1)], [draw("Equalize", 2.0), draw("Rotate", 4.4, True)],
                 [draw("ContrastIncreasing", 4.9), draw("TranslateYRel", 4.0), draw("SolarizeIncreasing", 1.7)]]),
]


def chain(case, image):
    """timm's own RandAugment or AugMix with the case's operations, weights and share in place of its random numbers."""
    is_mix = case["auto"].startswith("augmix")
    ops = iter([[timm_op(draw, 0.3 if is_mix else 0.45) for draw in draws] for draws in case["chains"]])
    depths = iter([len(draws) for draws in case["chains"]])
    with mock.patch("numpy.random.choice", lambda *_, **__: next(ops)), \
            mock.patch("numpy.random.randint", lambda *_: next(depths)), \
            mock.patch("numpy.random.dirichlet", lambda _: np.array(case["weights"])), \
            mock.patch("numpy.random.beta", lambda *_: case["share"]):
        make = auto_augment.augment_and_mix_transform if is_mix else auto_augment.rand_augment_transform
        return make(case["auto"], dict(img_mean=FILL))(image)


def policies():
    step = lambda op: [op.name, op.prob, op.magnitude]
    names = ("original", "originalr", "v0", "v0r", "3a")
    return {name: [[step(op) for op in chain] for chain in auto_augment.auto_augment_policy(name)] for name in names}


def sets():
    weights = auto_augment.rand_augment_choices
    tables = {name: dict.fromkeys(weights(text, increasing), 0.0) | (weights(text) if text in ("3aw", "weights") else {})
              for name, text, increasing in [("rand", "", False), ("rand-inc1", "", True), ("rand-t3a", "3a", True),
                                             ("rand-t3aw", "3aw", True), ("rand-tweights", "weights", True)]}
    tables["augmix"] = dict.fromkeys(auto_augment._AUGMIX_TRANSFORMS, 0.0)
    return tables


FITS = [dict(crop_mode=mode, crop_pct=pct) for mode, pct in
        [("center", 0.875), ("center", 1.15), ("squash", 1.0), ("squash", 0.8), ("squash", 1.2), ("border", 1.0), ("border", 0.8),
         ("border", 1.3)]]


def fit(case, image):
    transform = transforms_imagenet_eval(16, interpolation="bicubic", normalize=False, mean=[v / 255 for v in FILL], **case)
    return transform(image).permute(1, 2, 0)


def erasing(seed):
    """timm's rectangles: random.random, uniform and randint return numbers of a list."""
    rng = random.Random(seed)
    cases = []
    for size, count in [((224, 224), 1), ((32, 32), 1), ((30, 64), 1), ((96, 40), 3), ((9, 9), 5)] * 6:
        used = []

        def number():
            used.append(rng.random())
            return used[-1]

        def randint(low, high):
            return low + math.floor(number() * (high - low + 1))

        erased = []

        class Picture:
            def __setitem__(self, key, _):
                _, rows, columns = key
                erased.append([rows.start, columns.start, rows.stop - rows.start, columns.stop - columns.start])

        # kvt draws a number of rectangles even where there can be only one.
        first = [0.0] if count > 1 else [0.0, 0.0]
        transform = random_erasing.RandomErasing(probability=1.0, mode="const", max_count=count, device="cpu")
        with mock.patch("random.random", lambda: 0.0), mock.patch("random.randint", randint), \
                mock.patch("random.uniform", lambda low, high: low + (high - low) * number()):
            transform._erase(Picture(), 3, *size, torch.float32)
        cases.append(dict(size=size, count=count, draws=first + used, rectangles=erased))
    return cases


def write(path, images, all_draws, all_calls, chained, seed):
    """`chained`: the image of `CHAINS` and `FITS`."""
    tensors = {f"input.{name}": torch.tensor(np.array(image)) for name, image in images.items()}

    def add(group, results):
        for index, image in enumerate(results):
            tensors[f"{group}.{index}"] = torch.as_tensor(np.array(image)).to(torch.uint8)

    add("draws", (timm_op(draw)(images[image]) for image, draw in all_draws))
    add("calls", (call(images[image], *rest) for image, *rest in all_calls))
    add("chains", (chain(case, images[chained]) for case in CHAINS))
    add("fits", (fit(case, images[chained]) for case in FITS))
    config = dict(fill=FILL, chained=chained)
    save(path, tensors, config, seed, draws=all_draws, calls=all_calls, chains=CHAINS, fits=FITS, policies=policies(), sets=sets())


def main(seed=13):
    write(golden("kvt-data") / "augment.safetensors", inputs(seed), draws(), calls(), "picture", seed)
    save_json(golden("kvt-data") / "erasing.json", {"cases": erasing(seed)}, seed)


def photos(archive, path, count=12):
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.name.lower().endswith((".jpg", ".jpeg"))]
        files = [tar.extractfile(member).read() for member in members[:: len(members) // count][:count]]
    pictures = [Image.open(io.BytesIO(data)).convert("RGB") for data in files]
    images = {f"photo{i}": ImageOps.fit(picture, (224, 224)) for i, picture in enumerate(pictures)}
    every = lambda cases: [(name, *rest) for name in images for image, *rest in cases if image == "picture"]
    write(Path(path).resolve(), images, every(draws()), every(calls()), "photo0", 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--photos"]:
        photos(*sys.argv[2:])
    else:
        main()
