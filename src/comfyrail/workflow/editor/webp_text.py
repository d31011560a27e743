"""Texts in the EXIF data of a WebP, where ComfyUI writes `prompt:{…}` and `workflow:{…}`."""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final, Literal

TEXT_LIMIT = 64 << 20
CHUNK_LIMIT = 10_000
DIRECTORY_LIMIT = 16
ENTRY_LIMIT = 1_000
"""In all directories together: they may overlap, so a small file could have any number."""

ASCII = 2
BYTE_TYPES: Final = frozenset({1, ASCII, 7})
USER_COMMENT = 0x9286
EXIF_DIRECTORY = 0x8769
COMMENT_CODES: Final = {
    b"ASCII\0\0\0": "ascii",
    b"UNICODE\0": "utf-16",
    b"\0\0\0\0\0\0\0\0": "utf-8",
}


def is_webp(content: bytes) -> bool:
    return content[:4] == b"RIFF" and content[8:12] == b"WEBP"


def webp_texts(content: bytes, names: Collection[str]) -> dict[str, str]:
    """Texts of the form `name:text` by their names in lower case: those in `names`, the first of
    each. A comment that is JSON without a name counts as `workflow`.
    """
    return _named(_exif_texts(content), names)


def exif_texts(exif: bytes, names: Collection[str]) -> dict[str, str]:
    """The same for EXIF data that was taken out of a file of any format."""
    return _named(_tiff_texts(exif.removeprefix(b"Exif\0\0")), names)


def _named(found: Iterable[str], names: Collection[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for text in found:
        name, colon, rest = text.partition(":")
        keyword = name.strip().lower()
        if text.lstrip().startswith("{"):
            texts.setdefault("workflow", text)
        elif colon and keyword in names:
            texts.setdefault(keyword, rest)
    return texts


def _exif_texts(content: bytes) -> Iterator[str]:
    at = 12
    for _ in range(CHUNK_LIMIT):
        if at + 8 > len(content):
            return
        length = int.from_bytes(content[at + 4 : at + 8], "little")
        if content[at : at + 4] == b"EXIF":
            yield from _tiff_texts(content[at + 8 : at + 8 + length].removeprefix(b"Exif\0\0"))
            return
        at += 8 + length + length % 2


def _tiff_texts(tiff: bytes) -> Iterator[str]:
    order: Literal["little", "big"] = "little" if tiff[:2] == b"II" else "big"
    if tiff[:2] not in {b"II", b"MM"}:
        return
    left = TEXT_LIMIT
    for tag, kind, count, value in islice(_entries(tiff, order), ENTRY_LIMIT):
        if kind in BYTE_TYPES and 4 < count <= left:
            start = int.from_bytes(value, order)
            left -= count
            yield _decoded(tag, tiff[start : start + count])


def _entries(tiff: bytes, order: Literal["little", "big"]) -> Iterator[tuple[int, int, int, bytes]]:
    """Tag, type, count and value of what stands in all directories that lead to each other."""
    waiting = [int.from_bytes(tiff[4:8], order)]
    seen: set[int] = set()
    while waiting and len(seen) < DIRECTORY_LIMIT:
        directory = waiting.pop()
        if directory in seen:
            continue
        seen.add(directory)
        for number in range(int.from_bytes(tiff[directory : directory + 2], order)):
            entry = tiff[directory + 2 + 12 * number : directory + 14 + 12 * number]
            if len(entry) < 12:
                break
            tag = int.from_bytes(entry[:2], order)
            if tag == EXIF_DIRECTORY:
                waiting.append(int.from_bytes(entry[8:], order))
            yield (
                tag,
                int.from_bytes(entry[2:4], order),
                int.from_bytes(entry[4:8], order),
                entry[8:],
            )


def _decoded(tag: int, value: bytes) -> str:
    encoding = "utf-8"
    if tag == USER_COMMENT and value[:8] in COMMENT_CODES:
        encoding, value = COMMENT_CODES[value[:8]], value[8:]
    return value.decode(encoding, "replace").rstrip("\0")
