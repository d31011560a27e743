"""Texts in a PNG: its chunks are walked, its pixels are never decoded."""

import zlib
from collections.abc import Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TEXT_LIMIT = 64 << 20
CHUNK_LIMIT = 100_000


def png_texts(content: bytes) -> dict[str, str]:
    """Texts by their keyword; the first of a keyword counts.

    A chunk whose checksum is wrong is passed over, and the walk ends where the file is cut off.
    `comf` is the chunk of ComfyUI's own in animated pictures.
    """
    texts: dict[str, str] = {}
    left = TEXT_LIMIT
    for kind, data in _chunks(content):
        keyword, text = _text(kind, data, left)
        if text is not None and keyword not in texts:
            texts[keyword] = text
            left -= len(text)
    return texts


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    view = memoryview(content)
    at = len(SIGNATURE)
    for _ in range(CHUNK_LIMIT):
        if at + 12 > len(view):
            return
        length = int.from_bytes(view[at : at + 4], "big")
        kind = bytes(view[at + 4 : at + 8])
        end = at + 8 + length
        if end + 4 > len(view) or kind == b"IEND":
            return
        if kind in {b"tEXt", b"zTXt", b"iTXt", b"comf"}:
            checksum = int.from_bytes(view[end : end + 4], "big")
            if zlib.crc32(view[at + 4 : end]) == checksum:
                yield kind, bytes(view[at + 8 : end])
        at = end + 4


def _text(kind: bytes, data: bytes, limit: int) -> tuple[str, str | None]:
    raw_keyword, found, rest = data.partition(b"\0")
    keyword = raw_keyword.decode("latin-1")
    if not found:
        return keyword, None
    packed: bytes | None = rest
    if kind == b"zTXt":
        packed = _unpacked(rest[1:], limit)
    elif kind == b"iTXt":
        is_packed, _, rest = rest[:1], rest[1:2], rest[2:]
        text = rest.partition(b"\0")[2].partition(b"\0")[2]
        packed = _unpacked(text, limit) if is_packed == b"\x01" else text
    if packed is None or len(packed) > limit:
        return keyword, None
    return keyword, _decoded(packed)


def _unpacked(data: bytes, limit: int) -> bytes | None:
    """The text, or None where it is broken or unpacks to more than the limit."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(data, limit + 1)
    except zlib.error:
        return None
    return text if unpacker.eof and len(text) <= limit else None


def _decoded(text: bytes) -> str:
    """UTF-8 where it is; the standard's Latin-1 elsewhere."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
