"""Picture files of many kinds: modes, depths, animations, turned ones, broken ones."""

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

HEIGHT, WIDTH = 13, 17
ORIENTATION = 0x112


def write_kinds_of_pictures(folder: Path) -> list[str]:
    """Write them all; gives their names."""
    for name, picture, options in _plain_kinds(np.random.default_rng(3)):
        picture.save(folder / name, **options)
    for name, frames, options in _animated_kinds(np.random.default_rng(4)):
        frames[0].save(folder / name, save_all=True, append_images=frames[1:], **options)
    for name, content in _raw_kinds(np.random.default_rng(5)):
        (folder / name).write_bytes(content)
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def _noise(
    source: np.random.Generator, *channels: int, kind: Any = np.uint8, below: int = 256
) -> npt.NDArray[Any]:
    return source.integers(0, below, (HEIGHT, WIDTH, *channels)).astype(kind)


def _plain_kinds(source: np.random.Generator) -> Iterator[tuple[str, Image.Image, dict[str, Any]]]:
    rgb, rgba = (Image.fromarray(_noise(source, channels)) for channels in (3, 4))
    grey = Image.fromarray(_noise(source))
    grey_alpha = Image.merge("LA", [Image.fromarray(_noise(source)) for _ in range(2)])
    palette = rgb.quantize(16)
    bits = Image.fromarray(_noise(source) > 128)
    for suffix in ("png", "tif", "bmp", "webp", "jpg", "gif", "ppm"):
        yield f"rgb.{suffix}", rgb, {}
    for suffix in ("png", "tif", "bmp", "webp", "gif", "ico", "tga"):
        yield f"rgba.{suffix}", rgba, {"lossless": True} if suffix == "webp" else {}
    for suffix in ("png", "jpg", "tif"):
        yield f"l.{suffix}", grey, {}
    for suffix in ("png", "tif"):
        yield f"la.{suffix}", grey_alpha, {}
    for suffix in ("png", "bmp", "gif"):
        yield f"p.{suffix}", palette, {}
        yield f"one.{suffix}", bits, {}
    yield "p-one-clear.png", palette, {"transparency": 3}
    yield "p-one-clear.gif", palette, {"transparency": 2}
    yield "p-half-clear.png", palette, {"transparency": bytes(range(0, 256, 16))}
    yield "l-one-clear.png", grey, {"transparency": int(np.asarray(grey)[0, 0])}
    clear = tuple(int(value) for value in np.asarray(rgb)[0, 0])
    yield "rgb-one-clear.png", rgb, {"transparency": clear}
    deep = Image.fromarray(_noise(source, kind=np.uint16, below=65536))
    yield "i16.png", deep, {}
    yield "i16.tif", deep, {}
    yield "i32.tif", Image.fromarray(_noise(source, kind=np.int32, below=70000)), {}
    yield "f.tif", Image.fromarray(source.random((HEIGHT, WIDTH)).astype(np.float32) * 300), {}
    yield "cmyk.jpg", rgb.convert("CMYK"), {}
    yield "cmyk.tif", rgb.convert("CMYK"), {}
    yield "ycbcr.tif", rgb.convert("YCbCr"), {}
    yield "lab.tif", rgb.convert("LAB"), {}
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        yield f"turned-{orientation}.jpg", rgb, {"exif": exif}
        yield f"turned-{orientation}.png", rgba, {"exif": exif}
        yield f"turned-{orientation}.webp", rgba, {"exif": exif, "lossless": True}
    yield "turned-i16.png", deep, {"exif": exif}
    yield "turned-p.png", palette, {"exif": exif, "transparency": 3}


def _animated_kinds(
    source: np.random.Generator,
) -> Iterator[tuple[str, list[Image.Image], dict[str, Any]]]:
    opaque, clear = (
        [Image.fromarray(_noise(source, channels)) for _ in range(3)] for channels in (3, 4)
    )
    stripes = np.indices((HEIGHT, WIDTH)).sum(axis=0)[..., None] % 5
    partial = [
        Image.fromarray(np.where(stripes <= step, _noise(source, 4), 0).astype(np.uint8))
        for step in range(3)
    ]
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    yield "animated.gif", opaque, {"duration": 50}
    yield "animated-clear.gif", clear, {"disposal": 2}
    yield "animated-partial.gif", partial, {"disposal": [0, 1, 2]}
    yield "animated.png", opaque, {}
    yield "animated-clear.png", clear, {"disposal": 1, "blend": 1}
    yield "animated-partial.png", partial, {}
    yield "animated-default.png", clear, {"default_image": True}
    yield "animated.webp", opaque, {"lossless": True}
    yield "animated-clear.webp", clear, {"lossless": True}
    yield "animated-turned.webp", clear, {"lossless": True, "exif": exif}
    yield "pages.tif", opaque, {}
    yield "pages-of-sizes.tif", [opaque[0], opaque[1].resize((9, 9)), opaque[2]], {}


def _raw_kinds(source: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for kind, (colour_type, channels) in {"rgb": (2, 3), "la": (4, 2), "rgba": (6, 4)}.items():
        deep = _noise(source, channels, kind=np.uint16, below=65536)
        yield f"{kind}16.png", _deep_png(deep, colour_type)
    large = Image.fromarray(source.integers(0, 256, (64, 64, 3), np.uint8))
    for name in ("JPEG", "PNG", "WEBP"):
        encoded = io.BytesIO()
        large.save(encoded, name)
        whole = encoded.getvalue()
        yield f"cut-short.{name.lower()}", whole[: len(whole) * 2 // 3]
    yield "no-picture.png", b"hello"
    yield "empty.png", b""


def _deep_png(pixels: npt.NDArray[Any], colour_type: int) -> bytes:
    """16 bits for each channel, which Pillow does not write."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, colour_type, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
