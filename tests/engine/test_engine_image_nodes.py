import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from comfyrail.engine.blurring import blur
from comfyrail.engine.builtin.images import empty_image, invert_image
from comfyrail.engine.builtin.mixing import batch_images, blend_images, crop_image
from comfyrail.engine.builtin.scaling import scale_image, scale_image_by
from comfyrail.engine.pixels import to_bytes
from comfyrail.engine.resampling import RESAMPLING_METHODS, resize

# What torch 2 makes of a random image of 7 by 5, as 8-bit pixels.
TORCH = json.loads((Path(__file__).parent / "data" / "torch_results.json").read_text())


def ramp(height: int, width: int, channels: int = 3, batch: int = 1) -> Any:
    count = batch * height * width * channels
    values = np.linspace(0, 1, count, dtype=np.float32)
    return values.reshape(batch, height, width, channels)


def flat(value: float, height: int = 4, width: int = 4, channels: int = 3) -> Any:
    return np.full((1, height, width, channels), value, np.float32)


def torch_image() -> Any:
    return (np.array(TORCH["image"], np.float32) / np.float32(255))[None]


@pytest.mark.parametrize(
    "case", TORCH["resized"], ids=lambda case: f"{case['method']}-{case['width']}"
)
def test_resizing_gives_torchs_pixels(case: Any) -> None:
    resized = resize(torch_image(), case["width"], case["height"], case["method"])
    assert to_bytes(resized)[0].tolist() == case["pixels"]


@pytest.mark.parametrize("case", TORCH["blurred"], ids=lambda case: f"radius-{case['radius']}")
def test_blurring_gives_torchs_pixels(case: Any) -> None:
    blurred = blur(torch_image(), case["radius"], case["sigma"], lambda *_: None)
    assert to_bytes(blurred)[0].tolist() == case["pixels"]


def test_a_large_blur_keeps_a_flat_image_flat_and_reports() -> None:
    reports: list[tuple[float, float]] = []
    blurred = blur(flat(0.25, 80, 70), 31, 1.0, lambda *report: reports.append(report))
    assert blurred.shape == (1, 80, 70, 3)
    assert np.allclose(blurred, 0.25, atol=1e-6)
    assert reports[-1] == (2, 2)


def test_lanczos_is_pillows_on_truncated_pixels() -> None:
    image = ramp(9, 7)
    expected = Image.fromarray(to_bytes(image)[0]).resize((5, 13), Image.Resampling.LANCZOS)
    assert np.array_equal(to_bytes(resize(image, 5, 13, "lanczos"))[0], np.asarray(expected))


@pytest.mark.parametrize("method", RESAMPLING_METHODS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_method_keeps_batch_and_channels(method: str, channels: int) -> None:
    resized = resize(ramp(9, 7, channels, batch=2), 150, 130, method)
    assert resized.shape == (2, 130, 150, channels)
    assert resized.dtype == np.float32


@pytest.mark.parametrize("method", RESAMPLING_METHODS)
def test_the_same_size_changes_nothing_visible(method: str) -> None:
    image = ramp(6, 6)
    assert np.abs(to_bytes(resize(image, 6, 6, method)).astype(int) - to_bytes(image)).max() <= 1


@pytest.mark.parametrize(
    ("width", "height", "expected"), [(0, 8, (4, 8)), (8, 0, (8, 16)), (0, 0, (2, 4))]
)
def test_a_side_of_zero_keeps_the_aspect_ratio(
    width: int, height: int, expected: tuple[int, int]
) -> None:
    scaled = scale_image.function(
        image=ramp(4, 2), upscale_method="area", width=width, height=height, crop="disabled"
    )
    assert (scaled.shape[2], scaled.shape[1]) == expected


def test_center_crop_cuts_what_does_not_fit() -> None:
    image = np.concatenate([flat(0.0, 4, 2), flat(1.0, 4, 4), flat(0.0, 4, 2)], axis=2)
    scaled = scale_image.function(
        image=image, upscale_method="nearest-exact", width=4, height=4, crop="center"
    )
    assert np.array_equal(scaled, flat(1.0))


def test_scaling_by_rounds_to_whole_pixels() -> None:
    scaled = scale_image_by.function(image=ramp(5, 7), upscale_method="area", scale_by=1.5)
    assert scaled.shape[1:3] == (8, 10)


def test_scaling_to_nothing_says_so() -> None:
    with pytest.raises(ValueError, match="vanish"):
        scale_image_by.function(image=ramp(5, 7), upscale_method="area", scale_by=0.01)


def test_eight_bits_are_made_by_truncation() -> None:
    inverted = invert_image.function(
        image=empty_image.function(width=1, height=1, batch_size=2, color=0x336699)
    )
    assert inverted.shape == (2, 1, 1, 3)
    assert to_bytes(inverted)[0, 0, 0].tolist() == [204, 153, 101]


def test_values_outside_of_the_range_are_cut_off() -> None:
    assert to_bytes(np.array([-1.0, 2.0], np.float32)).tolist() == [0, 255]


def test_a_crop_outside_of_the_image_keeps_a_pixel() -> None:
    image = ramp(4, 5)
    cropped = crop_image.function(image=image, width=9, height=9, x=100, y=100)
    assert np.array_equal(cropped, image[:, 3:, 4:])


def test_a_batch_takes_the_size_of_the_first() -> None:
    batch = batch_images.function(image1=ramp(4, 4), image2=ramp(8, 16, channels=4, batch=2))
    assert batch.shape == (3, 4, 4, 4)
    assert np.array_equal(batch[0, ..., 3], np.ones((4, 4)))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("normal", 0.75),
        ("multiply", 0.1875),
        ("screen", 0.8125),
        ("overlay", 0.375),
        ("soft_light", 0.375),
        ("difference", 0.0),
    ],
)
def test_blend_modes(mode: str, expected: float) -> None:
    blended = blend_images.function(
        image1=flat(0.25), image2=flat(0.75), blend_factor=1.0, blend_mode=mode
    )
    assert blended[0, 0, 0, 0] == pytest.approx(expected)


def test_a_blend_takes_size_and_channels_of_the_first() -> None:
    blended = blend_images.function(
        image1=flat(0.2), image2=flat(0.8, 9, 5, channels=4), blend_factor=0.5, blend_mode="normal"
    )
    assert blended.shape == (1, 4, 4, 3)
    assert np.allclose(blended, 0.5)
