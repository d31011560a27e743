"""Nodes whose inputs depend on other inputs: growing batches, ways to resize, a switch."""

from typing import Any

import numpy as np
import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.events import ExecutionFailed, NodeExecuted
from comfyrail.engine.folders import Folders
from comfyrail.engine.prompt_check import PromptAccepted, PromptRefused, check_prompt
from comfyrail.validation.context import ERROR_STAGES, ValidationContext
from comfyrail.validation.validate import validate
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.engine.engine_parts import Engine, nodes_run
from tests.engine.worker_client import preview


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def dotted(class_type: str, inputs: dict[str, Any]) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def empty(width: int, height: int, color: int = 0) -> dict[str, Any]:
    return node("EmptyImage", width=width, height=height, batch_size=1, color=color)


def shown_size(engine: Engine, folders: Folders, prompt: dict[str, Any]) -> list[int]:
    """Width, height and number of what node 9 gives; the prompt is checked first."""
    prompt = {
        **prompt,
        "size": node("GetImageSize", image=["9", 0]),
        **{f"show{slot}": node("PreviewAny", source=["size", slot]) for slot in range(3)},
    }
    verdict = check_prompt(prompt, engine.registry, folders)
    assert isinstance(verdict, PromptAccepted), verdict
    events = engine.run(verdict.prompt, verdict.outputs)
    assert not isinstance(events[-1], ExecutionFailed), events[-1]
    shown = {
        event.node_id: event.ui["text"][0] for event in events if isinstance(event, NodeExecuted)
    }
    return [int(shown[f"show{slot}"]) for slot in range(3)]


def test_any_number_of_images_becomes_one_batch(engine: Engine, folders: Folders) -> None:
    prompt = {
        "1": empty(8, 6),
        "2": empty(30, 30),
        "3": empty(3, 9),
        "9": dotted(
            "BatchImagesNode",
            {"images.image0": ["1", 0], "images.image1": ["2", 0], "images.image2": ["3", 0]},
        ),
    }
    assert shown_size(engine, folders, prompt) == [8, 6, 3]


def test_images_keep_their_order_and_get_channels() -> None:
    batch = builtin_registry()["BatchImagesNode"].function
    rgb, rgba = np.zeros((1, 2, 2, 3), np.float32), np.zeros((2, 2, 2, 4), np.float32)
    joined = batch(**{"images.image1": rgba, "images.image0": rgb})
    assert joined.shape == (3, 2, 2, 4)
    assert joined[0, ..., 3].all()
    assert not joined[1:].any()


def test_masks_and_latents_become_batches() -> None:
    masks = builtin_registry()["BatchMasksNode"].function
    joined = masks(
        **{"masks.mask0": np.ones((1, 4, 4), np.float32), "masks.mask1": np.ones((2, 9, 8))}
    )
    assert joined.shape == (3, 4, 4)
    latents = builtin_registry()["BatchLatentsNode"].function
    first = {"samples": np.zeros((1, 4, 2, 2), np.float32), "batch_index": [7], "type": "x"}
    second = {"samples": np.ones((2, 4, 2, 2), np.float32)}
    both = latents(**{"latents.latent0": first, "latents.latent1": second})
    assert both["samples"].shape == (3, 4, 2, 2)
    assert both["batch_index"] == [7, 0, 1]
    assert both["type"] == "x"


def test_a_batch_of_no_images_says_what_is_missing(engine: Engine) -> None:
    events = engine.run({"9": node("BatchImagesNode"), "10": preview("9")}, ["10"])
    assert isinstance(events[-1], ExecutionFailed)
    assert "images.image0" in events[-1].message


def test_a_batch_that_cannot_fit_into_memory_is_refused() -> None:
    batch = builtin_registry()["BatchImagesNode"].function
    huge = np.broadcast_to(np.float32(0), (1 << 14, 4096, 4096, 3))
    with pytest.raises(MemoryError, match="GiB"):
        batch(**{"images.image0": huge, "images.image1": huge})


@pytest.mark.parametrize(
    ("way", "inputs", "size"),
    [
        ("scale by multiplier", {"multiplier": 0.5}, [10, 5]),
        ("scale dimensions", {"width": 7, "height": 9, "crop": "center"}, [7, 9]),
        ("scale dimensions", {"width": 0, "height": 5, "crop": "disabled"}, [10, 5]),
        ("scale dimensions", {"width": 0, "height": 0, "crop": "center"}, [20, 10]),
        ("scale longer dimension", {"longer_size": 10}, [10, 5]),
        ("scale shorter dimension", {"shorter_size": 5}, [10, 5]),
        ("scale width", {"width": 10}, [10, 5]),
        ("scale height", {"height": 20}, [40, 20]),
        ("scale total pixels", {"megapixels": 0.01}, [145, 72]),
        ("match size", {"match": ["2", 0], "crop": "disabled"}, [3, 4]),
    ],
)
def test_an_image_is_resized_in_any_way(
    way: str, inputs: dict[str, Any], size: list[int], engine: Engine, folders: Folders
) -> None:
    parts = {f"resize_type.{name}": value for name, value in inputs.items()}
    resize = {"input": ["1", 0], "resize_type": way, **parts, "scale_method": "area"}
    prompt = {"1": empty(20, 10), "2": empty(3, 4), "9": dotted("ResizeImageMaskNode", resize)}
    assert shown_size(engine, folders, prompt) == [*size, 1]


