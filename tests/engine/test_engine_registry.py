import json
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import node
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import NodeRegistry
from comfyrail.workflow.catalog import parse_object_info

# From a real ComfyUI 0.7.0, texts removed.
COMFYUI = json.loads((Path(__file__).parent / "data" / "object_info.json").read_text())
TEXTS = ("description", "python_module")


@pytest.mark.parametrize("name", list(COMFYUI))
def test_object_info_of_a_builtin_node_is_comfyuis(name: str, folders: Folders) -> None:
    (folders.input / "example.png").write_bytes(b"")
    entry: dict[str, Any] = json.loads(json.dumps(builtin_registry().object_info(folders)[name]))
    for text in TEXTS:
        assert isinstance(entry.pop(text), str)
    assert entry == COMFYUI[name]
    assert list(entry) == list(COMFYUI[name])
    assert list(entry["input"]["required"]) == list(COMFYUI[name]["input"]["required"])


def test_object_info_can_be_read_as_a_catalog(folders: Folders) -> None:
    catalog = parse_object_info(builtin_registry().object_info(folders))
    assert set(catalog.types) == set(builtin_registry().names())
    load_image = catalog.types["LoadImage"]
    assert load_image.inputs["image"].takes_upload
    assert [port.type for port in load_image.outputs] == ["IMAGE", "MASK"]


def test_a_plain_function_becomes_a_node(folders: Folders) -> None:
    @node("Double", required={"number": ("INT", {"default": 1})}, outputs=("INT",), category="math")
    def double(number: int) -> int:
        return 2 * number

    registry = NodeRegistry([double])
    assert registry.names() == ["Double"]
    assert registry["Double"].function(number=4) == 8
    info = registry.object_info(folders)["Double"]
    assert info["input_order"] == {"required": ["number"]}
    assert info["display_name"] == "Double"
    assert not info["output_node"]


def test_a_later_definition_takes_the_place_of_an_earlier_one() -> None:
    first = node("Same", outputs=("INT",))(lambda: 1)
    second = node("Same", outputs=("INT",))(lambda: 2)
    registry = NodeRegistry([first, second])
    assert registry.get("Same") is second
    assert registry.get("Other") is None
