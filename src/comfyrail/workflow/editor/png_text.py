"""Texts in a PNG: its chunks are walked, its pixels are never decoded."""

import zlib
from collections.abc import Collection, Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TEXT_LIMIT = 64 << 20
"""Bytes of text that are unpacked in all, those of texts that come to nothing included."""
CHUNK_LIMIT = 100_000
PIECE = 1 << 20


def png_texts(content: bytes, names: Collection[str]) -> dict[str, str]:
    """Texts by their keyword in lower case: those in `names`, the first of each.

    A chunk whose checksum is wrong is passed over, and the walk ends where the file is cut off.
    `comf` is the chunk of ComfyUI's own in animated pictures.
    """
    texts: dict[str, str] = {}
    allowance = _Allowance()
    for kind, data in _chunks(content):
        raw_keyword, found, rest = data.partition(b"\0")
        keyword = raw_keyword.decode("latin-1").lower()
        if not found or keyword not in names or keyword in texts:
            continue
        text = _text(kind, rest, allowance)
        if text is not None:
            texts[keyword] = _decoded(text)
        if len(texts) == len(names) or allowance.left <= 0:
            break
    return texts


class _Allowance:
    def __init__(self) -> None:
        self.left = TEXT_LIMIT

    def spend(self, count: int) -> bool:
        """Whether there was enough left."""
        self.left -= count
        return self.left >= 0


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


def _text(kind: bytes, data: bytes, allowance: _Allowance) -> bytes | None:
    """What stands after the keyword, or None where it is broken or too long."""
    if kind == b"zTXt":
        return _unpacked(data[1:], allowance)
    if kind == b"iTXt":
        is_packed = data[:1] == b"\x01"
        data = data[2:].partition(b"\0")[2].partition(b"\0")[2]
        if is_packed:
            return _unpacked(data, allowance)
    return data if allowance.spend(len(data)) else None


def _unpacked(data: bytes, allowance: _Allowance) -> bytes | None:
    """Piece by piece, so that what is broken or too long is paid for as well."""
    unpacker = zlib.decompressobj()
    pieces: list[bytes] = []
    while not unpacker.eof:
        try:
            piece = unpacker.decompress(data, PIECE)
        except zlib.error:
            allowance.spend(PIECE)
            return None
        if not piece or not allowance.spend(len(piece)):
            return None
        pieces.append(piece)
        data = unpacker.unconsumed_tail
    return b"".join(pieces)


def _decoded(text: bytes) -> str:
    """UTF-8 where it is; the standard's Latin-1 elsewhere."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
