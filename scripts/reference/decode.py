"""Small picture files and what Pillow makes of them: orientations, colours of JPEGs, bytes after the end.

    python decode.py        # Pillow 13.0.0; writes decode.json and narrow_progressive.jpg beside the pictures of kvt-data's tests
"""
import base64
import binascii
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import PIL
from PIL import Image, ImageOps

OUT = Path(__file__).parents[2] / "crates/kvt-data/tests/fixtures/decode/decode.json"
rng = np.random.default_rng(11)


def saved(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def number(little, size, value):
    return value.to_bytes(size, "little" if little else "big")


def tiff(value=6, kind=3, count=1, little=False, magic=None, more=b"", entries=None):
    """EXIF with a directory of one entry, or of these: (tag, kind, count, bytes of the value or its offset)."""
    n = lambda size, value: number(little, size, value)
    size = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 8: 2, 9: 4, 13: 4, 16: 8}.get(kind, 4)
    if entries is None:
        values = n(size, value) * count
        entries = [(0x112, kind, count, values.ljust(4, b"\0") if len(values) <= 4 else n(4, 8 + 2 + 12 + 4))]
        more = values if len(values) > 4 else more
    directory = b"".join(n(2, tag) + n(2, kind) + n(4, count) + data for tag, kind, count, data in entries)
    magic = magic or (b"II*\0" if little else b"MM\0*")
    return magic + n(4, 8) + n(2, len(entries)) + directory + n(4, 0) + more


def xmp(text):
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description {text}</rdf:Description></x:xmpmeta>'.encode()


ATTRIBUTE, ELEMENT = xmp('tiff:Orientation="6">'), xmp("><tiff:Orientation>8</tiff:Orientation>")
PREFIX = b"Exif\0\0"


def hexadecimal(data):
    return b"\nexif\n%8d\n" % len(data) + b"\n".join(binascii.hexlify(data)[i:i + 72] for i in range(0, 2 * len(data), 72)) + b"\n"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def text(key, data, packed):
    return chunk(b"zTXt", key + b"\0\0" + zlib.compress(data)) if packed else chunk(b"tEXt", key + b"\0" + data)


def international(key, data, packed):
    return chunk(b"iTXt", key + b"\0" + bytes([packed, 0]) + b"\0\0" + (zlib.compress(data) if packed else data))


STORED = Image.fromarray(rng.integers(0, 256, (2, 3, 3), dtype=np.uint8))
PNG, WEBP = saved(STORED, "PNG"), saved(STORED, "WEBP", lossless=True)
early = lambda *chunks: PNG[:33] + b"".join(chunks) + PNG[33:]
late = lambda *chunks: PNG[:-12] + b"".join(chunks) + PNG[-12:]
RAW = b"Raw profile type exif"


def webp(flags, *chunks, behind=b""):
    pad = lambda data: data + b"\0" * (len(data) % 2)
    head = bytes([flags, 0, 0, 0, STORED.width - 1, 0, 0, STORED.height - 1, 0, 0])
    body = b"WEBP" + b"".join(k + struct.pack("<I", len(d)) + pad(d) for k, d in [(b"VP8X", head), *chunks])
    return b"RIFF" + struct.pack("<I", len(body)) + body + behind


VP8L = (b"VP8L", WEBP[20:20 + int.from_bytes(WEBP[16:20], "little")])
JPEG = saved(STORED, "JPEG", quality=95, subsampling=0, optimize=True)
segment = lambda marker, data: b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data
jpeg = lambda *segments: JPEG[:20] + b"".join(segments) + JPEG[20:]
app1 = lambda data: segment(0xe1, PREFIX + data)
app1_xmp = lambda data: segment(0xe1, b"http://ns.adobe.com/xap/1.0/\0" + data)

