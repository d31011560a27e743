"""Pictures in the format that a submission wants [8.2]."""

from pathlib import Path

import pytest
from PIL import Image

from comfyrail.jobs.output_config import ImageFormat
from comfyrail.results.media.messages import Convert, Refused
from tests.media import makers
from tests.media.child import MediaChild
from tests.media.makers import PROMPT, WORKFLOW, written

FORMATS: list[ImageFormat] = ["jpeg", "webp", "avif"]
PILLOWS_WORDS = {"jpeg": "JPEG", "webp": "WEBP", "avif": "AVIF", "png": "PNG"}


def converted(
    child: MediaChild, path: Path, wanted: ImageFormat | None, quality: int | None = None
) -> Path:
    made = child.convert(path, wanted, quality)
    assert made is not None
    return made


@pytest.mark.parametrize("wanted", FORMATS)
def test_picture_is_converted_and_keeps_its_graphs(
    child: MediaChild, tmp_path: Path, wanted: ImageFormat
) -> None:
    path = written(tmp_path, "a.png", makers.png(640, 320, prompt=PROMPT, workflow=WORKFLOW))
    made = converted(child, path, wanted)
    with Image.open(made) as picture:
        assert (picture.format, picture.size) == (PILLOWS_WORDS[wanted], (640, 320))
        assert picture.convert("L").getpixel((630, 5)) > 230  # type: ignore[operator]
    facts, _ = child.look(made)
    assert (facts.has_prompt, facts.has_workflow) == (True, True)


def test_graphs_are_kept_on_the_way_to_png(child: MediaChild, tmp_path: Path) -> None:
    path = written(tmp_path, "a.png", makers.png(64, 64, prompt=PROMPT))
    there = converted(child, path, "webp")
    back = converted(child, there, "png")
    with Image.open(back) as picture:
        assert picture.format == "PNG"
        assert picture.info["prompt"] == PROMPT


def test_graph_that_a_jpeg_cannot_hold_does_not_cost_the_picture(
    child: MediaChild, tmp_path: Path
) -> None:
    long = '{"nodes": "' + "x" * 100_000 + '"}'
    path = written(tmp_path, "a.png", makers.png(64, 64, prompt=PROMPT, workflow=long))
    facts, _ = child.look(converted(child, path, "jpeg"))
    assert (facts.width, facts.has_prompt, facts.has_workflow) == (64, True, False)


@pytest.mark.parametrize("wanted", FORMATS)
def test_quality_makes_it_smaller(child: MediaChild, tmp_path: Path, wanted: ImageFormat) -> None:
    noise = Image.effect_noise((256, 256), 80).convert("RGB")
    path = written(tmp_path, "a.png", makers.encoded(noise, "PNG"))
    low, high = (converted(child, path, wanted, quality) for quality in (20, 95))
    assert low.stat().st_size < high.stat().st_size * 0.8


def test_quality_alone_recompresses_in_its_own_format(child: MediaChild, tmp_path: Path) -> None:
    noise = Image.effect_noise((256, 256), 80).convert("RGB")
    path = written(tmp_path, "a.webp", makers.encoded(noise, "WEBP", quality=95))
    made = converted(child, path, None, 20)
    assert made.suffix == ".webp"
    assert made.stat().st_size < path.stat().st_size * 0.8


@pytest.mark.parametrize(
    ("format_name", "wanted", "quality"),
    [("PNG", "png", None), ("PNG", "png", 50), ("PNG", None, 50), ("WEBP", "webp", None)],
    ids=["png-to-png", "png-quality", "png-quality-alone", "webp-to-webp"],
)
def test_picture_that_is_as_wanted_stays(
    child: MediaChild,
    tmp_path: Path,
    format_name: str,
    wanted: ImageFormat | None,
    quality: int | None,
) -> None:
    path = written(tmp_path, "a", makers.encoded(makers.gradient(32, 32), format_name))
    assert child.convert(path, wanted, quality) is None


