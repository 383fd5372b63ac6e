"""What TensorBoard shows of a folder of event files: a reader of the little of the format that `kvt` writes."""

import struct
from pathlib import Path

START = 1


class Broken(Exception):
    """An event file that cannot be read."""


def scalars(folder: Path) -> list[tuple[str, int, float]]:
    """Every point, in order, after the restarts.

    As TensorBoard does, the files are read in the order of their names, and a start of a session drops what was read
    from its step on. A point that is shown twice is in the list twice.
    """
    points: list[tuple[str, int, float]] = []
    for path in sorted(folder.iterdir()):
        for payload in records(path):
            event = fields(payload)
            step = first(event, 2, 0)
            session = first(event, 7, None)
            if session is not None and first(fields(session), 1, 0) == START:
                points = [point for point in points if point[1] < step]
            for value in fields(first(event, 5, b"")).get(1, []):
                value = fields(value)
                if 2 not in value:
                    # No scalar: the hyper-parameters.
                    continue
                (number,) = struct.unpack("<f", first(value, 2, None))
                points.append((first(value, 1, b"").decode(), step, number))
    return points


def records(path: Path):
    """The payloads of a TFRecord file; one that was cut off at the end is left out, as TensorBoard does."""
    content = path.read_bytes()
    at = 0
    while at + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, at)
        if struct.unpack_from("<I", content, at + 8)[0] != masked_crc(content[at:at + 8]):
            raise Broken(f"{path.name}: the length at byte {at} has another checksum")
        end = at + 12 + length + 4
        if end > len(content):
            return
        payload = content[at + 12:end - 4]
        if struct.unpack_from("<I", content, end - 4)[0] != masked_crc(payload):
            raise Broken(f"{path.name}: the record at byte {at} has another checksum")
        yield payload
        at = end


def fields(message: bytes) -> dict[int, list]:
    """The fields of a protobuf message: integers, and bytes for all else."""
    found: dict[int, list] = {}
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        match key & 7:
            case 0:
                value, at = varint(message, at)
            case 1:
                value, at = message[at:at + 8], at + 8
            case 2:
                length, at = varint(message, at)
                value, at = message[at:at + length], at + length
            case 5:
                value, at = message[at:at + 4], at + 4
            case other:
                raise Broken(f"wire type {other}")
        found.setdefault(key >> 3, []).append(value)
    return found


def first(message: dict[int, list], number: int, otherwise):
    return message.get(number, [otherwise])[0]


def varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def masked_crc(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
