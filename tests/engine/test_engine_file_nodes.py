import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from comfyrail.clock import Instant
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import node
from comfyrail.engine.events import Event, ExecutionFailed, NodeExecuted
from comfyrail.engine.folders import Folders, path_inside
from comfyrail.engine.output_names import OutputNames, fill_in_tokens
from comfyrail.engine.prompt_check import PromptAccepted, PromptRefused, check_prompt
from tests.engine.engine_parts import Engine, nodes_run
from tests.engine.worker_client import empty_image, preview, save


def load(name: str) -> dict[str, Any]:
    return {"class_type": "LoadImage", "inputs": {"image": name}}


def loaded(engine: Engine, name: str) -> tuple[Any, Any]:
    """What LoadImage gives for a file, through a node that takes both."""
    taken: list[Any] = []

    @node(
        "Take",
        required={"image": ("IMAGE",), "mask": ("MASK",)},
        is_output=True,
        cacheable=False,
    )
    def take(image: Any, mask: Any) -> None:
        taken.extend((image, mask))

    engine.registry.add(take)
    inputs = {"image": ["1", 0], "mask": ["1", 1]}
    events = engine.run({"1": load(name), "2": {"class_type": "Take", "inputs": inputs}}, ["2"])
    assert taken, events[-1]
    return taken[0], taken[1]


def files_shown(events: list[Event]) -> list[dict[str, str]]:
    return [
        item for event in events if isinstance(event, NodeExecuted) for item in event.ui["images"]
    ]


def write_image(path: Path, mode: str = "RGB", size: tuple[int, int] = (3, 2)) -> Image.Image:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0], len(mode)) if mode != "L" else (size[1], size[0])
    pixels = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape) * 7
    picture = Image.fromarray(pixels, mode=None)
    picture.save(path)
    return picture


def test_an_image_is_loaded_with_an_empty_mask(engine: Engine, folders: Folders) -> None:
    picture = write_image(folders.input / "x.png")
    image, mask = loaded(engine, "x.png")
    assert image.shape == (1, 2, 3, 3)
    assert np.array_equal((image[0] * 255).round(), np.asarray(picture))
    assert mask.shape == (1, 64, 64)
    assert not mask.any()


def test_what_is_transparent_is_in_the_mask(engine: Engine, folders: Folders) -> None:
    picture = write_image(folders.input / "x.png", "RGBA")
    image, mask = loaded(engine, "x.png")
    assert image.shape[-1] == 3
    assert np.allclose(mask[0], 1 - np.asarray(picture)[..., 3] / 255)


def test_an_image_is_turned_as_its_exif_says(engine: Engine, folders: Folders) -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    Image.new("RGB", (6, 2)).save(folders.input / "turned.jpg", exif=exif)
    assert loaded(engine, "turned.jpg")[0].shape == (1, 6, 2, 3)


def test_the_frames_of_an_animation_become_a_batch(engine: Engine, folders: Folders) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "green", "blue")]
    frames[0].save(folders.input / "a.gif", save_all=True, append_images=frames[1:])
    assert loaded(engine, "a.gif")[0].shape == (3, 4, 4, 3)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("input", "sub/x.png"), ("output", "x.png [output]"), ("temp", "sub/x.png [temp]")],
)
def test_a_name_may_say_its_folder(kind: str, name: str, engine: Engine, folders: Folders) -> None:
    root = folders.of(kind)
    assert root is not None
    write_image(root / name.split(" ", maxsplit=1)[0])
    assert loaded(engine, name)[0].shape == (1, 2, 3, 3)


def test_a_changed_file_is_loaded_again_and_an_unchanged_one_is_not(
    engine: Engine, folders: Folders
) -> None:
    prompt = {"1": load("x.png"), "2": preview("1")}
    write_image(folders.input / "x.png")
    engine.run(prompt, ["2"])
    assert nodes_run(engine.run(prompt, ["2"])) == []
    write_image(folders.input / "x.png", size=(5, 5))
    assert nodes_run(engine.run(prompt, ["2"])) == ["1", "2"]


@pytest.mark.parametrize(
    "name", ["nope.png", "../secret.png", "/etc/passwd", "a\0b", "", "../../x [output]", "link.png"]
)
def test_a_file_that_is_not_in_the_folder_is_refused(name: str, folders: Folders) -> None:
    write_image(folders.input.parent / "secret.png")
    (folders.input / "link.png").symlink_to(folders.input.parent / "secret.png")
    verdict = check_prompt({"1": load(name), "2": preview("1")}, builtin_registry(), folders)
    assert isinstance(verdict, PromptRefused)
    (fault,) = verdict.body["node_errors"]["1"]["errors"]
    assert fault["details"] == f"image - Invalid image file: {name}"


def test_a_file_in_a_subfolder_passes_though_it_is_not_among_the_choices(
    folders: Folders,
) -> None:
    write_image(folders.input / "sub" / "x.png")
    verdict = check_prompt({"1": load("sub/x.png"), "2": preview("1")}, builtin_registry(), folders)
    assert isinstance(verdict, PromptAccepted)