def resize(value: Any, way: str, method: str = "area", **inputs: Any) -> Any:
    parts = {f"resize_type.{name}": each for name, each in inputs.items()}
    function = builtin_registry()["ResizeImageMaskNode"].function
    return function(input=value, resize_type=way, scale_method=method, **parts)


def test_what_is_higher_than_wide_becomes_a_square_by_its_shorter_side() -> None:
    tall = np.zeros((1, 30, 10, 3), np.float32)
    assert resize(tall, "scale shorter dimension", shorter_size=5).shape == (1, 5, 5, 3)


@pytest.mark.parametrize("method", ["nearest-exact", "bilinear", "area", "bicubic", "lanczos"])
def test_a_mask_is_resized_too(method: str) -> None:
    mask = np.ones((2, 4, 6), np.float32)
    assert resize(mask, "scale by multiplier", method, multiplier=2.0).shape == (2, 8, 12)


@pytest.mark.parametrize(
    ("way", "inputs"),
    [
        ("scale by multiplier", {"multiplier": 0.01}),
        ("scale longer dimension", {"longer_size": 0}),
        ("scale shorter dimension", {"shorter_size": 0}),
        ("scale by multiplier", {"multiplier": float("nan")}),
    ],
)
def test_an_image_does_not_vanish(way: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"vanish|NaN"):
        resize(np.zeros((1, 4, 6, 3), np.float32), way, **inputs)


def test_a_size_that_cannot_fit_into_memory_is_refused() -> None:
    batch = np.broadcast_to(np.float32(0), (4096, 4, 4, 3))
    with pytest.raises(MemoryError, match="GiB"):
        resize(batch, "scale dimensions", width=16384, height=16384, crop="disabled")


def test_a_way_that_does_not_exist_is_refused(folders: Folders) -> None:
    inputs = {"input": ["1", 0], "resize_type": "scale by magic", "scale_method": "area"}
    prompt = {"1": empty(2, 2), "9": dotted("ResizeImageMaskNode", inputs), "10": preview("9")}
    verdict = check_prompt(prompt, builtin_registry(), folders)
    # As in ComfyUI nothing is known of such a choice; then it cannot run.
    if isinstance(verdict, PromptAccepted):
        events = Engine(folders).run(verdict.prompt, verdict.outputs)
        assert isinstance(events[-1], ExecutionFailed)
    else:
        assert isinstance(verdict, PromptRefused)


@pytest.mark.parametrize(("switch", "taken", "left"), [(True, "1", "2"), (False, "2", "1")])
def test_a_switch_runs_only_what_it_takes(
    switch: bool, taken: str, left: str, engine: Engine, folders: Folders
) -> None:
    prompt = {
        "1": empty(4, 4),
        "2": empty(8, 8),
        "9": node("ComfySwitchNode", switch=switch, on_true=["1", 0], on_false=["2", 0]),
        "10": preview("9"),
    }
    verdict = check_prompt(prompt, engine.registry, folders)
    assert isinstance(verdict, PromptAccepted), verdict
    ran = nodes_run(engine.run(verdict.prompt, verdict.outputs))
    assert taken in ran
    assert left not in ran


def test_a_switch_takes_values_that_are_not_linked(engine: Engine) -> None:
    prompt = {
        "9": node("ComfySwitchNode", switch=False, on_true="yes", on_false="no"),
        "10": node("PreviewAny", source=["9", 0]),
    }
    events = engine.run(prompt, ["10"])
    assert [event.ui for event in events if isinstance(event, NodeExecuted)] == [{"text": ["no"]}]


def test_a_choice_of_the_editor_is_passed_on(engine: Engine, folders: Folders) -> None:
    prompt = {
        "9": node("CustomCombo", choice="what the editor knows"),
        "10": node("PreviewAny", source=["9", 0]),
    }
    verdict = check_prompt(prompt, engine.registry, folders)
    assert isinstance(verdict, PromptAccepted), verdict
    events = engine.run(verdict.prompt, verdict.outputs)
    (shown,) = [event.ui for event in events if isinstance(event, NodeExecuted)]
    assert shown == {"text": ["what the editor knows"]}


def test_dynamic_nodes_pass_the_checks_of_the_server(folders: Folders) -> None:
    catalog = parse_object_info(builtin_registry().object_info(folders))
    grown = {"images.image0": ["1", 0], "images.image1": ["8", 0]}
    resized = {
        "input": ["1", 0],
        "resize_type": "scale width",
        "resize_type.width": 4,
        "scale_method": "area",
    }
    prompt = {
        "1": empty(4, 4),
        "8": dotted("ResizeImageMaskNode", resized),
        "9": dotted("BatchImagesNode", grown),
        "10": preview("9"),
    }
    assert validate(parse_workflow(prompt), ValidationContext(catalog, stages=ERROR_STAGES)) == []
