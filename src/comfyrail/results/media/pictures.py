"""Pictures: what they are, and thumbnails of them."""

from PIL import Image

from comfyrail.results.image_sizes import size_of_image
from comfyrail.results.media.animations import Timing, timing_of
from comfyrail.results.media.findings import Findings, seconds
from comfyrail.results.media.picture_files import opened, plain, upright
from comfyrail.results.media.picture_texts import texts_of_picture
from comfyrail.results.media.thumbnails import SIDES, make_thumbnails

MOST_FRAMES_COUNTED = 300
"""Of a format whose frames must be unpacked to be counted."""
_TURNED = frozenset({5, 6, 7, 8})
"""Orientations of EXIF by which width and height change places."""
_ORIENTATION = 0x0112


def look_into(findings: Findings) -> None:
    path = findings.path
    with path.open("rb") as file:
        width, height = size_of_image(findings.content_type, file) or (None, None)
    findings.note(width=width, height=height)
    with opened(path, findings.content_type) as picture, path.open("rb") as file:
        width, height = picture.size
        findings.note(
            format=(picture.format or "").lower() or None,
            width=width,
            height=height,
            has_alpha=picture.has_transparency_data,
        )
        if picture.getexif().get(_ORIENTATION) in _TURNED:
            findings.note(width=height, height=width)
        timing = timing_of(findings.content_type, file) or frames_of(picture)
        if timing is not None:
            _note_animation(findings, timing)
        findings.keep_graphs(texts_of_picture(picture, file))
        picture.draft("RGB", (SIDES[0], SIDES[0]))  # JPEG: unpacked at a fraction of its size
        make_thumbnails(plain(upright(picture)), findings)


def _note_animation(findings: Findings, timing: Timing) -> None:
    length = timing.duration
    findings.note(
        kind="animation",
        frames=timing.frames,
        duration=seconds(length),
        fps=round(timing.frames / length, 3) if length > 0 else None,
    )


def frames_of(picture: Image.Image) -> Timing | None:
    """Of an animated AVIF."""
    frames = getattr(picture, "n_frames", 1)
    if picture.format != "AVIF" or frames < 2:
        return None
    shown = []
    for number in range(min(frames, MOST_FRAMES_COUNTED)):
        picture.seek(number)
        picture.load()
        shown.append(float(picture.info.get("duration", 0)) / 1000)
    picture.seek(0)
    shown += [shown[-1]] * (frames - len(shown))
    return Timing(tuple(shown))
