"""Files that are wrong on purpose, and small right ones to start from."""

import json
import os
import struct
import zipfile
import zlib
from pathlib import Path


def png(path: Path, width: int, height: int, depth: int = 8, channels: int = 3) -> Path:
    """A black picture: a few bytes however large it is."""
    color = {1: 0, 3: 2}[channels]
    row = b"\0" * (1 + (width * depth * channels + 7) // 8)
    packer = zlib.compressobj(9)
    # In pieces: the whole may be more than memory has.
    packed = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b""))
    return path


def bmp(path: Path, width: int, height: int, claimed: tuple[int, int] | None = None) -> Path:
    """A picture of 24 bits; `claimed` is another size for its header."""
    row = bytes(value % 256 for value in range(3 * width)) + b"\0" * (-3 * width % 4)
    pixels = row * height
    wide, high = claimed or (width, height)
    header = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(pixels), 0, 0, 54, 40, wide, high, 1, 24, 0,
                         len(pixels), 0, 0, 0, 0)
    path.write_bytes(header + pixels)
    return path


def safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> Path:
    """Tensors by name, each with its type, shape and content."""
    header, at = {}, 0
    for name, (kind, shape, content) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(content for _, _, content in tensors.values()))
    return path


def read_safetensors(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items() if name != "__metadata__"}


def pth(path: Path, tensors: dict[str, tuple[list[int], list[int]]], stored: int = 1, claimed: int | None = None) -> Path:
    """What `torch.save` writes for a dict of f32 tensors, by their shapes and strides.

    All of them are views of one storage of `stored` numbers. The pickle claims that it has `claimed`.
    """
    out = bytearray(b"\x80\x02}(")

    def text(value: str) -> None:
        encoded = value.encode()
        out.extend(b"X" + struct.pack("<I", len(encoded)) + encoded)

    def integer(value: int) -> None:
        if value < 1 << 31:
            out.extend(b"J" + struct.pack("<i", value))
        else:
            out.extend(b"\x8a\x08" + struct.pack("<q", value))

    def numbers(values: list[int]) -> None:
        out.extend(b"(")
        for value in values:
            integer(value)
        out.extend(b"t")

    for name, (shape, strides) in tensors.items():
        text(name)
        out.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((")
        text("storage")
        out.extend(b"ctorch\nFloatStorage\n")
        text("0")
        text("cpu")
        integer(stored if claimed is None else claimed)
        out.extend(b"tQ")
        integer(0)
        numbers(shape)
        numbers(strides)
        out.extend(b"\x89ccollections\nOrderedDict\n)RtR")
    out.extend(b"u.")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", bytes(out))
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", struct.pack(f"<{stored}f", *([0.5] * stored)))
        archive.writestr("archive/version", "3\n")
    return path


GARBAGE = bytes(byte * 167 % 256 for byte in range(3000))


def missing(path) -> None:
    """Nothing."""


def folder(path) -> None:
    os.mkdir(path)


def empty(path) -> None:
    open(path, "wb").close()


def garbage(path) -> None:
    with open(path, "wb") as file:
        file.write(GARBAGE)


def fifo(path) -> None:
    os.mkfifo(path)


def secret(path) -> None:
    garbage(path)
    os.chmod(path, 0)


def dangling(path) -> None:
    os.symlink("nowhere", path)


def loop(path) -> None:
    os.symlink(os.path.basename(path), path)


def endless(path) -> None:
    os.symlink("/dev/zero", path)


def pointer(path) -> None:
    """What a checkout has in place of a large file that was not fetched."""
    with open(path, "wb") as file:
        file.write(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 22883432\n")


def unnameable(path) -> None:
    """The same as garbage; its name is no UTF-8."""
    garbage(path)


# In place of a file or folder that is to be read.
WRONG = [missing, folder, empty, garbage, fifo, secret, dangling, loop, endless, unnameable]
