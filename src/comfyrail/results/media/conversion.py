"""Making a picture into another format, or smaller in its own."""

from pathlib import Path
from typing import Any

from PIL import Image

from comfyrail.jobs.output_config import ImageFormat
from comfyrail.results.media.animations import Timing, timing_of
from comfyrail.results.media.messages import Convert, MadeFile
from comfyrail.results.media.picture_files import on_white, opened, plain, upright
from comfyrail.results.media.picture_texts import options_with, texts_of_picture
from comfyrail.results.media.pictures import frames_of
from comfyrail.results.media.unusable import Unusable

FORMATS: dict[ImageFormat, str] = {"png": "PNG", "jpeg": "JPEG", "webp": "WEBP", "avif": "AVIF"}
SUFFIXES: dict[ImageFormat, str] = {
    "png": ".png",
    "jpeg": ".jpg",
    "webp": ".webp",
    "avif": ".avif",
}
QUALITIES: dict[ImageFormat, int] = {"jpeg": 90, "webp": 90, "avif": 80}
"""Where none is asked for."""
MOST_FRAMES = 3000
LONGEST_SIDES: dict[ImageFormat, int] = {"jpeg": 65500, "webp": 16383, "avif": 65535}
COPIED_BYTES = 1 << 30
LONGEST_PROFILE = 1 << 20
_DEEP_MODES = frozenset({"I;16", "I"})
_OF_TYPE: dict[str, ImageFormat] = {f"image/{name}": name for name in FORMATS}


def convert(task: Convert) -> MadeFile | None:
    """None where it is as it should be already. Raises Unusable."""
    own = _OF_TYPE.get(task.content_type)
    wanted = task.format or own
    has_quality = task.quality is not None and wanted in QUALITIES
    if wanted is None or (wanted == own and not has_quality):
        return None
    if FORMATS[wanted] not in _writable():
        raise Unusable(f"This server's Pillow cannot write {wanted}. Install a newer one.")
    path, target = Path(task.path), Path(task.folder) / f"converted{SUFFIXES[wanted]}"
    with opened(path, task.content_type) as picture, path.open("rb") as file:
        _check_sides(picture, wanted)
        timing = timing_of(task.content_type, file) or frames_of(picture)
        texts = texts_of_picture(picture, file)
        options = {
            **options_with(texts, FORMATS[wanted]),
            **_encoder(wanted, task.quality),
        }
        if timing is not None:
            made = _save_animation(picture, timing, target, wanted, options)
        else:
            made = _save_still(picture, target, wanted, options)
    return MadeFile(
        name="converted",
        file=target.name,
        content_type=f"image/{wanted}",
        width=made[0],
        height=made[1],
    )


def _check_sides(picture: Image.Image, wanted: ImageFormat) -> None:
    most = LONGEST_SIDES.get(wanted)
    if most is not None and max(picture.size) > most:
        width, height = picture.size
        raise Unusable(
            f"It is {width} by {height} pixels large; a {wanted} has at most {most} on a side."
        )


def _writable() -> frozenset[str]:
    Image.init()
    return frozenset(Image.SAVE)


def _encoder(wanted: ImageFormat, quality: int | None) -> dict[str, Any]:
    match wanted:
        case "png":
            return {"compress_level": 6}
        case "jpeg":
            return {"quality": quality or QUALITIES[wanted], "optimize": True}
        case "webp":
            return {"quality": quality or QUALITIES[wanted], "method": 2}
        case "avif":
            return {"quality": quality or QUALITIES[wanted], "speed": 8, "max_threads": 1}


def _save_still(
    picture: Image.Image, target: Path, wanted: ImageFormat, options: dict[str, Any]
) -> tuple[int, int]:
    made = upright(picture)
    if wanted == "jpeg":
        made = on_white(made)
    elif wanted != "png" or made.mode not in _DEEP_MODES:
        made = plain(made)
    profile = picture.info.get("icc_profile")
    if picture.mode in {"RGB", "RGBA"} and profile and len(profile) <= LONGEST_PROFILE:
        options = {**options, "icc_profile": profile}
    made.info.clear()
    made.save(target, FORMATS[wanted], **options)
    return made.size


def _save_animation(
    picture: Image.Image,
    timing: Timing,
    target: Path,
    wanted: ImageFormat,
    options: dict[str, Any],
) -> tuple[int, int]:
    if wanted == "jpeg":
        raise Unusable("It is an animation, and a JPEG is one picture.")
    if timing.frames > MOST_FRAMES:
        raise Unusable(f"It has {timing.frames} frames; up to {MOST_FRAMES} are converted.")
    loop = int(picture.info.get("loop", 0) or 0)
    frames = getattr(picture, "n_frames", 1)
    shown = timing.milliseconds[:frames]
    if picture.info.get("default_image") and frames > 1:
        picture, *others = _frames_without_the_first(picture, frames)
        options = {**options, "append_images": others}
    elif not isinstance(picture.info.get("background"), tuple):
        picture.info.pop("background", None)  # a GIF's is a number in a palette
    picture.save(
        target,
        FORMATS[wanted],
        save_all=True,
        duration=shown,
        loop=loop,
        **options,
    )
    return picture.size


def _frames_without_the_first(picture: Image.Image, frames: int) -> list[Image.Image]:
    """The still picture that an animated PNG shows to those who know no animations is no frame of
    it.
    """
    width, height = picture.size
    if width * height * 4 * frames > COPIED_BYTES:
        raise MemoryError
    copies = []
    for number in range(1, frames):
        picture.seek(number)
        copy = picture.copy()
        copy.info.clear()
        copies.append(copy)
    return copies