turned = {
    # EXIF itself.
    "short": early(chunk(b"eXIf", tiff())),
    "little": early(chunk(b"eXIf", tiff(8, little=True))),
    "long": early(chunk(b"eXIf", tiff(6, 4))),
    "little long": early(chunk(b"eXIf", tiff(3, 4, little=True))),
    "signed byte": early(chunk(b"eXIf", tiff(5, 6))),
    "signed short": early(chunk(b"eXIf", tiff(7, 8))),
    "signed long": early(chunk(b"eXIf", tiff(2, 9))),
    "ifd": early(chunk(b"eXIf", tiff(4, 13))),
    "long of 8 bytes": early(chunk(b"eXIf", tiff(6, 16))),
    "two shorts": early(chunk(b"eXIf", tiff(6, 3, 2))),
    "three shorts": early(chunk(b"eXIf", tiff(6, 3, 3))),
    "byte": early(chunk(b"eXIf", tiff(6, 1))),
    "undefined": early(chunk(b"eXIf", tiff(6, 7))),
    "no value": early(chunk(b"eXIf", tiff(6, 3, 0))),
    "nine": early(chunk(b"eXIf", tiff(9))),
    "type that is none": early(chunk(b"eXIf", tiff(entries=[
        (0x112, 99, 1, b"\0\x03\0\0"), (0x10f, 2, 4, b"abc\0"), (0x112, 3, 1, b"\0\x06\0\0"), (0x112, 3, 1, b"\0\x03\0\0")]))),
    "values that claim too much": early(chunk(b"eXIf", tiff(entries=[(0x112, 3, 999, b"\0\0\0\x08"), (0x112, 3, 1, b"\0\x08\0\0")]))),
    "values that are missing": early(chunk(b"eXIf", tiff(entries=[(0x112, 3, 9, b"\0\0\x10\0"), (0x112, 3, 1, b"\0\x08\0\0")]))),
    "other magic": early(chunk(b"eXIf", tiff(magic=b"MM*\0"))),
    "prefix": early(chunk(b"eXIf", PREFIX + tiff())),
    "upright, and xmp": early(chunk(b"eXIf", tiff(1)), international(b"XML:com.adobe.xmp", ATTRIBUTE, 0)),
    "byte, and xmp": early(chunk(b"eXIf", tiff(6, 1)), international(b"XML:com.adobe.xmp", ATTRIBUTE, 0)),
    "another tag, and xmp": early(chunk(b"eXIf", tiff(entries=[(0x10f, 2, 4, b"abc\0")])), international(b"XML:com.adobe.xmp", ATTRIBUTE, 0)),
    # Its places in a PNG.
    "late": late(chunk(b"eXIf", tiff())),
    "early and late": early(chunk(b"eXIf", tiff(8)))[:-12] + chunk(b"eXIf", tiff()) + PNG[-12:],
    "behind the end": PNG + chunk(b"eXIf", tiff()),
    "raw": early(text(RAW, hexadecimal(PREFIX + tiff()), False)),
    "raw packed": early(text(RAW, hexadecimal(PREFIX + tiff()), True)),
    "raw late": late(text(RAW, hexadecimal(PREFIX + tiff(3)), True)),
    "raw international": early(international(RAW, hexadecimal(PREFIX + tiff()), 0)),
    "raw international packed": late(international(RAW, hexadecimal(PREFIX + tiff()), 1)),
    "raw, and exif": early(text(RAW, hexadecimal(PREFIX + tiff(8)), False))[:-12] + chunk(b"eXIf", tiff()) + PNG[-12:],
    "xmp": late(international(b"XML:com.adobe.xmp", ATTRIBUTE, 0)),
    "xmp packed": early(international(b"XML:com.adobe.xmp", ELEMENT, 1)),
    "xmp as a text": early(text(b"XML:com.adobe.xmp", ELEMENT, False)),
    # WebP.
    "webp": webp(8, VP8L, (b"EXIF", tiff())),
    "webp prefix": webp(8, VP8L, (b"EXIF", PREFIX + tiff())),
    "webp first": webp(8, (b"EXIF", tiff()), VP8L),
    "webp twice": webp(8, VP8L, (b"EXIF", tiff(3)), (b"EXIF", tiff())),
    "webp without its flag": webp(0, VP8L, (b"EXIF", tiff())),
    "webp xmp": webp(4, VP8L, (b"XMP ", ATTRIBUTE)),
    "webp behind": webp(0, VP8L, behind=b"EXIF" + struct.pack("<I", 26) + tiff()),
    "webp and more": webp(8, VP8L, (b"EXIF", tiff()), behind=b"x" * 33),
    # JPEG.
    "jpeg": jpeg(app1(tiff())),
    "jpeg in two": jpeg(app1(tiff()[:15]), app1(tiff()[15:])),
    "jpeg first": jpeg(app1(tiff(8)), app1(tiff(6))),
    "jpeg xmp": jpeg(app1_xmp(ATTRIBUTE)),
    "jpeg last xmp": jpeg(app1_xmp(ATTRIBUTE), app1_xmp(ELEMENT)),
    "jpeg behind": jpeg(app1(tiff(little=True))) + b"x" * 33,
    # Nothing to turn.
    "png behind": PNG + b"x" * 33,
    "simple webp behind": WEBP + b"x" * 33,
}


def adobe(transform):
    return segment(0xee, b"Adobe\0\x64\0\0\0\0" + bytes([transform]))


def named(file, names):
    """With other names of the components."""
    file = bytearray(file)
    frame, scan = file.find(b"\xff\xc0"), file.find(b"\xff\xda")
    for n, name in enumerate(names):
        file[frame + 10 + 3 * n] = name
        file[scan + 5 + 2 * n] = name
    return bytes(file)


# The rule by which libjpeg knows what three components are: with a JFIF segment, with one of Adobe, by their names.
colours = {}
for jfif in (True, False):
    for transform in (None, 0, 1, 2):
        for names in (b"\1\2\3", b"RGB"):
            head = (JPEG[:20] if jfif else JPEG[:2]) + (adobe(transform) if transform is not None else b"")
            colours[f"jfif {jfif}, adobe {transform}, names {list(names)}"] = named(head + JPEG[20:], names)

narrow = {}
for width in range(1, 6):
    for height, subsampling in ((9, 1), (9, 2), (1, 2)):
        picture = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        narrow[f"{width} x {height}, {subsampling}"] = saved(picture, "JPEG", quality=90, subsampling=subsampling, optimize=True)

# Not read: colours of half the width in a progressive one.
picture = Image.fromarray(rng.integers(0, 256, (9, 4, 3), dtype=np.uint8))
picture.save(OUT.with_name("narrow_progressive.jpg"), quality=90, subsampling=2, progressive=True)

cases = []
for name, file in (turned | colours | narrow).items():
    shown = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")
    coded = lambda data: base64.b64encode(data).decode()
    cases.append({"name": name, "file": coded(file), "size": shown.size, "pixels": coded(shown.tobytes())})
OUT.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
print(f"{len(cases)} cases, {OUT.stat().st_size} bytes, Pillow {PIL.__version__}")
