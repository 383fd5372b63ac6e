"""Small TIFF and GIF files, and what Pillow makes of them.

    python other_formats.py        # Pillow 13.0.0; writes other_formats.json beside the pictures of kvt-data's tests

Pillow clips 16 bits of grey at 255 when it converts them; here they are shifted by 8, as those of other colours are in Pillow.
"""
import base64
import io
import json
import struct
from pathlib import Path

import numpy as np
import PIL
from PIL import Image, ImageOps

OUT = Path(__file__).parents[2] / "crates/kvt-data/tests/fixtures/decode/other_formats.json"
rng = np.random.default_rng(17)
HEIGHT, WIDTH = 4, 5


def saved(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def tiff(values, photometric, little=True):
    """An uncompressed file, written by hand: Pillow does not write 16 bits of three colours."""
    order = "<" if little else ">"
    channels = values.shape[2] if values.ndim == 3 else 1
    bits = 8 * values.dtype.itemsize
    data = values.astype(values.dtype.newbyteorder(order)).tobytes()
    entries = 9
    behind = 8 + 2 + 12 * entries + 4
    of_bits = struct.pack(order + "HH", bits, 0) if channels == 1 else struct.pack(order + "I", behind)
    more = b"" if channels == 1 else struct.pack(order + "HHH", bits, bits, bits)
    short = lambda tag, value: struct.pack(order + "HHIHH", tag, 3, 1, value, 0)
    long = lambda tag, value: struct.pack(order + "HHII", tag, 4, 1, value)
    directory = b"".join([
        short(256, WIDTH), short(257, HEIGHT), struct.pack(order + "HHI", 258, 3, channels) + of_bits, short(259, 1),
        short(262, photometric), long(273, behind + len(more)), short(277, channels), short(278, HEIGHT), long(279, len(data)),
    ])
    head = (b"II" if little else b"MM") + struct.pack(order + "HI", 42, 8)
    return head + struct.pack(order + "H", entries) + directory + struct.pack(order + "I", 0) + more + data


def tiff_alpha(values, extra, order="<"):
    """An uncompressed RGB file with a fourth channel of the kind `extra`: 1 if colours are multiplied by it, 2 if not."""
    bits = 8 * values.dtype.itemsize
    data = values.astype(values.dtype.newbyteorder(order)).tobytes()
    entries = 10
    behind = 8 + 2 + 12 * entries + 4
    short = lambda tag, value: struct.pack(order + "HHIHH", tag, 3, 1, value, 0)
    long = lambda tag, value, kind=4, count=1: struct.pack(order + "HHII", tag, kind, count, value)
    directory = b"".join([
        short(256, WIDTH), short(257, HEIGHT), long(258, behind, 3, 4), short(259, 1), short(262, 2), long(273, behind + 8),
        short(277, 4), short(278, HEIGHT), long(279, len(data)), short(338, extra),
    ])
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    more = struct.pack(order + "HHHH", bits, bits, bits, bits)
    return head + struct.pack(order + "H", entries) + directory + struct.pack(order + "I", 0) + more + data


def premultiplied(values):
    """Colours times alpha; of some pixels alpha is 0, of others a colour is brighter than alpha allows."""
    most = np.iinfo(values.dtype).max
    values[0, 0, 3], values[0, 1, 3] = 0, most
    colours = values[..., :3].astype(np.uint64) * values[..., 3:] // most
    colours[0, 2] = most
    return np.concatenate([colours.astype(values.dtype), values[..., 3:]], axis=-1)


def big_tiff():
    """The same layout with offsets of 64 bits, of one grey pixel."""
    entry = lambda tag, kind, value: struct.pack("<HHQQ", tag, kind, 1, value)
    entries = [(256, 3, 1), (257, 3, 1), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 16, 0), (277, 3, 1), (278, 3, 1), (279, 16, 1)]
    place = 16 + 8 + 20 * len(entries) + 8
    entries[5] = (273, 16, place)
    directory = struct.pack("<Q", len(entries)) + b"".join(entry(*one) for one in entries) + struct.pack("<Q", 0)
    return b"II" + struct.pack("<HHHQ", 43, 8, 0, 16) + directory + b"\x07"


def xmp(value):
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="{value}"/></x:xmpmeta>'.encode()


