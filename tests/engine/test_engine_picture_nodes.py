import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from comfyrail.engine.blurring import sharpen
from comfyrail.engine.builtin.batches import image_from_batch
from comfyrail.engine.builtin.filters import MORPHOLOGY, rgb_to_yuv, yuv_to_rgb
from comfyrail.engine.builtin.fitting import (
    resize_and_pad_image,
    scale_to_max_dimension,
    scale_to_total_pixels,
)
from comfyrail.engine.builtin.transforms import flip_image, rotate_image, stitch_images
from comfyrail.engine.definition import node
from comfyrail.engine.events import NodeExecuted
from comfyrail.engine.folders import Folders
from comfyrail.engine.pixels import to_bytes
from comfyrail.engine.resampling import resize
from tests.engine.engine_parts import Engine
from tests.engine.worker_client import empty_image


def noise(*shape: int) -> Any:
    return np.random.default_rng(1).random(shape, np.float32)


def flat(value: float, *shape: int) -> Any:
    return np.full(shape, value, np.float32)


def taken_lists(engine: Engine, prompt: dict[str, Any], source: str) -> list[Any]:
    """All values of an output, through a node that takes the list."""
    taken: list[Any] = []

    @node("Take", required={"value": ("*",)}, is_output=True, cacheable=False, takes_lists=True)
    def take(value: list[Any]) -> None:
        taken.append(value)

    engine.registry.add(take)
    taker = {"class_type": "Take", "inputs": {"value": [source, 0]}}
    events = engine.run({**prompt, "take": taker}, ["take"])
    assert len(taken) == 1, events[-1]
    return list(taken[0])


def test_images_are_put_into_batches_of_a_size_across_a_list(engine: Engine) -> None:
    image = empty_image()
    image["inputs"]["batch_size"] = 5
    prompt: dict[str, Any] = {"1": image}
    for node_id, size in (("2", 2), ("3", 3)):
        inputs = {"images": [str(int(node_id) - 1), 0], "batch_size": size}
        prompt[node_id] = {"class_type": "RebatchImages", "inputs": inputs}
    assert [len(batch) for batch in taken_lists(engine, prompt, "2")] == [2, 2, 1]
    assert [len(batch) for batch in taken_lists(engine, prompt, "3")] == [3, 2]


def test_a_place_beyond_the_batch_is_its_last_image() -> None:
    image = noise(3, 2, 2, 3)
    assert np.array_equal(
        image_from_batch.function(image=image, batch_index=9, length=2), image[2:]
    )


def test_turning_is_clockwise() -> None:
    image = noise(1, 2, 3, 3)
    turned = rotate_image.function(image=image, rotation="90 degrees")
    assert np.array_equal(turned[0, 0, -1], image[0, 0, 0])
    flipped = flip_image.function(image=image, flip_method="x-axis: vertically")
    assert np.array_equal(flipped[0, 0], image[0, -1])


def test_stitched_images_match_in_height_or_are_centred() -> None:
    pair = {"image1": flat(0.2, 2, 4, 4, 3), "image2": flat(0.6, 1, 2, 2, 3)}
    look = {"direction": "right", "spacing_width": 1, "spacing_color": "red"}
    matched = stitch_images.function(**pair, **look, match_image_size=True)
    assert matched.shape == (2, 4, 10, 3)
    assert matched[0, 0, 4].tolist() == [1, 0, 0]
    centred = stitch_images.function(**pair, **look, match_image_size=False)
    assert centred.shape == (2, 4, 8, 3)
    assert to_bytes(centred[0, :, 7, 0]).tolist() == [0, 153, 153, 0]


def test_one_image_alone_is_left_as_it_is() -> None:
    image = flat(0.2, 1, 4, 4, 3)
    look = {"direction": "up", "spacing_width": 8, "spacing_color": "red"}
    assert stitch_images.function(image1=image, **look, match_image_size=True) is image


