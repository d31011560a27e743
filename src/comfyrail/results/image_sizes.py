"""Width and height of an image as its header says: nothing is unpacked."""

import struct
from collections.abc import Callable
from typing import BinaryIO

Size = tuple[int, int]

MOST_SEGMENTS = 10_000
HEADER_BYTES = 1 << 20
_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xDA)})
_TIFF_SIZES = {256: 0, 257: 1}
_TIFF_FORMATS = {3: "H", 4: "I"}


def size_of_image(content_type: str, file: BinaryIO) -> Size | None:
    """None for a file whose header has no size, or a type whose header is not known here.

    Of a file of several pictures it is the largest that the header tells of.
    """
    reader = _READERS.get(content_type)
    if reader is None:
        return None
    try:
        return reader(file)
    except (struct.error, IndexError, ValueError, OverflowError):
        return None


def has_known_header(content_type: str) -> bool:
    """Whether a size is to be expected."""
    return content_type in _READERS and content_type not in _IN_BOXES


def _png(file: BinaryIO) -> Size | None:
    head = file.read(24)
    return struct.unpack(">II", head[16:24]) if head[12:16] == b"IHDR" else None


def _gif(file: BinaryIO) -> Size:
    width, height = struct.unpack("<HH", file.read(10)[6:10])
    return width, height


def _bmp(file: BinaryIO) -> Size:
    head = file.read(26)
    if struct.unpack("<I", head[14:18])[0] == 12:
        width, height = struct.unpack("<HH", head[18:22])
    else:
        width, height = struct.unpack("<ii", head[18:26])
    return abs(width), abs(height)


def _webp(file: BinaryIO) -> Size | None:
    head = file.read(30)
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg(file: BinaryIO) -> Size | None:
    file.seek(2)
    for _ in range(MOST_SEGMENTS):
        mark = file.read(1)
        while mark not in {b"\xff", b""}:
            mark = file.read(1)
            if file.tell() > HEADER_BYTES * 64:
                return None
        code = file.read(1)
        while code == b"\xff":
            code = file.read(1)
        if not code or code == b"\xda":
            return None
        if code[0] in _JPEG_BARE:
            continue
        length = int.from_bytes(file.read(2), "big")
        if code[0] in _JPEG_SIZES:
            height, width = struct.unpack(">HH", file.read(5)[1:5])
            return width, height
        file.seek(max(0, length - 2), 1)
    return None


def _tiff(file: BinaryIO) -> Size | None:
    order = "<" if file.read(2) == b"II" else ">"
    file.seek(4)
    (at,) = struct.unpack(f"{order}I", file.read(4))
    file.seek(at)
    (entries,) = struct.unpack(f"{order}H", file.read(2))
    found = [0, 0]
    for _ in range(min(entries, MOST_SEGMENTS)):
        entry = file.read(12)
        tag, kind = struct.unpack(f"{order}HH", entry[:4])
        if tag in _TIFF_SIZES and kind in _TIFF_FORMATS:
            layout = f"{order}{_TIFF_FORMATS[kind]}"
            (found[_TIFF_SIZES[tag]],) = struct.unpack_from(layout, entry, 8)
    return (found[0], found[1]) if all(found) else None


def _boxes(file: BinaryIO) -> Size | None:
    """AVIF and HEIC: every picture in the file has a box `ispe`, also those that are tiles."""
    head = file.read(HEADER_BYTES)
    sizes: list[Size] = []
    at = head.find(b"ispe")
    while at >= 0 and at + 16 <= len(head):
        sizes.append(struct.unpack(">II", head[at + 8 : at + 16]))
        at = head.find(b"ispe", at + 4)
    return max(sizes, key=lambda size: size[0] * size[1], default=None)


_IN_BOXES = frozenset({"image/avif", "image/heic", "image/heif"})
_READERS: dict[str, Callable[[BinaryIO], Size | None]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/bmp": _bmp,
    "image/webp": _webp,
    "image/jpeg": _jpeg,
    "image/tiff": _tiff,
    **dict.fromkeys(_IN_BOXES, _boxes),
}