def numbers(kind, *more):
    return rng.integers(0, np.iinfo(kind).max + 1, (HEIGHT, WIDTH, *more), dtype=kind)


grey, rgb, rgba = (Image.fromarray(numbers(np.uint8, *more)) for more in ((), (3,), (4,)))
palette = Image.fromarray(numbers(np.uint8) % 7).convert("P")
palette.putpalette(rng.integers(0, 256, 21, dtype=np.uint8).tobytes())
other = Image.fromarray(numbers(np.uint8) % 7).convert("P")
other.putpalette(rng.integers(0, 256, 21, dtype=np.uint8).tobytes())

read = {
    "tiff grey": saved(grey, "TIFF"),
    "tiff grey, white is 0": tiff(numbers(np.uint8), 0),
    "tiff grey 16": tiff(numbers(np.uint16), 1),
    "tiff grey 16, big-endian": tiff(numbers(np.uint16), 1, little=False),
    "tiff rgb": saved(rgb, "TIFF"),
    "tiff rgb 16": tiff(numbers(np.uint16, 3), 2),
    "tiff rgb 16, big-endian": tiff(numbers(np.uint16, 3), 2, little=False),
    "tiff rgba": saved(rgba, "TIFF"),
    "tiff lzw": saved(rgb, "TIFF", compression="tiff_lzw"),
    "tiff lzw of differences": saved(rgb, "TIFF", compression="tiff_lzw", tiffinfo={317: 2}),
    "tiff deflate": saved(rgb, "TIFF", compression="tiff_adobe_deflate"),
    "tiff packbits": saved(rgb, "TIFF", compression="packbits"),
    "tiff turned": saved(rgb, "TIFF", tiffinfo={274: 6}),
    "tiff of two pages": saved(rgb, "TIFF", save_all=True, append_images=[grey]),
    "gif": saved(palette, "GIF", interlace=0),
    "gif interlaced": saved(palette, "GIF", interlace=1),
    "gif transparent": saved(palette, "GIF", transparency=2),
    "gif of two frames": saved(palette, "GIF", save_all=True, append_images=[other]),
}
read |= {
    "tiff rgba, multiplied": tiff_alpha(premultiplied(numbers(np.uint8, 4)), 1),
    "tiff rgba 16, multiplied": tiff_alpha(premultiplied(numbers(np.uint16, 4)), 1),
    "tiff rgba 16, multiplied, big-endian": tiff_alpha(premultiplied(numbers(np.uint16, 4)), 1, ">"),
    "tiff rgba 16, not multiplied": tiff_alpha(numbers(np.uint16, 4), 2),
    "tiff turned by XMP": saved(rgb, "TIFF", tiffinfo={700: xmp(6)}),
    "tiff turned by its tag, not by XMP": saved(rgb, "TIFF", tiffinfo={274: 3, 700: xmp(6)}),
    "tiff not turned, by its tag": saved(rgb, "TIFF", tiffinfo={274: 1, 700: xmp(6)}),
}
not_read = {
    "tiff bilevel": saved(grey.convert("1"), "TIFF"),
    "tiff cmyk": saved(rgb.convert("CMYK"), "TIFF"),
    "tiff float": saved(grey.convert("F"), "TIFF"),
    "tiff palette": saved(palette, "TIFF"),
    "tiff cut off": read["tiff rgb"][:-9],
    "gif cut off": read["gif"][:-9],
    "tiff grey with alpha": saved(grey.convert("LA"), "TIFF"),
    "tiff big": big_tiff(),
}
coded = lambda data: base64.b64encode(data).decode()
cases = []
for name, file in read.items():
    stored = Image.open(io.BytesIO(file))
    if stored.mode == "I;16" or stored.mode == "I;16B":
        stored = Image.fromarray((np.asarray(stored).astype(np.uint16) >> 8).astype(np.uint8))
    shown = ImageOps.exif_transpose(stored).convert("RGB")
    cases.append({"name": name, "file": coded(file), "size": shown.size, "pixels": coded(shown.tobytes())})
cases += [{"name": name, "file": coded(file)} for name, file in not_read.items()]
OUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
print(f"{len(cases)} cases, {OUT.stat().st_size} bytes, Pillow {PIL.__version__}")