def test_a_size_is_fitted_in_proportion() -> None:
    image = flat(1, 1, 10, 20, 3)
    largest = scale_to_max_dimension.function(image=image, upscale_method="area", largest_size=8)
    assert largest.shape == (1, 4, 8, 3)
    total = scale_to_total_pixels.function(
        image=image, upscale_method="area", megapixels=0.01, resolution_steps=8
    )
    assert total.shape == (1, 72, 144, 3)
    size = {"target_width": 8, "target_height": 8}
    padded = resize_and_pad_image.function(
        image=image, **size, padding_color="black", interpolation="area"
    )
    assert padded[0, :, 0, 0].tolist() == [0, 0, 1, 1, 1, 1, 0, 0]


def test_an_image_that_would_vanish_is_refused() -> None:
    with pytest.raises(ValueError, match="would vanish"):
        scale_to_max_dimension.function(
            image=flat(1, 1, 1, 50, 3), upscale_method="area", largest_size=3
        )


@pytest.mark.parametrize("size", [3, 4, 9])
def test_an_image_lies_between_what_is_eroded_and_dilated(size: int) -> None:
    image = noise(1, 7, 9, 3)
    assert (MORPHOLOGY["erode"](image, size) <= MORPHOLOGY["open"](image, size)).all()
    assert (MORPHOLOGY["open"](image, size) <= image).all()
    assert (image <= MORPHOLOGY["close"](image, size)).all()
    assert (MORPHOLOGY["close"](image, size) <= MORPHOLOGY["dilate"](image, size)).all()


def test_colours_taken_apart_come_together_again() -> None:
    image = noise(2, 5, 4, 3)
    luminance, to_blue, to_red = rgb_to_yuv.function(image=image)
    again = yuv_to_rgb.function(Y=luminance, U=to_blue, V=to_red)
    assert np.allclose(again, image, atol=1e-5)


@pytest.mark.parametrize("radius", [1, 12])
def test_sharpening_keeps_what_is_flat_and_raises_what_stands_out(radius: int) -> None:
    image = flat(0.5, 1, 30, 30, 3)
    image[0, 15, 15] = 0.6
    sharp = sharpen(image, radius, 1.0, 10.0, lambda *_: None)
    assert sharp[0, 15, 15, 0] > 0.7
    assert sharp[0, 15, 16, 0] < 0.5
    assert sharp[0, 0, 0, 0] == pytest.approx(0.5, abs=1e-4)


def test_a_flat_image_stays_flat_however_it_is_resized() -> None:
    for method in ("bilinear", "bicubic"):
        resized = resize(flat(0.5, 1, 9, 7, 1), 90, 80, method)
        assert np.allclose(resized, 0.5, atol=1e-6)


@pytest.mark.parametrize(
    ("class_type", "options", "suffix"),
    [
        ("SaveAnimatedWEBP", {"lossless": True, "quality": 80, "method": "default"}, ".webp"),
        ("SaveAnimatedPNG", {"compress_level": 4}, ".png"),
    ],
)
def test_a_batch_is_saved_as_an_animation_with_its_prompt(
    class_type: str, options: dict[str, Any], suffix: str, engine: Engine, folders: Folders
) -> None:
    inputs = {"images": ["3", 0], "filename_prefix": "a/b", "fps": 7.0, **options}
    prompt = {
        "1": empty_image(0xFF0000),
        "2": empty_image(0x0000FF),
        "3": {"class_type": "ImageBatch", "inputs": {"image1": ["1", 0], "image2": ["2", 0]}},
        "4": {"class_type": class_type, "inputs": inputs},
    }
    events = engine.run(prompt, ["4"], extra_pnginfo={"workflow": {"nodes": []}})
    (ui,) = [event.ui for event in events if isinstance(event, NodeExecuted)]
    file = {"filename": f"b_00001_{suffix}", "subfolder": "a", "type": "output"}
    assert ui == {"images": [file], "animated": [True]}
    content = (folders.output / "a" / file["filename"]).read_bytes()
    assert b'{"nodes": []}' in content
    assert b"ImageBatch" in content
    with Image.open(io.BytesIO(content)) as picture:
        assert picture.n_frames == 2  # type: ignore[attr-defined]
        picture.seek(1)
        picture.load()
        assert picture.info["duration"] == 142
        assert picture.convert("RGB").getpixel((0, 0)) == (0, 0, 255)
