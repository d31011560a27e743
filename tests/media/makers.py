"""Files of every kind, made by code."""

import io
import json
import struct
import wave
import zlib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame
from PIL import Image
from PIL.PngImagePlugin import PngInfo

PROMPT = json.dumps({"1": {"class_type": "EmptyImage", "inputs": {"text": "a red fox"}}})
WORKFLOW = json.dumps({"nodes": [], "links": [], "version": 0.4})
FORMATS = {"webm": "webm", "mp4": "mp4", "mkv": "matroska"}


def gradient(width: int, height: int, mode: str = "RGB") -> Image.Image:
    ramp = np.linspace(0, 255, width, dtype=np.uint8)
    row = np.broadcast_to(ramp, (height, width))
    picture = Image.merge("RGB", [Image.fromarray(row.copy())] * 3)
    return picture.convert(mode)


def png(width: int = 1200, height: int = 600, mode: str = "RGB", **texts: str) -> bytes:
    info = PngInfo()
    for name, text in texts.items():
        info.add_text(name, text)
    return encoded(gradient(width, height, mode), "PNG", pnginfo=info)


def encoded(picture: Image.Image, format_name: str, **options: Any) -> bytes:
    target = io.BytesIO()
    picture.save(target, format_name, **options)
    return target.getvalue()


def deep_png(width: int = 600, height: int = 300) -> bytes:
    """16 bits a pixel: from black to white."""
    ramp = np.linspace(0, 65535, width).astype(np.uint16)
    rows = np.broadcast_to(ramp, (height, width)).copy()
    return encoded(Image.fromarray(rows), "PNG")


def frames(count: int = 3, width: int = 600, height: int = 400) -> list[Image.Image]:
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    return [Image.new("RGB", (width, height), colours[i % 3]) for i in range(count)]


def animation(format_name: str, milliseconds: int = 200, **options: Any) -> bytes:
    first, *others = frames()
    return encoded(
        first,
        format_name,
        save_all=True,
        append_images=others,
        duration=milliseconds,
        loop=0,
        **options,
    )


def film(
    suffix: str = "mp4",
    codec: str = "mpeg4",
    *,
    black: int = 5,
    shown: int = 10,
    size: tuple[int, int] = (640, 360),
    with_sound: bool = True,
    tags: Mapping[str, str] | None = None,
) -> bytes:
    """Some black frames, then some orange ones; 10 a second."""
    target = io.BytesIO()
    options = {"movflags": "use_metadata_tags"} if suffix == "mp4" else {}
    with av.open(target, "w", format=FORMATS[suffix], options=options) as container:
        for name, text in (tags or {}).items():
            container.metadata[name] = text
        stream: Any = container.add_stream(codec, rate=10)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        sound: Any = container.add_stream("aac" if suffix == "mp4" else "libopus", rate=48_000)
        for number in range(black + shown):
            colour = (0, 0, 0) if number < black else (250, 140, 20)
            pixels = np.full((size[1], size[0], 3), colour, np.uint8)
            frame = VideoFrame.from_ndarray(pixels, format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if with_sound:
            for part in tone(1.5, 48_000):
                container.mux(sound.encode(part))
            container.mux(sound.encode())
    return target.getvalue()


def tone(length: float, rate: int) -> list[AudioFrame]:
    """A sine that begins silent and is loud at the end, on two channels."""
    count = int(length * rate)
    times = np.arange(count) / rate
    wave_ = (np.sin(times * 440 * 2 * np.pi) * np.linspace(0, 0.9, count)).astype(np.float32)
    made = []
    for start in range(0, count, 960):
        part = np.stack([wave_[start : start + 960]] * 2)
        frame = AudioFrame.from_ndarray(np.ascontiguousarray(part), format="fltp", layout="stereo")
        frame.sample_rate = rate
        frame.pts = start
        frame.time_base = Fraction(1, rate)
        made.append(frame)
    return made


SOUNDS = {
    "mp4": ("aac", 44_100),
    "flac": ("flac", 44_100),
    "mp3": ("libmp3lame", 44_100),
    "ogg": ("libopus", 48_000),
}


def sound(suffix: str, length: float = 2.0, tags: Mapping[str, str] | None = None) -> bytes:
    codec, rate = SOUNDS[suffix]
    target = io.BytesIO()
    with av.open(target, "w", format=suffix) as container:
        for name, text in (tags or {}).items():
            container.metadata[name] = text
        stream: Any = container.add_stream(codec, rate=rate, layout="stereo")
        resampler = av.AudioResampler(
            format=stream.format.name, layout="stereo", rate=rate, frame_size=stream.frame_size
        )
        for frame in [*tone(length, rate), None]:
            for part in resampler.resample(frame):
                container.mux(stream.encode(part))
        container.mux(stream.encode())
    return target.getvalue()


def wav(length: float = 2.0, rate: int = 8000) -> bytes:
    times = np.arange(int(length * rate)) / rate
    samples = (np.sin(times * 440 * 2 * np.pi) * 0.5 * 32767).astype("<i2")
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return target.getvalue()


def glb() -> bytes:
    described = json.dumps(
        {
            "asset": {"version": "2.0", "generator": "a test"},
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [{"count": 24, "type": "VEC3", "componentType": 5126}],
            "nodes": [{"mesh": 0}],
        }
    ).encode()
    described += b" " * (-len(described) % 4)
    chunk = struct.pack("<I4s", len(described), b"JSON") + described
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunk)) + chunk


def latent() -> bytes:
    header = json.dumps(
        {
            "__metadata__": {"prompt": PROMPT, "workflow": WORKFLOW},
            "latent_format_version_0": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
            "latent_tensor": {"dtype": "F32", "shape": [1, 4, 2, 2], "data_offsets": [0, 64]},
        }
    ).encode()
    return struct.pack("<Q", len(header)) + header + bytes(64)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_bomb(side: int = 50_000) -> bytes:
    """A few kilobytes that would be gigabytes of pixels."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1 << 20), 9)
    return png_of(head, pixels)


def png_of(head: bytes, pixels: bytes) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def long_wav(hours: float, rate: int = 8000) -> bytes:
    """Quiet noise, the same second again and again."""
    second = np.random.default_rng(1).integers(-3000, 3000, rate, np.int16).tobytes()
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(second * int(hours * 3600))
    return target.getvalue()


def webp_bomb() -> bytes:
    """An animation that says that its canvas is as large as the format allows."""
    content = bytearray(animation("WEBP"))
    assert content[12:16] == b"VP8X"
    content[24:30] = (16383).to_bytes(3, "little") * 2
    return bytes(content)


def tiff_bomb(side: int = 100_000) -> bytes:
    content = bytearray(encoded(Image.new("L", (8, 8)), "TIFF", compression="tiff_adobe_deflate"))
    for tag in (256, 257):
        at = content.index(struct.pack("<HHI", tag, 3, 1))
        content[at : at + 12] = struct.pack("<HHII", tag, 4, 1, side)
    return bytes(content)


def lying_film(hours: int = 100) -> bytes:
    """A film of a second and a half whose header says that it has this many hours."""
    content = bytearray(film())
    for box in (b"mvhd", b"mdhd"):
        at = content.index(box)
        (scale,) = struct.unpack(">I", content[at + 16 : at + 20])
        content[at + 20 : at + 24] = struct.pack(">I", min(hours * 3600 * scale, 0xFFFFFFF0))
    return bytes(content)


def lying_wav() -> bytes:
    content = bytearray(wav())
    at = content.index(b"data")
    content[at + 4 : at + 8] = struct.pack("<I", 0x7FFFFFF0)
    return bytes(content)
