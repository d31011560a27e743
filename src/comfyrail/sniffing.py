"""What a file is, by its first bytes: what a name or a header says of it may be wrong or a lie."""

import codecs
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from comfyrail.errors import UnsupportedMediaType

HEAD_BYTES = 1 << 16
"""So many are enough to decide."""
UNKNOWN = "application/octet-stream"
TEXT = "text/plain"
JSON = "application/json"
ALLOWED_TYPES = (
    "image/*",
    "video/*",
    "audio/*",
    "model/gltf-binary",
    "model/gltf+json",
    JSON,
    TEXT,
    "application/x-safetensors",
    "application/x-npy",
)
NEVER_ALLOWED = frozenset({"image/svg+xml", "text/html", "text/xml"})
"""A browser would run what is in them."""
NO_CLAIM = frozenset({"", UNKNOWN, "binary/octet-stream", "application/x-www-form-urlencoded"})
"""What clients say that do not know."""

_LONGEST_SAFETENSORS_HEADER = 100 << 20
_MARKUP = re.compile(
    rb"<(!doctype|html|head|body|script|iframe|svg|\?xml|!--|[a-z!?/])", re.IGNORECASE
)
_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic",
    b"heim": "image/heic",
    b"heis": "image/heic",
    b"mif1": "image/heif",
    b"msf1": "image/heif",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"glTF", "model/gltf-binary"),
    (b"\x93NUMPY", "application/x-npy"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_SUFFIXES = {
    "image": "png jpg jpeg jfif webp gif bmp tif tiff avif heic heif jxl",
    "video": "mp4 m4v mov webm mkv avi mpg mpeg",
    "audio": "wav mp3 flac ogg oga opus m4a aac aiff",
    "text": "json txt csv md srt vtt",
    "active": "html htm xhtml svg xml js mjs",
    "archive": "zip",
    "program": "exe dll so sh bat cmd ps1 py pyc pkl pickle pt pth ckpt",
    "model": "glb",
    "tensors": "safetensors latent npy",
}
_KIND_OF_SUFFIX = {suffix: kind for kind, names in _SUFFIXES.items() for suffix in names.split()}
_KIND_OF_TYPE = {
    JSON: "text",
    "image/svg+xml": "active",
    "text/html": "active",
    "text/xml": "active",
    "application/xml": "active",
    "application/xhtml+xml": "active",
    "application/javascript": "active",
    "text/javascript": "active",
    "model/gltf+json": "text",
    "application/zip": "archive",
    "application/x-zip-compressed": "archive",
    "application/x-safetensors": "tensors",
    "application/x-npy": "tensors",
}
_SEVERAL_KINDS = frozenset({"video/mp4", "video/quicktime", "video/webm", "audio/mp4", "audio/ogg"})
"""Containers: with or without pictures they begin alike."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What is said of a file by whoever sends it."""

    name: str
    content_type: str | None = None

    @property
    def declared(self) -> str:
        return (self.content_type or "").partition(";")[0].strip().lower()

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix[1:].lower()


def detect(head: bytes, *, is_whole: bool = False) -> str:
    """The content type that the first bytes of a file show; `UNKNOWN` where they show none.

    `is_whole`: there is no more of it.
    """
    for signature, content_type in _SIGNATURES:
        if head.startswith(signature):
            return content_type
    return (
        _detect_container(head)
        or _detect_stream(head)
        or _detect_tensors(head)
        or _detect_text(head, is_whole=is_whole)
        or UNKNOWN
    )


def judge(head: bytes, claims: Claims, allowed: tuple[str, ...], *, is_whole: bool = False) -> str:
    """The content type of a file that may be kept. Raises UnsupportedMediaType for another one,
    and for one that is said to be of another kind.
    """
    found = refine(detect(head, is_whole=is_whole), claims)
    if found in NEVER_ALLOWED or not is_allowed(found, allowed):
        raise UnsupportedMediaType(
            f"'{claims.name}' is {_described(found)}, which cannot be uploaded. "
            + (
                "SVG, HTML and XML never can: a browser could run what is in them."
                if found in NEVER_ALLOWED
                else f"These can: {', '.join(allowed)}."
            ),
            code="CONTENT_TYPE_REFUSED",
            details={"name": claims.name, "detected": found},
        )
    claimed = _contradiction(found, claims)
    if claimed is not None:
        raise UnsupportedMediaType(
            f"'{claims.name}' is said to be {claimed}, but its content is {_described(found)}. "
            "Send it under its own name and type.",
            code="CONTENT_TYPE_MISMATCH",
            details={"name": claims.name, "declared": claimed, "detected": found},
        )
    return found


def refine(found: str, claims: Claims) -> str:
    """Texts are told apart by their names: all look alike."""
    if found == JSON and claims.suffix == "gltf":
        return "model/gltf+json"
    if found == JSON and claims.suffix == "txt":
        return TEXT
    if found == "video/mp4" and (claims.suffix == "m4a" or claims.declared.startswith("audio/")):
        return "audio/mp4"
    if found == "audio/ogg" and (claims.suffix == "ogv" or claims.declared == "video/ogg"):
        return "video/ogg"
    if found == "video/webm" and (claims.suffix == "mkv" or "matroska" in claims.declared):
        return "video/x-matroska"
    return found


def is_allowed(content_type: str, allowed: tuple[str, ...]) -> bool:
    main = content_type.partition("/")[0]
    return any(rule in {content_type, f"{main}/*", "*/*", "*"} for rule in allowed)


def _contradiction(found: str, claims: Claims) -> str | None:
    """What is said of a file that is not so."""
    kinds = {_kind_of(found)}
    if found in _SEVERAL_KINDS:
        kinds = {"audio", "video"}
    declared = claims.declared
    if declared not in NO_CLAIM and "/" in declared and _kind_of(declared) not in kinds:
        return declared
    said = _KIND_OF_SUFFIX.get(claims.suffix)
    return f".{claims.suffix}" if said is not None and said not in kinds else None


def _kind_of(content_type: str) -> str:
    known = _KIND_OF_TYPE.get(content_type)
    return known or content_type.partition("/")[0]


def _described(content_type: str) -> str:
    return "of an unknown kind" if content_type == UNKNOWN else content_type


def _detect_container(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and len(head) >= 12:
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        brands = [head[8:12]]
        size = min(int.from_bytes(head[:4], "big"), 256)
        brands += [head[at : at + 4] for at in range(16, size, 4)]
        known = (_BRANDS[brand] for brand in brands if brand in _BRANDS)
        # One that is a picture says so first; a film may name Apple's brand among others.
        return _BRANDS.get(brands[0]) or next(
            (each for each in known if each.startswith("image/")), "video/mp4"
        )
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return "video/x-matroska" if b"matroska" in head[:64] else "video/webm"
    return None


def _detect_stream(head: bytes) -> str | None:
    if head[:2] == b"BM" and len(head) >= 26 and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    if len(head) >= 4 and head[0] == 0xFF:
        if head[1] & 0xF6 == 0xF0:
            return "audio/aac"
        has_layer = head[1] & 0xE0 == 0xE0 and head[1] & 0x06 != 0
        if has_layer and head[2] & 0xF0 != 0xF0 and head[2] & 0x0C != 0x0C:
            return "audio/mpeg"
    return None


def _detect_tensors(head: bytes) -> str | None:
    length = int.from_bytes(head[:8], "little")
    if 2 <= length <= _LONGEST_SAFETENSORS_HEADER and head[8:10] in {b'{"', b"{ ", b"{}", b"{\n"}:
        return "application/x-safetensors"
    return None


def _detect_text(head: bytes, *, is_whole: bool) -> str | None:
    if not is_text(head, is_whole=is_whole):
        return None
    begin = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if _MARKUP.match(begin):
        if re.search(rb"<svg\b", begin[:4096], re.IGNORECASE):
            return "image/svg+xml"
        return "text/xml" if begin[:5].lower() == b"<?xml" else "text/html"
    return JSON if begin[:1] in {b"{", b"["} else TEXT


def is_text(content: bytes, *, is_whole: bool) -> bool:
    """UTF-8 without control characters that no text has."""
    if not content or re.search(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]", content):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content, final=is_whole)
    except UnicodeDecodeError:
        return False
    return True
