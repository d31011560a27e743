"""Pictures from files of all kinds, pictures over the socket, and what is written beside pixels."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import node
from comfyrail.engine.events import ExecutionFailed, NodeExecuted, NodeProgress, Picture
from comfyrail.engine.folders import Folders
from comfyrail.engine.prompt_check import PromptAccepted, PromptRefused, check_prompt
from tests.comfyui.picture_kinds import HEIGHT, WIDTH, write_kinds_of_pictures
from tests.engine.engine_parts import Engine, nodes_run
from tests.engine.worker_client import empty_image, preview, save

UNREADABLE = {"no-picture.png", "empty.png", "cut-short.webp"}


def load(name: str, class_type: str = "LoadImage", **more: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": {"image": name, **more}}


def taken(engine: Engine, prompt: dict[str, Any], slots: int) -> list[Any]:
    """What node 1 gives."""
    values: list[Any] = []
    ports = {f"value{slot}": ("*",) for slot in range(slots)}

    @node("Take", required=ports, is_output=True, cacheable=False)
    def take(**given: Any) -> None:
        values.extend(given[name] for name in sorted(given))

    engine.registry.add(take)
    links = {f"value{slot}": ["1", slot] for slot in range(slots)}
    events = engine.run({**prompt, "2": {"class_type": "Take", "inputs": links}}, ["2"])
    return values or [events[-1]]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kinds")
    write_kinds_of_pictures(folder)
    return folder


def test_every_kind_of_picture_is_loaded(kinds: Path, engine: Engine, folders: Folders) -> None:
    for path in sorted(kinds.iterdir()):
        (folders.input / path.name).write_bytes(path.read_bytes())
        values = taken(engine, {"1": load(path.name)}, 2)
        if path.name in UNREADABLE:
            assert isinstance(values[0], ExecutionFailed), path.name
            continue
        image, mask = values
        assert image.dtype == mask.dtype == np.float32
        assert image.ndim == 4
        assert image.shape[-1] == 3
        assert len(mask) == len(image)
        assert 0 <= image.min() <= image.max() <= 1, path.name


@pytest.mark.parametrize(
    ("name", "frames"),
    [("animated.gif", 3), ("animated.png", 3), ("animated.webp", 3), ("pages-of-sizes.tif", 2)],
)
def test_frames_of_one_size_become_a_batch(
    name: str, frames: int, kinds: Path, engine: Engine, folders: Folders
) -> None:
    (folders.input / name).write_bytes((kinds / name).read_bytes())
    image, _ = taken(engine, {"1": load(name)}, 2)
    assert image.shape == (frames, HEIGHT, WIDTH, 3)


@pytest.mark.parametrize("name", ["rgba.png", "la.png", "p-half-clear.png", "p-one-clear.gif"])
def test_what_is_transparent_is_in_the_mask(
    name: str, kinds: Path, engine: Engine, folders: Folders
) -> None:
    (folders.input / name).write_bytes((kinds / name).read_bytes())
    _, mask = taken(engine, {"1": load(name)}, 2)
    with Image.open(kinds / name) as picture:
        alpha = np.asarray(picture.convert("RGBA").getchannel("A")).astype(np.float32)
    assert np.array_equal(mask[0], np.float32(1) - alpha / np.float32(255))


@pytest.mark.parametrize("channel", ["red", "alpha"])
def test_deep_greys_are_brought_to_8_bits_in_masks_too(
    channel: str, kinds: Path, engine: Engine, folders: Folders
) -> None:
    (folders.input / "i32.tif").write_bytes((kinds / "i32.tif").read_bytes())
    image, _ = taken(engine, {"1": load("i32.tif")}, 2)
    (mask,) = taken(engine, {"1": load("i32.tif", "LoadImageMask", channel=channel)}, 1)
    assert np.array_equal(mask, image[..., 0] if channel == "red" else np.zeros_like(mask))


@pytest.mark.parametrize("name", ["cut-short.png", "cut-short.jpeg"])
def test_a_file_cut_short_gives_what_there_is(
    name: str, kinds: Path, engine: Engine, folders: Folders
) -> None:
    (folders.input / name).write_bytes((kinds / name).read_bytes())
    image, _ = taken(engine, {"1": load(name)}, 2)
    assert image.shape == (1, 64, 64, 3)
    assert image[0, 0].any()
    # The switch that made this possible is off again.
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


def test_an_output_is_loaded_as_an_input(engine: Engine, folders: Folders) -> None:
    folders.output.mkdir(exist_ok=True)
    Image.new("RGB", (5, 4), "red").save(folders.output / "made.png")
    prompt = {"1": load("made.png [output]", "LoadImageOutput"), "2": preview("1")}
    verdict = check_prompt(prompt, engine.registry, folders)
    assert isinstance(verdict, PromptAccepted), verdict
    image, _ = taken(engine, {"1": prompt["1"]}, 2)
    assert image[0, 0, 0].tolist() == [1, 0, 0]


@pytest.mark.parametrize("class_type", ["LoadImageOutput", "WebcamCapture"])
@pytest.mark.parametrize("name", ["missing.png", "../outside.png", "made.png"])
def test_a_picture_that_is_not_there_is_refused(
    class_type: str, name: str, folders: Folders
) -> None:
    folders.output.mkdir(exist_ok=True)
    Image.new("RGB", (5, 4)).save(folders.output / "made.png")
    rest = {"width": 0, "height": 0, "capture_on_queue": True}
    more = rest if class_type == "WebcamCapture" else {}
    prompt = {"1": load(name, class_type, **more), "2": preview("1")}
    verdict = check_prompt(prompt, builtin_registry(), folders)
    assert isinstance(verdict, PromptRefused)
    assert "Invalid image file" in json.dumps(verdict.body)


def test_a_capture_is_the_picture_that_was_uploaded(engine: Engine, folders: Folders) -> None:
    (folders.input / "webcam").mkdir()
    Image.new("RGB", (5, 4)).save(folders.input / "webcam" / "1.png")
    rest = {"width": 99, "height": 99, "capture_on_queue": True}
    (image,) = taken(engine, {"1": load("webcam/1.png", "WebcamCapture", **rest)}, 1)
    assert image.shape == (1, 4, 5, 3)


def test_pictures_are_sent_and_not_kept(engine: Engine, folders: Folders) -> None:
    prompt = {
        "1": {**empty_image(), "inputs": {**empty_image()["inputs"], "batch_size": 2}},
        "2": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["1", 0]}},
    }
    for _ in range(2):
        events = engine.run(prompt, ["2"])
        sent = [event for event in events if isinstance(event, Picture)]
        assert [event.format for event in sent] == ["png", "png"]
        with Image.open(io.BytesIO(sent[0].image)) as picture:
            assert picture.format == "PNG"
            assert not picture.info
        steps = [event for event in events if isinstance(event, NodeProgress)]
        assert [(event.value, event.maximum) for event in steps] == [(0, 2), (1, 2)]
        # It runs again each time: what was sent is gone.
        assert "2" in nodes_run(events)
    assert not list(folders.output.rglob("*.png"))


def test_saved_pictures_carry_the_hashes_of_what_was_loaded(
    engine: Engine, folders: Folders
) -> None:
    Image.new("RGB", (5, 4)).save(folders.input / "a.png")
    expected = hashlib.sha256((folders.input / "a.png").read_bytes()).hexdigest()
    prompt = {
        "1": load("a.png"),
        "2": save("1"),
        "3": load("missing.png"),
        "4": {**load("a.png"), "is_changed": ["sent along"]},
        "5": {"class_type": "LoadImage", "inputs": {"image": ["1", 0]}},
        "6": {"class_type": "LoadImage"},
    }
    events = engine.run(prompt, ["2"])
    (shown,) = [event.ui["images"][0] for event in events if isinstance(event, NodeExecuted)]
    with Image.open(folders.output / shown["subfolder"] / shown["filename"]) as picture:
        texts = dict(picture.info)
    embedded = json.loads(texts["prompt"])
    assert embedded["1"] == {**load("a.png"), "is_changed": [expected]}
    assert "is_changed" not in embedded["2"]
    assert np.isnan(embedded["3"]["is_changed"])
    assert embedded["4"]["is_changed"] == ["sent along"]
    assert np.isnan(embedded["5"]["is_changed"])
    assert np.isnan(embedded["6"]["is_changed"])
    # The prompt itself is not changed by it.
    assert "is_changed" not in prompt["1"]


def test_a_wide_picture_takes_the_nearest_size_for_kontext() -> None:
    scale = builtin_registry()["FluxKontextImageScale"].function
    assert scale(image=np.zeros((1, 10, 20, 3), np.float32)).shape == (1, 720, 1456, 3)
    assert scale(image=np.zeros((1, 90, 10, 3), np.float32)).shape == (1, 1568, 672, 3)