def test_saved_files_are_numbered_in_their_subfolder(engine: Engine, folders: Folders) -> None:
    (folders.output / "probe").mkdir()
    (folders.output / "probe" / "inv_00041_.png").write_bytes(b"")
    (folders.output / "probe" / "inverse_00099_.png").write_bytes(b"")
    prompt = {"1": empty_image(), "2": save("1", "probe/inv")}
    prompt["1"]["inputs"]["batch_size"] = 2
    assert files_shown(engine.run(prompt, ["2"])) == [
        {"filename": "inv_00042_.png", "subfolder": "probe", "type": "output"},
        {"filename": "inv_00043_.png", "subfolder": "probe", "type": "output"},
    ]


def test_a_file_that_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    names = OutputNames()
    names.save(tmp_path, "x", b"first")
    (tmp_path / "x_00002_.png").write_bytes(b"someone else's")
    assert names.save(tmp_path, "x", b"second").filename == "x_00003_.png"
    assert (tmp_path / "x_00002_.png").read_bytes() == b"someone else's"


def test_the_folder_is_not_listed_at_every_save(tmp_path: Path) -> None:
    names = OutputNames()
    names.save(tmp_path, "x", b"")
    (tmp_path / "x_00500_.png").write_bytes(b"")
    assert names.save(tmp_path, "x", b"").filename == "x_00002_.png"


def test_saved_images_carry_the_prompt_and_what_came_with_it(
    engine: Engine, folders: Folders
) -> None:
    prompt = {"1": empty_image(0x336699), "2": save("1")}
    workflow = {"id": "wf-1", "nodes": []}
    (item,) = files_shown(engine.run(prompt, ["2"], extra_pnginfo={"workflow": workflow}))
    picture = Image.open(folders.output / item["filename"])
    picture.load()
    assert json.loads(picture.info["prompt"]) == prompt
    assert json.loads(picture.info["workflow"]) == workflow
    assert picture.getpixel((0, 0)) == (0x33, 0x66, 0x99)


def test_previews_go_to_the_temp_folder(engine: Engine, folders: Folders) -> None:
    (item,) = files_shown(engine.run({"1": empty_image(), "2": preview("1")}, ["2"]))
    assert item["type"] == "temp"
    assert item["filename"].startswith("ComfyUI_temp_")
    assert (folders.temp / item["filename"]).is_file()


@pytest.mark.parametrize("prefix", ["../x", "/tmp/x", "a/../../x", "..", "", "a\0b"])
def test_a_prefix_that_leads_outside_is_the_nodes_failure(
    prefix: str, engine: Engine, folders: Folders
) -> None:
    failed = engine.run({"1": empty_image(), "2": save("1", prefix)}, ["2"])[-1]
    assert isinstance(failed, ExecutionFailed)
    assert "outside of the output folder" in failed.message
    assert list(folders.output.iterdir()) == []


def test_a_prefix_through_a_link_that_leads_outside_is_refused(
    engine: Engine, folders: Folders, tmp_path: Path
) -> None:
    (folders.output / "away").symlink_to(tmp_path)
    failed = engine.run({"1": empty_image(), "2": save("1", "away/x")}, ["2"])[-1]
    assert isinstance(failed, ExecutionFailed)


def test_tokens_of_a_prefix_are_filled_in() -> None:
    filled = fill_in_tokens(
        "%year%-%month%/%width%x%height%_%other%",
        width=64,
        height=32,
        at=Instant(1_700_000_000_000),
    )
    assert filled == "2023-11/64x32_%other%"


def test_a_path_inside_its_folder_is_found_and_one_beside_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "inside").mkdir()
    assert path_inside(tmp_path / "in", "a", "b") == tmp_path / "in" / "a" / "b"
    assert path_inside(tmp_path / "in", "") == tmp_path / "in"
    assert path_inside(tmp_path / "in", "../inside/x") is None


def test_a_broken_image_is_the_nodes_failure(engine: Engine, folders: Folders) -> None:
    (folders.input / "broken.png").write_bytes(b"no image")
    failed = engine.run({"1": load("broken.png"), "2": preview("1")}, ["2"])[-1]
    assert isinstance(failed, ExecutionFailed)
    assert failed.node_id == "1"


def test_four_channels_are_saved_with_their_alpha(engine: Engine, folders: Folders) -> None:
    encoded = io.BytesIO()
    Image.new("RGBA", (4, 4), (10, 20, 30, 40)).save(encoded, "PNG")
    (folders.input / "a.png").write_bytes(encoded.getvalue())
    prompt = {
        "1": load("a.png"),
        "2": empty_image(side=4),
        "3": {"class_type": "ImageBatch", "inputs": {"image1": ["1", 0], "image2": ["2", 0]}},
        "4": save("3"),
    }
    assert len(files_shown(engine.run(prompt, ["4"]))) == 2


@pytest.mark.parametrize("key", ["日本", "", "x" * 80, "a\x00b"])
def test_a_key_that_png_cannot_hold_does_not_cost_the_picture(
    key: str, engine: Engine, folders: Folders
) -> None:
    prompt = {"1": empty_image(), "2": save("1")}
    extra = {key: 1, "workflow": {"id": 7}}
    (item,) = files_shown(engine.run(prompt, ["2"], extra_pnginfo=extra))
    with Image.open(folders.output / item["filename"]) as picture:
        picture.load()
        assert json.loads(picture.info["workflow"]) == {"id": 7}
        assert key not in picture.info
