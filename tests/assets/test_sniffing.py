"""What a file is, its bytes say [10.8]."""

import io
import json
import struct

import pytest
from PIL import Image

from comfyrail.errors import UnsupportedMediaType
from comfyrail.results.image_sizes import size_of_image
from comfyrail.sniffing import ALLOWED_TYPES, Claims, detect, judge
from tests.assets.parts import huge_png, picture, png

SAFETENSORS = struct.pack("<Q", 20) + b'{"x":{"dtype":"F32"}}' + bytes(16)
FTYP = b"\x00\x00\x00\x18ftyp"

KINDS = {
    "image/png": png(),
    "image/jpeg": picture("JPEG"),
    "image/webp": picture("WEBP"),
    "image/gif": picture("GIF"),
    "image/bmp": picture("BMP"),
    "image/tiff": picture("TIFF"),
    "image/avif": picture("AVIF"),
    "image/heic": FTYP + b"heic" + bytes(8) + b"mif1",
    "video/mp4": FTYP + b"isom" + bytes(4) + b"isomavc1",
    "video/quicktime": FTYP + b"qt  " + bytes(12),
    "video/webm": b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01webm",
    "video/x-matroska": b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01matroska",
    "video/x-msvideo": b"RIFF\x00\x00\x00\x00AVI LIST",
    "audio/wav": b"RIFF\x24\x00\x00\x00WAVEfmt ",
    "audio/mpeg": b"ID3\x04\x00\x00\x00\x00\x00\x00",
    "audio/flac": b"fLaC\x00\x00\x00\x22",
    "audio/ogg": b"OggS\x00\x02" + bytes(20),
    "audio/mp4": FTYP + b"M4A " + bytes(12),
    "audio/aac": b"\xff\xf1\x50\x80\x02\x1f\xfc",
    "model/gltf-binary": b"glTF\x02\x00\x00\x00",
    "application/x-safetensors": SAFETENSORS,
    "application/x-npy": b"\x93NUMPY\x01\x00v\x00{'descr'",
    "application/json": b'{"a": 1}',
    "text/plain": "grüße\r\n\tzwei".encode(),
    "application/zip": b"PK\x03\x04\x14\x00",
    "image/svg+xml": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "text/html": b"\xef\xbb\xbf  <!DOCTYPE html><script>alert(1)</script>",
    "application/octet-stream": b"\x7fELF\x02\x01\x01" + bytes(20),
}


@pytest.mark.parametrize("content_type", KINDS)
def test_every_kind_is_known_by_its_first_bytes(content_type: str) -> None:
    assert detect(KINDS[content_type], is_whole=True) == content_type


def test_an_mp3_without_a_tag_is_one() -> None:
    assert detect(b"\xff\xfb\x90\x64" + bytes(100)) == "audio/mpeg"


@pytest.mark.parametrize("content_type", ["text/html", "image/svg+xml"])
def test_what_a_browser_would_run_is_refused_whatever_is_allowed(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        judge(KINDS[content_type], Claims("x.png"), ("*/*", content_type), is_whole=True)
    assert caught.value.code == "CONTENT_TYPE_REFUSED"


@pytest.mark.parametrize("content_type", ["application/zip", "application/octet-stream"])
def test_kinds_that_nobody_allowed_are_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        judge(KINDS[content_type], Claims("x.bin"), ALLOWED_TYPES, is_whole=True)
    assert caught.value.code == "CONTENT_TYPE_REFUSED"
    assert judge(KINDS[content_type], Claims("x.bin"), (content_type,), is_whole=True)


@pytest.mark.parametrize(
    ("content_type", "claims"),
    [
        ("image/png", Claims("x.png", "video/mp4")),
        ("image/png", Claims("x.mp4")),
        ("image/png", Claims("x.html")),
        ("image/png", Claims("x.svg")),
        ("image/png", Claims("x.py")),
        ("application/json", Claims("x.png", "image/png")),
        ("application/x-safetensors", Claims("x.pt")),
        ("audio/wav", Claims("x", "text/plain")),
    ],
)
def test_a_file_that_is_said_to_be_something_else_is_refused(
    content_type: str, claims: Claims
) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        judge(KINDS[content_type], claims, ALLOWED_TYPES, is_whole=True)
    assert caught.value.code == "CONTENT_TYPE_MISMATCH"
    assert caught.value.details["detected"] == content_type


@pytest.mark.parametrize(
    ("content_type", "claims", "found"),
    [
        ("image/png", Claims("x.jpg", "image/jpeg"), "image/png"),
        ("image/png", Claims("x", "application/octet-stream"), "image/png"),
        ("image/png", Claims("x.unknown", "application/x-www-form-urlencoded"), "image/png"),
        ("video/mp4", Claims("x.m4a", "audio/mp4"), "audio/mp4"),
        ("audio/ogg", Claims("x.ogv", "video/ogg"), "video/ogg"),
        ("application/json", Claims("scene.gltf"), "model/gltf+json"),
        ("application/x-safetensors", Claims("a.latent"), "application/x-safetensors"),
    ],
)
def test_small_mistakes_do_not_matter(content_type: str, claims: Claims, found: str) -> None:
    assert judge(KINDS[content_type], claims, ALLOWED_TYPES, is_whole=True) == found


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_the_size_of_an_image_is_in_its_header(kind: str) -> None:
    content = picture(kind, (37, 21))
    assert size_of_image(detect(content), io.BytesIO(content)) == (37, 21)


def test_the_size_of_a_lossless_and_of_an_animated_webp_is_found() -> None:
    image, file = Image.new("RGBA", (37, 21)), io.BytesIO()
    image.save(file, "WEBP", lossless=True)
    assert size_of_image("image/webp", io.BytesIO(file.getvalue())) == (37, 21)
    file = io.BytesIO()
    image.save(file, "WEBP", save_all=True, append_images=[Image.new("RGBA", (37, 21), "red")])
    assert size_of_image("image/webp", io.BytesIO(file.getvalue())) == (37, 21)


def test_the_size_of_a_jpeg_is_found_behind_a_long_comment() -> None:
    content = picture("JPEG", (37, 21))
    comment = b"\xff\xfe\xff\xff" + bytes(65533)
    assert size_of_image("image/jpeg", io.BytesIO(content[:2] + comment * 3 + content[2:])) == (
        37,
        21,
    )


@pytest.mark.parametrize("content_type", [each for each in KINDS if each.startswith("image/")])
def test_headers_that_break_off_have_no_size_and_do_no_harm(content_type: str) -> None:
    whole = KINDS[content_type]
    for length in range(0, min(len(whole), 60), 7):
        size_of_image(content_type, io.BytesIO(whole[:length]))


def test_a_header_says_how_large_a_picture_would_be() -> None:
    content = huge_png(60_000, 60_000)
    assert len(content) < 1000
    assert size_of_image("image/png", io.BytesIO(content)) == (60_000, 60_000)


def test_a_large_json_is_json() -> None:
    content = json.dumps({"key": "ü" * 100_000}, ensure_ascii=False).encode()
    assert detect(content[: 1 << 16]) == "application/json"
