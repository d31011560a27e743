from typing import Any

import numpy as np
import pytest
from PIL import Image

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.batches import repeat_image_batch
from comfyrail.engine.builtin.compositing import composite_masked, pad_image_for_outpaint
from comfyrail.engine.builtin.mask_channels import (
    colour_to_mask,
    image_to_mask,
    join_image_with_alpha,
    split_image_with_alpha,
)
from comfyrail.engine.builtin.masks import (
    MASK_OPERATIONS,
    composite_masks,
    crop_mask,
    feather_mask,
    grow_mask,
    threshold_mask,
)
from comfyrail.engine.builtin.porter_duff import porter_duff_composite
from comfyrail.engine.events import NodeExecuted
from comfyrail.engine.folders import Folders
from comfyrail.engine.morphology import grow
from comfyrail.engine.pixels import to_bytes
from tests.engine.engine_parts import Engine, nodes_run


def flat(value: float, *shape: int) -> Any:
    return np.full(shape, value, np.float32)


def dot(side: int = 7) -> Any:
    mask = np.zeros((1, side, side), np.float32)
    mask[0, side // 2, side // 2] = 1
    return mask


@pytest.mark.parametrize("diagonally", [True, False])
@pytest.mark.parametrize("steps", [-9, -4, -1, 0, 1, 2, 3, 5, 8, 13, 50])
def test_growing_far_is_growing_by_one_many_times(steps: int, diagonally: bool) -> None:
    values = np.random.default_rng(steps + 9).random((2, 11, 6), np.float32)
    expected = values
    for _ in range(abs(steps)):
        expected = grow(expected, int(np.sign(steps)), diagonally=diagonally)
    assert np.array_equal(grow(values, steps, diagonally=diagonally), expected)


def test_tapered_corners_grow_to_a_diamond_and_others_to_a_square() -> None:
    tapered = grow_mask.function(mask=dot(), expand=2, tapered_corners=True)
    square = grow_mask.function(mask=dot(), expand=2, tapered_corners=False)
    assert (tapered.sum(), square.sum()) == (13, 25)


def test_a_mask_grown_beyond_all_sizes_is_full_at_once() -> None:
    assert grow_mask.function(mask=dot(301), expand=16384, tapered_corners=True).all()


def test_feathering_falls_where_comfyui_puts_it() -> None:
    feathered = feather_mask.function(mask=flat(1, 1, 1, 5), left=9, top=0, right=9, bottom=0)
    assert to_bytes(feathered)[0, 0].tolist() == [10, 102, 122, 122, 102]


def test_a_threshold_is_exclusive() -> None:
    assert not threshold_mask.function(mask=flat(0.3, 1, 1, 1), value=0.3).any()


@pytest.mark.parametrize(
    ("operation", "expected"),
    list(zip(MASK_OPERATIONS, [0.45, 1.0, 0.0, 0.0, 1.0, 1.0], strict=True)),
)
def test_mask_operations_stay_in_range_and_take_a_half_as_unset(
    operation: str, expected: float
) -> None:
    pair = {"destination": flat(0.5, 1, 2, 2), "source": flat(0.9, 1, 1, 1)}
    result = composite_masks.function(**pair, x=1, y=0, operation=operation)
    assert result[0, 0].tolist() == pytest.approx([0.5, expected])


def test_masks_of_other_counts_and_parts_outside_are_refused_in_plain_words() -> None:
    pair = {"destination": flat(0, 2, 4, 4), "source": flat(0, 3, 4, 4)}
    with pytest.raises(ValueError, match="3 masks do not fit onto 2"):
        composite_masks.function(**pair, x=0, y=0, operation="add")
    with pytest.raises(ValueError, match="outside of the mask"):
        crop_mask.function(mask=flat(0, 1, 4, 4), x=4, y=0, width=1, height=1)
    with pytest.raises(ValueError, match="no alpha channel"):
        image_to_mask.function(image=flat(0, 1, 2, 2, 3), channel="alpha")


def test_a_colour_is_found_at_eight_bits() -> None:
    image = np.array([[[[0x33, 0x66, 0x99], [0x33, 0x66, 0x98]]]], np.float32) / np.float32(255)
    assert colour_to_mask.function(image=image, color=0x336699).tolist() == [[[1.0, 0.0]]]


def test_alpha_joined_is_the_mask_turned_over_and_splits_again() -> None:
    mask = np.array([[[0.0, 0.25], [0.5, 1.0]]], np.float32)
    joined = join_image_with_alpha.function(image=flat(0.5, 3, 2, 2, 3), alpha=mask)
    assert joined.shape == (1, 2, 2, 4)
    colours, alpha = split_image_with_alpha.function(image=joined)
    assert np.array_equal(alpha, mask)
    assert not split_image_with_alpha.function(image=colours)[1].any()


def test_a_composite_is_cut_at_the_border_and_follows_its_mask() -> None:
    pair = {"destination": flat(0, 2, 4, 4, 3), "source": flat(1, 1, 4, 4, 3)}
    mask = np.repeat(np.array([[[1, 1, 0, 0]]], np.float32), 4, axis=1)
    result = composite_masked.function(**pair, x=1, y=3, resize_source=False, mask=mask)
    assert result[:, 3, :, 0].tolist() == [[0, 1, 1, 0]] * 2
    assert not result[:, :3].any()
    far = composite_masked.function(**pair, x=9, y=9, resize_source=False)
    assert np.array_equal(far, pair["destination"])


def test_a_source_without_alpha_is_opaque_on_one_with_alpha() -> None:
    result = composite_masked.function(
        destination=flat(0, 1, 2, 2, 4), source=flat(0.5, 1, 1, 1, 3), x=0, y=0, resize_source=False
    )
    assert result[0, 0, 0].tolist() == [0.5, 0.5, 0.5, 1.0]


def test_padding_is_grey_and_its_mask_fades_into_the_image() -> None:
    sides = {"left": 2, "top": 0, "right": 0, "bottom": 0}
    padded, mask = pad_image_for_outpaint.function(image=flat(0, 1, 7, 9, 3), **sides, feathering=3)
    assert to_bytes(mask)[0, 0, :6].tolist() == [255, 255, 255, 113, 28, 0]
    assert padded[0, 0, :3, 0].tolist() == [0.5, 0.5, 0.0]


def test_porter_duff_needs_equal_channels() -> None:
    alpha = flat(0, 1, 1, 1)
    with pytest.raises(ValueError, match="4 channels, the destination 3"):
        porter_duff_composite.function(
            source=flat(0, 1, 1, 1, 4),
            source_alpha=alpha,
            destination=flat(0, 1, 1, 1, 3),
            destination_alpha=alpha,
            mode="XOR",
        )


def test_what_is_wholly_transparent_is_black() -> None:
    hidden = flat(1, 1, 1, 1)
    colours, alpha = porter_duff_composite.function(
        source=flat(1, 1, 1, 1, 3),
        source_alpha=hidden,
        destination=flat(1, 1, 1, 1, 3),
        destination_alpha=hidden,
        mode="SRC_OVER",
    )
    assert not colours.any()
    assert alpha.all()


def test_what_is_too_large_for_the_machine_is_refused_before_it_is_made() -> None:
    with pytest.raises(MemoryError, match="half of the memory"):
        check_room_for((4096, 16384, 16384, 3))
    image = np.broadcast_to(np.float32(0), (4096, 16384, 16384, 3))
    with pytest.raises(MemoryError, match="Use a smaller size or fewer images"):
        repeat_image_batch.function(image=image, amount=4096)


def test_a_mask_is_loaded_from_a_channel_and_again_when_the_file_changes(
    engine: Engine, folders: Folders
) -> None:
    prompt = {
        "1": {"class_type": "LoadImageMask", "inputs": {"image": "x.png", "channel": "alpha"}},
        "2": {"class_type": "MaskPreview", "inputs": {"mask": ["1", 0]}},
    }
    Image.new("RGBA", (3, 2), (0, 0, 0, 255)).save(folders.input / "x.png")
    (shown,) = [e.ui["images"] for e in engine.run(prompt, ["2"]) if isinstance(e, NodeExecuted)]
    with Image.open(folders.temp / shown[0]["filename"]) as picture:
        assert (picture.size, picture.getextrema()) == ((3, 2), ((0, 0),) * 3)
    assert nodes_run(engine.run(prompt, ["2"])) == []
    Image.new("RGBA", (3, 2)).save(folders.input / "x.png")
    assert nodes_run(engine.run(prompt, ["2"])) == ["1", "2"]
