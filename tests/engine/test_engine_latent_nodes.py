"""Latents without a model: empty ones, changes, batches, mixtures and files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import node
from comfyrail.engine.events import ExecutionFailed, NodeExecuted
from comfyrail.engine.folders import Folders
from comfyrail.engine.latent_values import LATENT_METHODS
from comfyrail.engine.prompt_check import PromptAccepted, PromptRefused, check_prompt
from comfyrail.engine.tensor_files import TensorFile, TensorFileBroken, encode_tensors
from tests.engine.engine_parts import Engine

Array = np.ndarray[Any, np.dtype[np.float32]]


def run(name: str, **inputs: Any) -> Any:
    return builtin_registry()[name].function(**inputs)


def ramp(*shape: int) -> Array:
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.float32) / np.float32(size)).reshape(shape)


def latent(*shape: int, **more: Any) -> dict[str, Any]:
    return {"samples": ramp(*shape), **more}


@pytest.mark.parametrize(
    ("name", "inputs", "shape"),
    [
        ("EmptyLatentImage", {"width": 100, "height": 64}, (2, 4, 8, 12)),
        ("EmptySD3LatentImage", {"width": 64, "height": 32}, (2, 16, 4, 8)),
        ("EmptyFlux2LatentImage", {"width": 64, "height": 32}, (2, 128, 2, 4)),
        ("EmptyHunyuanImageLatent", {"width": 64, "height": 96}, (2, 64, 3, 2)),
        ("EmptyChromaRadianceLatentImage", {"width": 16, "height": 32}, (2, 3, 32, 16)),
        (
            "EmptyHunyuanLatentVideo",
            {"width": 64, "height": 32, "length": 25},
            (2, 16, 7, 4, 8),
        ),
        ("EmptyMochiLatentVideo", {"width": 64, "height": 32, "length": 7}, (2, 12, 2, 4, 8)),
        (
            "EmptyQwenImageLayeredLatentImage",
            {"width": 16, "height": 32, "layers": 3},
            (2, 16, 4, 4, 2),
        ),
        ("EmptyLatentAudio", {"seconds": 47.6}, (2, 64, 1024)),
        ("EmptyAceStepLatentAudio", {"seconds": 120.0}, (2, 8, 16, 1291)),
        ("EmptyLatentHunyuan3Dv2", {"resolution": 5}, (2, 64, 5)),
    ],
)
def test_an_empty_latent_has_its_shape(
    name: str, inputs: dict[str, Any], shape: tuple[int, ...]
) -> None:
    made = run(name, **inputs, batch_size=2)["samples"]
    assert made.shape == shape
    assert made.dtype == np.float32
    assert not made.any()


def test_some_latents_say_of_what_kind_they_are() -> None:
    assert run("EmptyLatentAudio", seconds=1.0, batch_size=1)["type"] == "audio"
    assert run("EmptyLatentHunyuan3Dv2", resolution=1, batch_size=1)["type"] == "hunyuan3dv2"


def test_the_two_latents_of_a_cascade() -> None:
    sizes = {"width": 256, "height": 300, "compression": 42, "batch_size": 1}
    first, second = run("StableCascade_EmptyLatentImage", **sizes)
    assert first["samples"].shape == (1, 16, 7, 6)
    assert second["samples"].shape == (1, 4, 75, 64)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("EmptyLatentImage", {"width": 16384, "height": 16384}),
        ("EmptyChromaRadianceLatentImage", {"width": 16384, "height": 16384}),
        ("EmptyHunyuanLatentVideo", {"width": 16384, "height": 16384, "length": 16384}),
        ("EmptyQwenImageLayeredLatentImage", {"width": 16384, "height": 16384, "layers": 16384}),
    ],
)
def test_a_latent_that_cannot_fit_into_memory_is_refused(name: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(MemoryError, match="GiB"):
        run(name, **inputs, batch_size=4096)


def test_a_latent_without_a_length_is_no_audio() -> None:
    with pytest.raises(ValueError, match="NaN"):
        run("EmptyLatentAudio", seconds=float("nan"), batch_size=1)


@pytest.mark.parametrize("method", LATENT_METHODS)
def test_a_latent_is_scaled_to_a_size_in_pixels(method: str) -> None:
    size = {"width": 128, "height": 0, "crop": "disabled"}
    scaled = run("LatentUpscale", samples=latent(1, 4, 6, 8), upscale_method=method, **size)
    assert scaled["samples"].shape == (1, 4, 12, 16)


def test_a_size_of_nothing_leaves_a_latent_alone() -> None:
    given = latent(1, 4, 6, 8)
    size = {"width": 0, "height": 0, "crop": "center"}
    assert run("LatentUpscale", samples=given, upscale_method="area", **size) is given


def test_frames_of_a_video_are_scaled_each() -> None:
    video = latent(1, 2, 3, 4, 4)
    scaled = run("LatentUpscaleBy", samples=video, upscale_method="nearest-exact", scale_by=2.0)
    assert np.array_equal(scaled["samples"][..., ::2, ::2], video["samples"])


def test_what_else_a_latent_holds_is_kept() -> None:
    given = latent(1, 4, 8, 8, batch_index=[5], noise_mask=ramp(1, 1, 64, 64))
    flipped = run("LatentFlip", samples=given, flip_method="x-axis: vertically")
    assert flipped["batch_index"] == [5]
    assert flipped["noise_mask"] is given["noise_mask"]


@pytest.mark.parametrize("scale", [0.01, float("nan")])
def test_a_latent_does_not_vanish(scale: float) -> None:
    with pytest.raises(ValueError, match=r"vanish|NaN"):
        run(
            "LatentUpscaleBy",
            samples=latent(1, 4, 8, 8),
            upscale_method="area",
            scale_by=scale,
        )


def test_a_latent_of_audio_has_no_size() -> None:
    with pytest.raises(ValueError, match="3 axes"):
        run(
            "LatentUpscaleBy",
            samples=latent(1, 64, 8),
            upscale_method="area",
            scale_by=2.0,
        )


def test_turned_vectors_keep_their_length() -> None:
    directions = np.zeros((1, 2, 1, 2), np.float32)
    directions[0, :, 0, 0] = (3, 0)
    directions[0, :, 0, 1] = (0, 5)
    upscale = {"upscale_method": "bislerp", "scale_by": 3.0}
    turned = run("LatentUpscaleBy", samples={"samples": directions}, **upscale)["samples"]
    lengths = np.sqrt((turned[0] ** 2).sum(axis=0))[1]
    assert np.allclose(lengths, [3, 3, 3 + 2 / 3, 3 + 4 / 3, 5, 5], atol=0.5)
    assert lengths[2] > 3.3  # Mixed straight it would be shorter than both.


def test_vectors_that_are_nothing_or_opposite_stay_finite() -> None:
    samples = np.zeros((1, 4, 3, 4), np.float32)
    samples[:, :, 1] = 2
    samples[:, :, 2, ::2] = 1
    samples[:, :, 2, 1::2] = -1
    scaled = run(
        "LatentUpscaleBy", samples={"samples": samples}, upscale_method="bislerp", scale_by=2.5
    )
    assert np.isfinite(scaled["samples"]).all()


def test_turned_and_mirrored_latents() -> None:
    given = latent(1, 1, 2, 3)
    turned = run("LatentRotate", samples=given, rotation="90 degrees")["samples"]
    assert np.array_equal(turned[0, 0], np.rot90(given["samples"][0, 0], -1))
    mirrored = run("LatentFlip", samples=given, flip_method="y-axis: horizontally")["samples"]
    assert np.array_equal(mirrored[0, 0], given["samples"][0, 0, :, ::-1])


def test_a_part_starts_early_enough_to_be_eight_wide() -> None:
    given = latent(1, 1, 10, 12)
    part = run("LatentCrop", samples=given, width=64, height=64, x=800, y=8)["samples"]
    assert np.array_equal(part, given["samples"][:, :, 1:9, 4:12])


def test_a_part_of_too_small_a_latent_is_all_of_it() -> None:
    given = latent(1, 1, 4, 4)
    part = run("LatentCrop", samples=given, width=64, height=64, x=8, y=0)["samples"]
    assert np.array_equal(part, given["samples"])


@pytest.mark.parametrize(
    ("index", "amount", "kept"),
    [(0, 2, [0, 1]), (4, 9, [4]), (99, 1, [4]), (-2, 1, [3]), (-2, 9, [3, 4]), (-99, 2, [0, 1])],
)
def test_a_cut_along_an_axis(index: int, amount: int, kept: list[int]) -> None:
    given = latent(1, 1, 2, 5)
    cut = run("LatentCut", samples=given, dim="x", index=index, amount=amount)["samples"]
    assert np.array_equal(cut, given["samples"][..., kept])


def test_slices_become_a_batch_and_a_rest_is_left_off() -> None:
    given = latent(2, 3, 5, 2, 2)
    cut = run("LatentCutToBatch", samples=given, dim="t", slice_size=2)["samples"]
    assert cut.shape == (4, 3, 2, 2, 2)
    assert np.array_equal(cut[1], given["samples"][0, :, 2:4])
    assert run("LatentCutToBatch", samples=latent(1, 3, 2, 2), dim="t", slice_size=1)[
        "samples"
    ].shape == (1, 3, 2, 2)


def test_an_axis_that_is_not_there_is_refused() -> None:
    flat = {"samples": np.zeros((3, 2), np.float32)}
    with pytest.raises(ValueError, match="no axis t"):
        run("LatentCut", samples=flat, dim="t", index=0, amount=1)


def test_the_second_latent_takes_size_and_number_of_the_first() -> None:
    first, second = latent(3, 4, 8, 8), latent(2, 4, 16, 16)
    for name in ("LatentAdd", "LatentSubtract"):
        assert run(name, samples1=first, samples2=second)["samples"].shape == (3, 4, 8, 8)
    same = {"samples": first["samples"] * np.float32(2)}
    difference = run("LatentSubtract", samples1=same, samples2=first)["samples"]
    assert np.array_equal(difference, first["samples"])


def test_latents_are_multiplied_blended_and_interpolated() -> None:
    first, second = latent(1, 4, 2, 2), {"samples": ramp(1, 4, 2, 2)[:, ::-1].copy()}
    doubled = run("LatentMultiply", samples=first, multiplier=2.0)["samples"]
    assert np.array_equal(doubled, first["samples"] * 2)
    whole = run("LatentBlend", samples1=first, samples2=second, blend_factor=1.0)["samples"]
    assert np.array_equal(whole, first["samples"])
    mixed = run("LatentInterpolate", samples1=first, samples2=second, ratio=0.0)["samples"]
    assert np.allclose(mixed, second["samples"], atol=1e-6)


def test_latents_of_nothing_interpolate_to_nothing() -> None:
    nothing = {"samples": np.zeros((1, 4, 2, 2), np.float32)}
    mixed = run("LatentInterpolate", samples1=nothing, samples2=nothing, ratio=0.5)["samples"]
    assert not mixed.any()


def test_latents_side_by_side() -> None:
    first, second = latent(1, 1, 2, 2), {"samples": -ramp(1, 1, 2, 2)}
    right = run("LatentConcat", samples1=first, samples2=second, dim="x")["samples"]
    above = run("LatentConcat", samples1=first, samples2=second, dim="-y")["samples"]
    assert np.array_equal(right[..., :2], first["samples"])
    assert np.array_equal(above[..., :2, :], second["samples"])


def test_a_latent_is_laid_over_another_and_fades_out_inside() -> None:
    ground = {"samples": np.zeros((1, 1, 8, 8), np.float32)}
    above = {"samples": np.ones((1, 1, 4, 4), np.float32)}
    place = {"x": 16, "y": 0}
    plain = run("LatentComposite", samples_to=ground, samples_from=above, **place, feather=0)
    assert plain["samples"].sum() == 16
    faded = run("LatentComposite", samples_to=ground, samples_from=above, **place, feather=16)
    assert faded["samples"][0, 0, 0, 2:6].tolist() == [0.5, 1, 1, 0.5]
    outside = run("LatentComposite", samples_to=ground, samples_from=above, x=800, y=0, feather=8)
    assert not outside["samples"].any()


def test_a_latent_is_laid_over_another_through_a_mask() -> None:
    ground = {"samples": np.zeros((2, 3, 4, 4), np.float32)}
    above = {"samples": np.ones((1, 3, 2, 2), np.float32)}
    mask = np.array([[[0.25]]], np.float32)
    place = {"x": 24, "y": 0, "resize_source": False}
    laid = run("LatentCompositeMasked", destination=ground, source=above, **place, mask=mask)
    assert laid["samples"].sum() == 2 * 3 * 2 * 0.25
    covered = run(
        "LatentCompositeMasked", destination=ground, source=above, x=0, y=0, resize_source=True
    )
    assert covered["samples"].all()


def test_a_noise_mask_becomes_part_of_the_latent() -> None:
    masked = run("SetLatentNoiseMask", samples=latent(1, 4, 2, 2), mask=ramp(2, 16, 16))
    assert masked["noise_mask"].shape == (2, 1, 16, 16)


def test_some_latents_of_a_batch_keep_their_places() -> None:
    given = latent(3, 1, 2, 2, noise_mask=ramp(2, 1, 4, 4))
    taken = run("LatentFromBatch", samples=given, batch_index=1, length=9)
    assert np.array_equal(taken["samples"], given["samples"][1:])
    assert taken["batch_index"] == [1, 2]
    assert np.array_equal(taken["noise_mask"], given["noise_mask"][[1, 0]])
    again = run("LatentFromBatch", samples=taken, batch_index=9, length=1)
    assert again["batch_index"] == [2]


def test_a_repeated_batch_goes_on_counting() -> None:
    repeated = run("RepeatLatentBatch", samples=latent(2, 1, 2, 2, batch_index=[3, 4]), amount=3)
    assert len(repeated["samples"]) == 6
    assert repeated["batch_index"] == [3, 4, 5, 6, 7, 8]
    huge = {"samples": np.broadcast_to(np.float32(0), (1 << 20, 4, 256, 256))}
    with pytest.raises(MemoryError, match="GiB"):
        run("RepeatLatentBatch", samples=huge, amount=64)


def test_latents_of_a_batch_may_share_their_noise() -> None:
    fixed = run("LatentBatchSeedBehavior", samples=latent(2, 1, 2, 2), seed_behavior="fixed")
    assert fixed["batch_index"] == [0, 0]
    free = run("LatentBatchSeedBehavior", samples=fixed, seed_behavior="random")
    assert "batch_index" not in free


def test_two_latents_become_a_batch() -> None:
    joined = run("LatentBatch", samples1=latent(1, 4, 8, 8), samples2=latent(2, 4, 16, 8))
    assert joined["samples"].shape == (3, 4, 8, 8)
    assert joined["batch_index"] == [0, 0, 1]


def test_latents_are_divided_into_other_batches() -> None:
    latents = [latent(3, 1, 1, 1), latent(2, 1, 1, 1, noise_mask=ramp(1, 1, 8, 8))]
    (batches,) = run("RebatchLatents", latents=latents, batch_size=[2])
    assert [batch["batch_index"] for batch in batches] == [[0, 1], [2, 3], [4]]
    assert ["noise_mask" in batch for batch in batches] == [False, True, True]


def test_frames_are_replaced_only_where_all_of_them_fit(engine: Engine) -> None:
    taken = values_of(
        engine,
        {
            "1": held(engine, "Long", latent(1, 1, 4, 1, 1)),
            "2": held(engine, "Short", {"samples": np.ones((1, 1, 2, 1, 1), np.float32)}),
            "3": replaced(-2),
            "4": replaced(3),
        },
        ["3", "4"],
    )
    assert taken["3"]["samples"].ravel().tolist() == [0.0, 0.25, 1.0, 1.0]
    assert taken["4"]["samples"].ravel().tolist() == [0.0, 0.25, 0.5, 0.75]


def replaced(index: int) -> dict[str, Any]:
    inputs = {"destination": ["1", 0], "source": ["2", 0], "index": index}
    return {"class_type": "ReplaceVideoLatentFrames", "inputs": inputs}


def held(engine: Engine, name: str, value: Any) -> dict[str, Any]:
    engine.registry.add(node(name, outputs=("LATENT",))(lambda: value))
    return {"class_type": name, "inputs": {}}


def values_of(engine: Engine, prompt: dict[str, Any], wanted: list[str]) -> dict[str, Any]:
    """What nodes give, as another node gets it."""
    taken: dict[str, Any] = {}

    @node("Take", required={"value": ("*",), "name": ("STRING",)}, is_output=True, cacheable=False)
    def take(value: Any, name: str) -> None:
        taken[name] = value

    engine.registry.add(take)
    takers = {
        f"take-{each}": {"class_type": "Take", "inputs": {"value": [each, 0], "name": each}}
        for each in wanted
    }
    events = engine.run({**prompt, **takers}, list(takers))
    assert not isinstance(events[-1], ExecutionFailed), events[-1]
    return taken


def test_a_video_loses_its_first_frames() -> None:
    trimmed = run("TrimVideoLatent", samples=latent(1, 1, 4, 1, 1), trim_amount=3)["samples"]
    assert trimmed.ravel().tolist() == [0.75]
    assert run("TrimVideoLatent", samples=latent(1, 1, 4, 1, 1), trim_amount=9)["samples"].size == 0


def test_a_saved_latent_is_loaded_again(engine: Engine, folders: Folders) -> None:
    samples = ramp(1, 4, 2, 2)
    save = {"samples": ["1", 0], "filename_prefix": "latents/test"}
    prompt = {
        "1": held(engine, "Given", {"samples": samples}),
        "2": {"class_type": "SaveLatent", "inputs": save},
    }
    (shown,) = [
        event.ui["latents"][0]
        for event in engine.run(prompt, ["2"], extra_pnginfo={"workflow": {"a": 1}})
        if isinstance(event, NodeExecuted)
    ]
    assert shown == {
        "filename": "test_00001_.latent",
        "subfolder": "latents",
        "type": "output",
    }
    content = (folders.output / "latents" / "test_00001_.latent").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["workflow"]) == {"a": 1}
    assert "SaveLatent" in header["__metadata__"]["prompt"]
    (folders.input / "again.latent").write_bytes(content)
    loaded = values_of(engine, {"1": load("again.latent")}, ["1"])["1"]
    assert np.array_equal(loaded["samples"], samples)


def load(name: str) -> dict[str, Any]:
    return {"class_type": "LoadLatent", "inputs": {"latent": name}}


def test_a_latent_of_the_first_format_is_scaled(engine: Engine, folders: Folders) -> None:
    content = encode_tensors({"latent_tensor": np.ones((1, 4, 1, 1), np.float32)}, {})
    (folders.input / "old.latent").write_bytes(content)
    loaded = values_of(engine, {"1": load("old.latent")}, ["1"])["1"]["samples"]
    assert loaded.ravel()[0] == np.float32(1 / 0.18215)


@pytest.mark.parametrize("name", ["missing.latent", "../outside.latent", "a\0b", ""])
def test_a_latent_that_is_not_there_is_refused(name: str, folders: Folders) -> None:
    save = {"samples": ["1", 0], "filename_prefix": "x"}
    prompt = {"1": load(name), "2": {"class_type": "SaveLatent", "inputs": save}}
    verdict = check_prompt(prompt, builtin_registry(), folders)
    assert isinstance(verdict, PromptRefused)
    assert "Invalid latent file" in json.dumps(verdict.body)


def test_a_changed_file_is_loaded_anew(engine: Engine, folders: Folders) -> None:
    for value in (1, 2):
        content = encode_tensors({"latent_tensor": np.full((1, 4, 1, 1), value, np.float32)}, {})
        (folders.input / "a.latent").write_bytes(content)
        loaded = values_of(engine, {"1": load("a.latent")}, ["1"])["1"]["samples"]
        assert loaded.ravel()[0] == np.float32(value) * np.float32(1 / 0.18215)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("F16", np.array([1.5, -2], "<f2"), [1.5, -2]),
        ("F64", np.array([0.25], "<f8"), [0.25]),
        ("BF16", np.array([0x3FC0, 0xC000], "<u2"), [1.5, -2]),
        ("I64", np.array([7], "<i8"), [7]),
        ("BOOL", np.array([True, False]), [1, 0]),
    ],
)
def test_tensors_of_all_kinds_are_read_as_floats(
    kind: str, values: Any, expected: list[float], tmp_path: Path
) -> None:
    entry = {"dtype": kind, "shape": [len(values)], "data_offsets": [0, values.nbytes]}
    path = write_tensors(tmp_path, {"x": entry}, values.tobytes())
    assert TensorFile(path).read_floats("x").tolist() == expected


def write_tensors(folder: Path, header: Any, data: bytes) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "x.latent"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]},
        {"dtype": "F32", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 1 << 126]},
        {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": "no", "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "more": 1},
        [],
    ],
)
def test_a_tensor_that_is_not_what_it_says_is_refused(entry: Any, tmp_path: Path) -> None:
    path = write_tensors(tmp_path, {"x": entry}, b"\0\0\0\0")
    with pytest.raises(TensorFileBroken):
        TensorFile(path).read_floats("x")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc",
        b"\xff" * 8,
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (4).to_bytes(8, "little") + b"\xff\xfe{}",
        (200_000).to_bytes(8, "little") + b"[" * 200_000,
    ],
)
def test_a_file_without_a_header_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.latent"
    path.write_bytes(content)
    with pytest.raises(TensorFileBroken):
        TensorFile(path)


def test_a_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    path = write_tensors(tmp_path, {}, b"")
    with pytest.raises(TensorFileBroken, match="latent_tensor"):
        TensorFile(path).read_floats("latent_tensor")


def test_latents_pass_the_check_of_a_prompt(folders: Folders) -> None:
    prompt = {
        "1": {
            "class_type": "EmptyLatentImage",
            "inputs": {"width": 64, "height": 64, "batch_size": 1},
        },
        "2": {"class_type": "SaveLatent", "inputs": {"samples": ["1", 0], "filename_prefix": "x"}},
    }
    assert isinstance(check_prompt(prompt, builtin_registry(), folders), PromptAccepted)