def test_transparency_is_white_in_a_jpeg_and_stays_elsewhere(
    child: MediaChild, tmp_path: Path
) -> None:
    picture = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    path = written(tmp_path, "a.png", makers.encoded(picture, "PNG"))
    with Image.open(converted(child, path, "jpeg")) as made:
        assert made.convert("RGB").getpixel((5, 5)) == (255, 255, 255)
    with Image.open(converted(child, path, "webp")) as made:
        assert made.getchannel("A").getextrema() == (0, 0)


def test_16_bits_are_kept_in_a_png_and_right_in_others(child: MediaChild, tmp_path: Path) -> None:
    deep = Image.open(written(tmp_path, "a.png", makers.deep_png(512, 8)))
    with deep:
        path = written(tmp_path, "a.tif", makers.encoded(deep, "TIFF"))
    with Image.open(converted(child, path, "png")) as made:
        assert made.mode == "I;16"
        assert made.getpixel((511, 4)) == 65535
    with Image.open(converted(child, path, "webp")) as made:
        assert abs(made.convert("L").getpixel((256, 4)) - 128) < 6  # type: ignore[operator]


@pytest.mark.parametrize("source", ["GIF", "WEBP", "PNG"])
@pytest.mark.parametrize("wanted", ["webp", "avif", "png"])
def test_animation_stays_one(
    child: MediaChild, tmp_path: Path, source: str, wanted: ImageFormat
) -> None:
    if PILLOWS_WORDS[wanted] == source:
        return
    path = written(tmp_path, "a", makers.animation(source))
    facts, _ = child.look(converted(child, path, wanted))
    assert (facts.kind, facts.frames, facts.duration) == ("animation", 3, 0.6)


@pytest.mark.parametrize(
    ("content", "wanted", "reason"),
    [
        (makers.animation("WEBP"), "jpeg", "It is an animation, and a JPEG is one picture."),
        (makers.png()[:900], "webp", "It is broken, or cannot be read here."),
        (makers.png_bomb(), "webp", "It says that it is 50000 by 50000 pixels large"),
    ],
    ids=["animation-to-jpeg", "broken", "bomb"],
)
def test_what_cannot_be_converted_says_why(
    child: MediaChild, tmp_path: Path, content: bytes, wanted: ImageFormat, reason: str
) -> None:
    path = written(tmp_path, "a", content)
    kind = "image/webp" if content[:4] == b"RIFF" else "image/png"
    task = Convert(
        path=str(path), content_type=kind, folder=str(tmp_path), seconds=30, format=wanted
    )
    answer = child.ask(task)
    assert isinstance(answer, Refused)
    assert answer.reason.startswith(reason)


def test_picture_that_is_too_wide_for_a_format_is_not_called_broken(
    child: MediaChild, tmp_path: Path
) -> None:
    path = written(tmp_path, "a.png", makers.encoded(Image.new("L", (16384, 2)), "PNG"))
    task = Convert(
        path=str(path), content_type="image/png", folder=str(tmp_path), seconds=30, format="webp"
    )
    answer = child.ask(task)
    assert isinstance(answer, Refused)
    assert answer.reason == ("It is 16384 by 2 pixels large; a webp has at most 16383 on a side.")


@pytest.mark.parametrize("wanted", ["webp", "avif"])
def test_still_picture_before_an_animated_png_is_no_frame_of_it(
    child: MediaChild, tmp_path: Path, wanted: ImageFormat
) -> None:
    still, *frames = [Image.new("RGB", (64, 64), colour) for colour in ("red", "green", "blue")]
    content = makers.encoded(
        still, "PNG", save_all=True, append_images=frames, default_image=True, duration=100
    )
    made = converted(child, written(tmp_path, "a.png", content), wanted)
    facts, _ = child.look(made)
    assert (facts.kind, facts.frames, facts.duration) == ("animation", 2, 0.2)
    with Image.open(made) as picture:
        red, green, _ = picture.convert("RGB").getpixel((5, 5))  # type: ignore[misc]
        assert green > red
