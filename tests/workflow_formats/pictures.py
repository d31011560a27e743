"""Pictures with texts in them, byte for byte."""

import json
import struct
import zlib
from typing import Any

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def png(*chunks: bytes) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return PNG_SIGNATURE + header + b"".join(chunks) + chunk(b"IEND", b"")


def text(keyword: str, value: Any) -> bytes:
    return chunk(b"tEXt", keyword.encode() + b"\0" + json.dumps(value).encode())


def packed_text(keyword: str, value: bytes) -> bytes:
    return chunk(b"zTXt", keyword.encode() + b"\0\0" + zlib.compress(value))


def international_text(keyword: str, value: bytes, *, is_packed: bool) -> bytes:
    flags = b"\x01\0" if is_packed else b"\0\0"
    content = zlib.compress(value) if is_packed else value
    return chunk(b"iTXt", keyword.encode() + b"\0" + flags + b"en\0name\0" + content)
