"""Films as files, and the other way round. PyAV is loaded when the first one comes.

A film is a mapping with `images` [frames,H,W,3], `frame_rate`, and `audio`, a sound or None.
"""

import io
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.pixels import FloatArray, to_bytes
from comfyrail.engine.sound_files import SoundTrack, decode_sound, type_of_file
from comfyrail.engine.sound_values import rate_of, sounds_of

Film: TypeAlias = Mapping[str, Any]

SMALLEST_AV1 = 64
"""Below, its encoder may never end."""
_DIGITS = 1000
"""A rate of frames is told to a thousandth."""


def encode_mp4(film: Film, texts: Mapping[str, str], check: Callable[[], None]) -> bytes:
    """H.264 and AAC in MP4. `check` is called with every frame."""
    return _encode(
        film,
        texts,
        check,
        format_name="mp4",
        codec="libx264",
        pixels="yuv420p",
        options={},
        container_options={"movflags": "use_metadata_tags"},
    )


def encode_webm(
    film: Film, texts: Mapping[str, str], codec: str, crf: float, check: Callable[[], None]
) -> bytes:
    """`codec`: vp9 or av1. Raises ValueError for pictures that are too small for AV1."""
    is_av1 = codec == "av1"
    height, width = np.shape(film["images"])[1:3]
    if is_av1 and min(height, width) < SMALLEST_AV1:
        raise ValueError(
            f"The pictures are {width} by {height} pixels large; AV1 needs at least "
            f"{SMALLEST_AV1} by {SMALLEST_AV1}. Make them larger, or use vp9."
        )
    return _encode(
        film,
        texts,
        check,
        format_name="webm",
        codec="libsvtav1" if is_av1 else "libvpx-vp9",
        pixels="yuv420p10le" if is_av1 else "yuv420p",
        options={"crf": str(round(crf)), **({"preset": "6"} if is_av1 else {"cpu-used": "4"})},
        container_options={},
    )


def _encode(
    film: Film,
    texts: Mapping[str, str],
    check: Callable[[], None],
    *,
    format_name: str,
    codec: str,
    pixels: str,
    options: Mapping[str, str],
    container_options: Mapping[str, str],
) -> bytes:
    import av  # noqa: PLC0415 - see above

    try:
        return _written(
            film,
            texts,
            check,
            format_name=format_name,
            codec=codec,
            pixels=pixels,
            options=options,
            container_options=container_options,
        )
    except av.FFmpegError as error:
        raise ValueError(f"The film cannot be saved as {format_name}: {error.strerror}.") from error


def _written(
    film: Film,
    texts: Mapping[str, str],
    check: Callable[[], None],
    *,
    format_name: str,
    codec: str,
    pixels: str,
    options: Mapping[str, str],
    container_options: Mapping[str, str],
) -> bytes:
    import av  # noqa: PLC0415 - see above

    images = np.asarray(film["images"])
    # Colours are kept for four pixels together: an odd row or column would be half a one.
    height, width = (max(2, side // 2 * 2) for side in images.shape[1:3])
    rate = Fraction(round(float(film["frame_rate"]) * _DIGITS), _DIGITS)
    target = io.BytesIO()
    with av.open(
        target, "w", format=format_name, container_options=dict(container_options)
    ) as container:
        container.metadata.update(texts)
        stream: Any = container.add_stream(codec, rate=rate, options=dict(options))
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        if codec != "libx264":
            stream.bit_rate = 0
        sound = film.get("audio")
        track = None
        if sound is not None:
            # As ComfyUI has it: the sound ends with the last frame.
            most = math.ceil(rate_of(sound) * len(images) / rate)
            samples = next(sounds_of(sound))[:, :most]
            track = SoundTrack(container, samples, rate_of(sound), "aac")
        for image in images:
            check()
            container.mux(stream.encode(_frame(image, width, height)))
        container.mux(stream.encode())
        if track is not None:
            track.write(check)
    return target.getvalue()


def _frame(image: FloatArray, width: int, height: int) -> Any:
    from av.video.frame import VideoFrame  # noqa: PLC0415 - see above

    colours = to_bytes(
        image[..., :3] if image.shape[-1] >= 3 else image.repeat(3, axis=-1)[..., :3]
    )
    padded = np.pad(
        colours,
        ((0, max(0, height - len(colours))), (0, max(0, width - colours.shape[1])), (0, 0)),
        mode="edge",
    )
    return VideoFrame.from_ndarray(np.ascontiguousarray(padded[:height, :width]), format="rgb24")


def decode_film(path: Path, check: Callable[[], None]) -> dict[str, Any]:
    """Raises ValueError where it is none, MemoryError where there is too much of it."""
    from comfyrail.engine.containers import opened_container  # noqa: PLC0415 - see above

    content_type = type_of_file(path)
    images, rate = _decode_pictures(path, content_type, check)
    audio = None
    with opened_container(path, content_type) as container:
        if container.streams.audio:
            samples, sample_rate = decode_sound(container, check)
            audio = {"waveform": samples[None], "sample_rate": sample_rate}
    return {"images": images, "audio": audio, "frame_rate": rate}


def _decode_pictures(
    path: Path, content_type: str, check: Callable[[], None]
) -> tuple[FloatArray, float]:
    """Into one array that is made before, so that they are never there twice."""
    from comfyrail.engine.containers import opened_container  # noqa: PLC0415 - see above

    expected = _count_packets(path, content_type, check)
    with opened_container(path, content_type) as container:
        stream = container.streams.video[0]
        size = (stream.height, stream.width, 3)
        check_room_for((max(1, expected), *size))
        images: FloatArray | None = None
        count = 0
        for frame in container.decode(stream):
            check()
            pixels = frame.to_ndarray(format="rgb24")
            if images is None:
                check_room_for((max(1, expected), *pixels.shape))
                images = np.empty((max(1, expected), *pixels.shape), np.float32)
            if pixels.shape != images.shape[1:]:
                raise ValueError("The pictures of the film are not of one size.")
            if count == len(images):
                more = max(1, count // 4)
                check_room_for((count + more, *pixels.shape))
                images = np.concatenate([images, np.empty_like(images[:more])])
            np.divide(pixels, np.float32(255), out=images[count])
            count += 1
        rate = float(stream.average_rate or 1)
    if images is None:
        raise ValueError("There is no picture in the film.")
    return images[:count], rate


def _count_packets(path: Path, content_type: str, check: Callable[[], None]) -> int:
    """As many pictures as there will be, mostly: nothing is unpacked for it."""
    from comfyrail.engine.containers import opened_container  # noqa: PLC0415 - see above

    with opened_container(path, content_type) as container:
        if not container.streams.video:
            raise ValueError("There is no film in the file.")
        count = 0
        for packet in container.demux(container.streams.video[0]):
            check()
            count += bool(packet.size)
        return count
