"""Small pictures of a picture."""

from PIL import Image

from comfyrail.results.media.findings import Findings

SIDES = (1024, 512, 256)
LARGEST_POSTER = 1024
QUALITY = 80
METHOD = 2
"""Of WebP's encoder: above it costs much and gains little."""
REDUCING_GAP = 2.0
CONTENT_TYPE = "image/webp"


def make_thumbnails(picture: Image.Image, findings: Findings) -> None:
    """Those that are smaller than the picture, by its longest side."""
    longest = max(picture.size)
    for side in SIDES:
        if side < longest:
            picture = shrunk(picture, side)
            save_webp(picture, f"thumb_{side}", findings)


def make_poster(picture: Image.Image, findings: Findings) -> None:
    """A picture of something that is none itself, with thumbnails of it."""
    poster = shrunk(picture, LARGEST_POSTER)
    save_webp(poster, "poster", findings)
    make_thumbnails(poster, findings)


def save_webp(picture: Image.Image, name: str, findings: Findings) -> None:
    file = findings.folder / f"{name}.webp"
    picture.save(file, "WEBP", quality=QUALITY, method=METHOD)
    findings.made(name, file, CONTENT_TYPE, *picture.size)


def shrunk(picture: Image.Image, side: int) -> Image.Image:
    """The picture with at most so many pixels on its longest side."""
    if max(picture.size) <= side:
        return picture
    scale = side / max(picture.size)
    width, height = (max(1, round(length * scale)) for length in picture.size)
    return picture.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=REDUCING_GAP)
