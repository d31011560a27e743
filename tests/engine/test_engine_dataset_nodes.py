"""The nodes for datasets: lists of images and texts, and folders of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import node
from comfyrail.engine.events import ExecutionFailed
from comfyrail.engine.folders import Folders
from comfyrail.engine.pixels import to_bytes
from comfyrail.engine.prompt_check import PromptRefused, check_prompt
from tests.engine.engine_parts import Engine, nodes_run


class Anywhere:
    """As much of a context as these nodes use when nothing is read or written."""

    def check_interrupt(self) -> None: ...


def run(name: str, **inputs: Any) -> Any:
    definition = builtin_registry()[name]
    context = {"context": Anywhere()} if definition.takes_context else {}
    return definition.function(**inputs, **context)


def image(height: int, width: int, seed: int = 0, channels: int = 3) -> Any:
    pixels = np.random.default_rng(seed).integers(0, 256, (1, height, width, channels))
    return pixels.astype(np.float32) / np.float32(255)


@pytest.mark.parametrize(
    ("name", "inputs", "shape"),
    [
        ("ResizeImagesByShorterEdge", {"shorter_edge": 10}, (10, 15)),
        ("ResizeImagesByLongerEdge", {"longer_edge": 10}, (6, 10)),
        ("CenterCropImages", {"width": 4, "height": 6}, (6, 4)),
        ("CenterCropImages", {"width": 8192, "height": 6}, (6, 30)),
        ("RandomCropImages", {"width": 4, "height": 6, "seed": 2**64 - 1}, (6, 4)),
    ],
)
def test_images_get_their_size(name: str, inputs: dict[str, Any], shape: tuple[int, int]) -> None:
    assert run(name, images=image(20, 30), **inputs).shape == (1, *shape, 3)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_of_any_channels_are_resized(channels: int) -> None:
    images = np.concatenate([image(8, 6, seed, channels) for seed in range(2)])
    assert run("ResizeImagesByLongerEdge", images=images, longer_edge=4).shape == (
        2,
        4,
        3,
        channels,
    )


def test_an_image_does_not_vanish() -> None:
    with pytest.raises(ValueError, match="vanish"):
        run("ResizeImagesByLongerEdge", images=image(1, 50), longer_edge=8)


def test_an_image_that_cannot_fit_into_memory_is_refused() -> None:
    batch = np.broadcast_to(np.float32(0), (1 << 14, 1, 64, 3))
    with pytest.raises(MemoryError, match="GiB"):
        run("ResizeImagesByShorterEdge", images=batch, shorter_edge=8192)


def test_the_middle_is_cut_out_at_8_bits() -> None:
    whole = image(6, 8)
    cropped = run("CenterCropImages", images=whole, width=4, height=2)
    assert np.array_equal(to_bytes(cropped), to_bytes(whole[:, 2:4, 2:6]))


def test_a_seed_gives_the_same_part_again() -> None:
    size = {"width": 5, "height": 5}
    first, again, other = (
        run("RandomCropImages", images=image(50, 50), **size, seed=seed) for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_brightness_contrast_and_norm() -> None:
    grey = np.full((1, 1, 1, 3), 0.25, np.float32)
    assert run("AdjustBrightness", images=grey, factor=2.0).ravel()[0] == 0.5
    assert run("AdjustBrightness", images=grey, factor=9.0).max() == 1
    assert run("AdjustContrast", images=grey, factor=2.0).ravel()[0] == 0
    assert run("NormalizeImages", images=grey, mean=0.5, std=0.5).ravel()[0] == -0.5


def test_a_shuffled_dataset_keeps_images_and_texts_together() -> None:
    images = [image(1, 1, seed) for seed in range(6)]
    (alone,) = run("ShuffleDataset", images=images, seed=[3])
    both, texts = run("ShuffleImageTextDataset", images=images, texts=list("abcdef"), seed=[3])
    # What NumPy's old generator makes of this seed, and ComfyUI with it.
    assert texts == ["d", "f", "e", "b", "a", "c"]
    assert all(np.array_equal(*pair) for pair in zip(alone, both, strict=True))
    with pytest.raises(ValueError, match="only 1 texts"):
        run("ShuffleImageTextDataset", images=images, texts=["a"], seed=[3])


def test_doubles_are_left_out() -> None:
    first, second = image(20, 20, 1), image(20, 20, 2)
    brighter = np.clip(first * np.float32(0.9) + np.float32(0.05), 0, 1)
    images = [first, brighter, second, first]
    (kept,) = run("ImageDeduplication", images=images, similarity_threshold=[0.9])
    assert len(kept) == 2
    assert kept[1] is second
    assert run("ImageDeduplication", images=[], similarity_threshold=[0.9]) == ([],)


def test_images_are_arranged_in_a_grid() -> None:
    white = np.ones((1, 3, 3, 3), np.float32)
    size = {"columns": [2], "cell_width": [32], "cell_height": [40], "padding": [4]}
    grid = run("ImageGrid", images=[white] * 3, **size)
    assert grid.shape == (1, 84, 68, 3)
    assert grid[0, :, 32:36].sum() == 0
    assert grid[0, 44:, 36:].sum() == 0
    assert grid[0, 44:, :32].all()


def test_a_grid_of_nothing_or_of_too_much_is_refused() -> None:
    size = {"columns": [20], "cell_width": [2048], "cell_height": [2048], "padding": [50]}
    with pytest.raises(ValueError, match="no images"):
        run("ImageGrid", images=[], **size)
    batch = np.broadcast_to(np.float32(0), (1 << 17, 1, 1, 3))
    with pytest.raises(MemoryError, match="GiB"):
        run("ImageGrid", images=[batch], **size)


@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        ("TextToLowercase", {}, " straße\n"),
        ("TextToUppercase", {}, " STRASSE\n"),
        ("TruncateText", {"max_length": 3}, " St"),
        ("AddTextPrefix", {"prefix": "a"}, "a Straße\n"),
        ("AddTextSuffix", {"suffix": "a"}, " Straße\na"),
        ("ReplaceText", {"find": "ß", "replace": "ss"}, " Strasse\n"),
        ("StripWhitespace", {}, "Straße"),
    ],
)
def test_texts_come_in_a_list_of_one(name: str, inputs: dict[str, Any], expected: str) -> None:
    assert run(name, texts=" Straße\n", **inputs) == ([expected],)
    assert run(name, texts=[" Straße\n"], **inputs) == ([expected],)


def test_merged_texts_are_a_list_in_a_list() -> None:
    assert run("MergeTextLists", texts=["a", "b"]) == ([["a", "b"]],)


def test_a_text_that_grows_without_end_is_refused() -> None:
    long = "a" * (1 << 20)
    for name, inputs in (
        ("ReplaceText", {"find": "a", "replace": long}),
        ("ReplaceText", {"find": "", "replace": long}),
    ):
        with pytest.raises(MemoryError, match="characters"):
            run(name, texts=long, **inputs)


# Folders


def write_dataset(root: Path) -> None:
    for path in ("b.png", "a.JPG", "2_cats/x.webp", "3d/y.png", "3d/deep/z.png", "note.md"):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            target.write_text("no image")
        else:
            Image.new("RGB", (len(path), 2), "red").save(target)
    (root / "b.txt").write_text("  b\n", encoding="utf-8")
    (root / "2_cats" / "x.txt").write_text("ein Kätzchen", encoding="utf-8")


def load(name: str, folder: str) -> dict[str, Any]:
    return {"class_type": name, "inputs": {"folder": folder}}


def values_of(engine: Engine, prompt: dict[str, Any], node_id: str, slots: int) -> list[Any]:
    """The lists that a node gives, or what it failed with."""
    taken: list[Any] = []
    ports = {f"value{slot}": ("*",) for slot in range(slots)}

    @node("Take", required=ports, is_output=True, cacheable=False, takes_lists=True)
    def take(**values: Any) -> None:
        taken.extend(values[name] for name in sorted(values))

    engine.registry.add(take)
    links = {f"value{slot}": [node_id, slot] for slot in range(slots)}
    events = engine.run({**prompt, "take": {"class_type": "Take", "inputs": links}}, ["take"])
    return [events[-1]] if isinstance(events[-1], ExecutionFailed) else taken


def test_the_images_of_a_folder_are_loaded_by_name(engine: Engine, folders: Folders) -> None:
    write_dataset(folders.input / "set")
    (images,) = values_of(engine, {"1": load("LoadImageDataSetFromFolder", "set")}, "1", 1)
    assert [each.shape for each in images] == [(1, 2, 5, 3), (1, 2, 5, 3)]
    assert all(each.dtype == np.float32 for each in images)


def test_folders_in_it_count_as_often_as_they_say(engine: Engine, folders: Folders) -> None:
    write_dataset(folders.input / "set")
    prompt = {"1": load("LoadImageTextDataSetFromFolder", "set")}
    images, texts = values_of(engine, prompt, "1", 2)
    assert [each.shape[2] for each in images] == [13, 13, 8, 5, 5]
    assert texts == ["ein Kätzchen", "ein Kätzchen", "", "", "b"]
    assert images[0] is images[1]


def test_a_dataset_that_has_changed_is_loaded_anew(engine: Engine, folders: Folders) -> None:
    write_dataset(folders.input / "set")
    prompt = {
        "1": load("LoadImageTextDataSetFromFolder", "set"),
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 1]}},
    }
    assert nodes_run(engine.run(prompt, ["2"])) == ["1", "2"]
    assert nodes_run(engine.run(prompt, ["2"])) == []
    (folders.input / "set" / "b.txt").write_text("changed")
    assert nodes_run(engine.run(prompt, ["2"])) == ["1", "2"]


@pytest.mark.parametrize("folder", ["missing", "..", "../output", "/etc", "a\0b", "set/b.png"])
def test_a_folder_outside_of_the_inputs_is_refused(folder: str, folders: Folders) -> None:
    write_dataset(folders.input / "set")
    prompt = {
        "1": load("LoadImageDataSetFromFolder", folder),
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
    verdict = check_prompt(prompt, builtin_registry(), folders)
    assert isinstance(verdict, PromptRefused)
    assert "There is no folder" in json.dumps(verdict.body)


def test_links_out_of_the_inputs_are_not_followed(engine: Engine, folders: Folders) -> None:
    write_dataset(folders.input / "set")
    outside = folders.output / "secret"
    outside.mkdir(parents=True)
    Image.new("RGB", (99, 2)).save(outside / "a.png")
    (outside / "b.txt").write_text("secret")
    inside = folders.input / "set"
    (inside / "b.txt").unlink()
    (inside / "b.txt").symlink_to(outside / "b.txt")
    (inside / "0.png").symlink_to(outside / "a.png")
    (inside / "1_linked").symlink_to(outside)
    prompt = {"1": load("LoadImageTextDataSetFromFolder", "set")}
    images, texts = values_of(engine, prompt, "1", 2)
    assert 99 not in [each.shape[2] for each in images]
    assert "secret" not in texts


def test_an_empty_folder_and_endless_repeats_are_refused(engine: Engine, folders: Folders) -> None:
    (folders.input / "empty").mkdir()
    (failed,) = values_of(engine, {"1": load("LoadImageDataSetFromFolder", "empty")}, "1", 1)
    assert "no images" in failed.message
    write_dataset(folders.input / "set")
    cats = folders.input / "set" / "2_cats"
    cats.rename(cats.with_name(f"{10**30}_cats"))
    (failed,) = values_of(engine, {"1": load("LoadImageTextDataSetFromFolder", "set")}, "1", 2)
    assert "repeats" in failed.message


def save(folder_name: str, prefix: str = "image", **more: Any) -> dict[str, Any]:
    name = "SaveImageTextDataSetToFolder" if more else "SaveImageDataSetToFolder"
    inputs = {"images": ["1", 0], "folder_name": folder_name, "filename_prefix": prefix, **more}
    return {"class_type": name, "inputs": inputs}


def empty_image(count: int) -> dict[str, Any]:
    inputs = {"width": 3, "height": 2, "batch_size": count, "color": 0xFF0000}
    return {"class_type": "EmptyImage", "inputs": inputs}


def test_a_dataset_is_saved_with_its_texts(engine: Engine, folders: Folders) -> None:
    prompt = {"1": empty_image(2), "2": save("a/b", "x", texts="ein Bild")}
    events = engine.run(prompt, ["2"])
    assert not isinstance(events[-1], ExecutionFailed), events[-1]
    saved = folders.output / "a" / "b"
    assert sorted(path.name for path in saved.iterdir()) == [
        "x_00000.png",
        "x_00000.txt",
        "x_00001.png",
    ]
    assert (saved / "x_00000.txt").read_text(encoding="utf-8") == "ein Bild"
    with Image.open(saved / "x_00001.png") as picture:
        assert picture.getpixel((0, 0)) == (255, 0, 0)
        assert not picture.info


@pytest.mark.parametrize(
    ("folder", "prefix"),
    [("..", "x"), ("../../etc", "x"), ("/tmp", "x"), ("a", "../../x"), ("a\0", "x"), ("a", "/x")],
)
def test_a_dataset_is_not_saved_outside(
    folder: str, prefix: str, engine: Engine, folders: Folders
) -> None:
    events = engine.run({"1": empty_image(1), "2": save(folder, prefix)}, ["2"])
    assert isinstance(events[-1], ExecutionFailed)
    assert "outside" in events[-1].message
    assert not list(folders.output.parent.rglob("x_0*"))
