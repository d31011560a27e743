"""Nodes that may be run over several images at once give what they give one by one."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import NodeDefinition
from comfyrail.workflow.catalog import InputPort

BATCHING = [definition for definition in builtin_registry() if definition.batches]
MOST_VARIANTS = 40
MASKS = {"MASK"}


class Quiet:
    """As much of a context as these nodes use."""

    def progress(self, value: float, maximum: float) -> None: ...
    def check_interrupt(self) -> None: ...


def variants(definition: NodeDefinition) -> Iterator[dict[str, Any]]:
    """Other inputs: the defaults, and all choices where there are some."""
    if definition.name == "ResizeImageMaskNode":
        way = {"resize_type": "scale dimensions", "resize_type.width": 19}
        size = {**way, "resize_type.height": 31, "resize_type.crop": "center"}
        yield from ({**size, "scale_method": each} for each in ("area", "bilinear", "lanczos"))
        return
    ports = [port for name, port in definition.ports.items() if name != definition.batches]
    options = [list(dict.fromkeys(values_of(port))) for port in ports]
    names = [port.name for port in ports]
    for values in itertools.islice(itertools.product(*options), MOST_VARIANTS):
        yield dict(zip(names, values, strict=True))


def values_of(port: InputPort) -> list[Any]:
    if port.choices:
        return list(port.choices)
    # Beyond 128 for both sides together, images are resized in another way.
    few: dict[str, list[Any]] = {
        "width": [9, 140],
        "target_width": [140],
        "height": [7],
        "target_height": [9],
        "blur_radius": [3],
        "sharpen_radius": [3],
        "largest_size": [70, 33],
        "longer_edge": [33],
        "shorter_edge": [9],
        "megapixels": [0.01],
    }
    return few.get(port.name, [port.default])


def pictures(definition: NodeDefinition, channels: int) -> list[Any]:
    """A single image, a batch of two, and another single one."""
    source = np.random.default_rng(1)
    is_mask = definition.ports.get(definition.batches or "")
    shape = (24, 26) if is_mask and is_mask.type in MASKS else (24, 26, channels)
    return [
        (source.integers(0, 256, (count, *shape)) / 255).astype(np.float32) for count in (1, 2, 1)
    ]


@pytest.mark.parametrize("definition", BATCHING, ids=lambda definition: definition.name)
@pytest.mark.parametrize("channels", [3, 4])
def test_joined_images_give_what_they_give_alone(definition: NodeDefinition, channels: int) -> None:
    images = pictures(definition, channels)
    context = {"context": Quiet()} if definition.takes_context else {}
    for inputs in variants(definition):
        try:
            alone = [outputs(definition, image, inputs, context) for image in images]
        except ValueError:
            assert (definition.name, inputs.get("channel")) == ("ImageToMask", "alpha")
            continue
        joined = outputs(definition, np.concatenate(images), inputs, context)
        for slot, value in enumerate(joined):
            expected = np.concatenate([each[slot] for each in alone])
            assert np.array_equal(value, expected), inputs
            assert len(value) == 4


def outputs(
    definition: NodeDefinition, image: Any, inputs: dict[str, Any], context: dict[str, Any]
) -> tuple[Any, ...]:
    made = definition.function(**{str(definition.batches): image}, **inputs, **context)
    return made if isinstance(made, tuple) else (made,)


def test_the_usual_nodes_are_among_them() -> None:
    names = {definition.name for definition in BATCHING}
    assert {"ImageInvert", "ImageScale", "ImageBlur", "ImageCrop", "InvertMask"} <= names
    # These look at the whole batch, or make something of their own for each image.
    assert not {"ImageAddNoise", "ImageFromBatch", "ImagePadForOutpaint", "ImageBatch"} & names


def test_cheap_nodes_need_nothing() -> None:
    cheap = [definition for definition in builtin_registry() if definition.is_cheap]
    assert {"PrimitiveInt", "StringConcatenate", "GetImageSize"} <= {each.name for each in cheap}
    assert all(each.needs.cpu_cores == 0 and each.needs.memory_mb == 0 for each in cheap)
