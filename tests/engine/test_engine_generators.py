from typing import Any

import numpy as np
import pytest

from comfyrail.engine.builtin.palettes import PALETTES, read_colours
from comfyrail.engine.definition import node
from comfyrail.engine.events import ExecutionFailed, NodeProgress, Preview
from tests.engine.engine_parts import Engine
from tests.engine.worker_client import preview


def generate(engine: Engine, class_type: str, **inputs: Any) -> Any:
    taken: list[Any] = []

    @node("Take", required={"image": ("IMAGE",)}, is_output=True, cacheable=False)
    def take(image: Any) -> None:
        taken.append(image)

    engine.registry.add(take)
    prompt = {
        "1": {"class_type": class_type, "inputs": inputs},
        "2": {"class_type": "Take", "inputs": {"image": ["1", 0]}},
    }
    events = engine.run(prompt, ["2"])
    assert taken, events[-1]
    (image,) = taken
    assert image.dtype == np.float32
    assert image.min() >= 0
    assert image.max() <= 1
    return image


def gradient(engine: Engine, colors: str, angle: float = 0.0, shape: str = "linear") -> Any:
    return generate(
        engine, "GradientImage", width=64, height=32, colors=colors, angle=angle, shape=shape
    )


def noise(engine: Engine, seed: int = 1, palette: str = "grey") -> Any:
    return generate(
        engine,
        "NoiseImage",
        width=96,
        height=64,
        seed=seed,
        scale=32.0,
        octaves=4,
        palette=palette,
    )


def test_a_gradient_runs_from_the_first_colour_to_the_last(engine: Engine) -> None:
    image = gradient(engine, "#000000, #ff0000")
    assert image.shape == (1, 32, 64, 3)
    assert image[0, 0, 0, 0] < 0.02
    assert image[0, 0, -1, 0] > 0.98
    assert np.all(np.diff(image[0, 5, :, 0]) > 0)


def test_a_gradient_passes_through_its_middle_colour(engine: Engine) -> None:
    image = gradient(engine, "black, lime, black")
    assert image[0, 0, 32, 1] > 0.95
    assert image[0, 0, 0, 1] < 0.05


def test_a_radial_gradient_starts_in_the_middle(engine: Engine) -> None:
    image = gradient(engine, "white; black", shape="radial")
    assert image[0, 16, 32, 0] > 0.95
    assert image[0, 0, 0, 0] < 0.1


def test_noise_is_the_same_for_the_same_seed_only(engine: Engine) -> None:
    assert np.array_equal(noise(engine, 1), noise(engine, 1))
    assert not np.array_equal(noise(engine, 1), noise(engine, 2))


def test_noise_is_smooth_and_uses_its_whole_range(engine: Engine) -> None:
    grey = noise(engine)[0, ..., 0]
    assert grey.min() < 0.01
    assert grey.max() > 0.99
    assert np.abs(np.diff(grey, axis=1)).mean() < 0.05


@pytest.mark.parametrize("palette", list(PALETTES))
def test_every_palette_colours_noise(palette: str, engine: Engine) -> None:
    assert noise(engine, palette=palette).shape == (1, 64, 96, 3)


def test_a_checkerboard_alternates(engine: Engine) -> None:
    image = generate(
        engine,
        "CheckerboardImage",
        width=8,
        height=8,
        cell=2,
        color1="#000000",
        color2="#ffffff",
    )
    assert image[0, 0, :, 0].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert image[0, :, 0, 0].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize(("position", "rows"), [("top", slice(0, 40)), ("bottom", slice(88, 128))])
def test_text_is_written_where_it_should_be(position: str, rows: slice, engine: Engine) -> None:
    prompt = {
        "1": {
            "class_type": "EmptyImage",
            "inputs": {"width": 256, "height": 128, "batch_size": 1, "color": 0},
        },
        "2": {
            "class_type": "TextOnImage",
            "inputs": {
                "image": ["1", 0],
                "text": "Hällo",
                "size": 24,
                "color": "#ff0000",
                "position": position,
            },
        },
    }
    taken: list[Any] = []

    @node("Take", required={"image": ("IMAGE",)}, is_output=True, cacheable=False)
    def take(image: Any) -> None:
        taken.append(image)

    engine.registry.add(take)
    engine.run({**prompt, "3": {"class_type": "Take", "inputs": {"image": ["2", 0]}}}, ["3"])
    (image,) = taken
    assert image[0, rows, :, 0].max() > 0.9
    assert image[0, ..., 1:].max() == 0
    rest = image.copy()
    rest[0, rows] = 0
    assert rest.max() == 0


def test_a_long_generator_reports_progress_and_shows_previews(engine: Engine) -> None:
    inputs = {"width": 2048, "height": 1024, "seed": 3, "scale": 256.0, "octaves": 8}
    prompt = {
        "1": {"class_type": "NoiseImage", "inputs": {**inputs, "palette": "ocean"}},
        "2": preview("1"),
    }
    events = engine.run(prompt, ["2"])
    reports = [event.value for event in events if isinstance(event, NodeProgress)]
    assert reports == list(range(1, 9))
    previews = [event for event in events if isinstance(event, Preview)]
    assert all(each.image.startswith(b"\xff\xd8") for each in previews)
    engine.cache.clear()
    quiet = engine.run(prompt, ["2"], preview_method="none")
    assert not any(isinstance(event, Preview) for event in quiet)


def test_a_word_that_is_no_colour_is_explained(engine: Engine) -> None:
    inputs = {"width": 8, "height": 8, "cell": 2, "color1": "blurple", "color2": "red"}
    prompt = {"1": {"class_type": "CheckerboardImage", "inputs": inputs}, "2": preview("1")}
    failed = engine.run(prompt, ["2"])[-1]
    assert isinstance(failed, ExecutionFailed)
    assert failed.message == "'blurple' is not a colour. Write #rrggbb or a name such as red."


def test_colours_are_read_from_every_usual_form() -> None:
    assert len(read_colours("#fff, red\nrgb(1, 2, 3); blue")) == 4
    with pytest.raises(ValueError, match="No colours"):
        read_colours(" , ")
