"""Images of 1 and 4 channels: timm's `adapt_input_conv` and `adapt_to_chs`, and Pillow's `L` and `RGBA`.

Writes `crates/kvt-models/tests/golden/channels.safetensors`: `colours` [3, 3, 2, 2] and `channels_<n>` for n = 1, 2, 4, 7.

Writes `crates/kvt-data/tests/golden/channels.json`, with files and pixels in base64:

  normalization  mean, std, channels, and both adapted
  files          a picture file, its size (width, height), and its pixels converted to `L` and to `RGBA`
  resized        the file `rgba` as `mode`, resized to `size` by `filter`: its pixels
  grey           what operations make of the file `rgb` in `L`
  rgba           what operations make of the file `rgba`
"""

import base64
import io

import numpy
import torch
from PIL import Image, ImageEnhance, ImageOps
from timm.data.loader import adapt_to_chs
from timm.models._manipulate import adapt_input_conv
from torchvision.transforms import functional

from common import golden, save, save_json

SEED = 5
SIZE = (13, 9)
FILTERS = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
ENHANCED = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast, "color": ImageEnhance.Color,
            "sharpness": ImageEnhance.Sharpness}
POINTS = {"autocontrast": ImageOps.autocontrast, "equalize": ImageOps.equalize, "invert": ImageOps.invert,
          "posterize": lambda image: ImageOps.posterize(image, 3), "solarize": lambda image: ImageOps.solarize(image, 100)}


def text(data):
    return base64.b64encode(data).decode()


def pixels(image):
    return text(image.tobytes())


def encoded(image, **options):
    file = io.BytesIO()
    image.save(file, "PNG", **options)
    return file.getvalue()


def pictures():
    rng = numpy.random.default_rng(SEED)
    levels = lambda channels: rng.integers(0, 256, (SIZE[1], SIZE[0], channels), dtype=numpy.uint8)
    rgba = levels(4)
    # Bright colours that nobody sees, and opaque ones.
    rgba[:, :4] = [255, 250, 245, 0]
    rgba[5:, 4:, 3] = 255
    palette = Image.fromarray(levels(3)).quantize(8)
    return {
        "rgb": encoded(Image.fromarray(levels(3))),
        "rgba": encoded(Image.fromarray(rgba)),
        "grey": encoded(Image.fromarray(levels(1)[..., 0])),
        "grey_alpha": encoded(Image.fromarray(levels(2), "LA")),
        "palette": encoded(palette),
        "palette_transparent": encoded(palette, transparency=bytes([0, 100, 255, 30])),
        "bilevel": encoded(Image.fromarray(levels(1)[..., 0]).convert("1")),
    }


def main():
    generator = torch.Generator().manual_seed(SEED)
    colours = torch.randn(3, 3, 2, 2, generator=generator)
    adapted = {f"channels_{n}": adapt_input_conv(n, colours.clone()) for n in (1, 2, 4, 7)}
    save(golden("kvt-models") / "channels.safetensors", {"colours": colours, **adapted}, {}, SEED)

    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    normalization = [dict(mean=mean, std=std, channels=n, adapted=[adapt_to_chs(x, n) for x in (mean, std)]) for n in (1, 3, 4)]
    files = pictures()
    read = {name: Image.open(io.BytesIO(file)) for name, file in files.items()}
    converted = [dict(name=name, file=text(file), size=read[name].size, L=pixels(read[name].convert("L")),
                      RGBA=pixels(read[name].convert("RGBA"))) for name, file in files.items()]
    resized = [dict(mode=mode, filter=name, size=size, pixels=pixels(read["rgba"].convert(mode).resize(size, kind)))
               for mode in ("L", "RGBA") for name, kind in FILTERS.items() for size in ((6, 6), (13, 9), (20, 17))]
    grey, rgba = read["rgb"].convert("L"), read["rgba"]
    of_grey = {name: operation(grey) for name, operation in POINTS.items()}
    of_grey |= {name: kind(grey).enhance(1.6) for name, kind in ENHANCED.items()}
    of_grey["hue"] = functional.adjust_hue(grey, 0.3)
    of_rgba = {name: kind(rgba).enhance(1.6) for name, kind in ENHANCED.items() if name != "sharpness"}
    for operation in POINTS.values():
        try:
            operation(rgba)
        except OSError:
            continue
        raise ValueError("Pillow does this to RGBA")
    save_json(golden("kvt-data") / "channels.json", {
        "normalization": normalization,
        "files": converted,
        "resized": resized,
        "grey": {name: pixels(image) for name, image in of_grey.items()},
        "rgba": {name: pixels(image) for name, image in of_rgba.items()},
    }, SEED)


if __name__ == "__main__":
    main()
