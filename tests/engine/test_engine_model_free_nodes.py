"""All model-free nodes at once: their ports, and what a real ComfyUI made of some graphs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.events import NodeExecuted
from comfyrail.engine.folders import Folders
from comfyrail.engine.prompt_check import PromptAccepted, check_prompt
from comfyrail.engine.tensor_files import TensorFile
from tests.comfyui.model_free_graphs import write_inputs
from tests.engine.engine_parts import Engine

DATA = Path(__file__).parent / "data"
# From a real ComfyUI 0.7.0, texts removed.
PORTS = json.loads((DATA / "object_info_model_free.json").read_text())
# Outputs of a real ComfyUI 0.3.75: texts, and hashes of pixels and of latents.
GRAPHS = json.loads((DATA / "comfyui_graphs.json").read_text())


@pytest.mark.parametrize("name", list(PORTS))
def test_ports_are_comfyuis(name: str, folders: Folders) -> None:
    (folders.input / "example.png").write_bytes(b"")
    entry: dict[str, Any] = json.loads(json.dumps(builtin_registry().object_info(folders)[name]))
    del entry["description"], entry["python_module"]
    expected = PORTS[name]
    assert entry == expected
    assert list(entry["input"]["required"]) == list(expected["input"]["required"])


@pytest.mark.parametrize("name", ["LoadImageDataSetFromFolder", "LoadImageTextDataSetFromFolder"])
def test_folders_to_load_are_listed(name: str, folders: Folders) -> None:
    (folders.input / "cats" / "small").mkdir(parents=True)
    entry = builtin_registry().object_info(folders)[name]
    assert entry["input"]["required"]["folder"][0] == ["cats", "cats/small"]


@pytest.mark.parametrize("index", range(len(GRAPHS)))
def test_a_graph_gives_what_comfyui_gave(index: int, engine: Engine, folders: Folders) -> None:
    write_inputs(folders.input)
    graph, expected = GRAPHS[index]["graph"], GRAPHS[index]["outputs"]
    verdict = check_prompt(graph, engine.registry, folders)
    assert isinstance(verdict, PromptAccepted)
    shown = {
        event.node_id: [summary(item, folders) for items in event.ui.values() for item in items]
        for event in engine.run(verdict.prompt, verdict.outputs)
        if isinstance(event, NodeExecuted)
    }
    different = {node_id for node_id in expected if shown.get(node_id) != expected[node_id]}
    assert not different


def summary(item: Any, folders: Folders) -> str:
    if isinstance(item, str):
        return item
    path = folders.locate(f"{item['subfolder']}/{item['filename']} [{item['type']}]".lstrip("/"))
    assert path is not None
    if path.suffix == ".latent":
        pixels: Any = TensorFile(path).read_floats("latent_tensor")
    else:
        with Image.open(path) as picture:
            pixels = np.asarray(picture)
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:16]
