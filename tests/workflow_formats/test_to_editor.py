"""The API format as a graph of the editor that converts back unchanged [1.1]."""

import json
from typing import Any

import pytest

from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.front_end_nodes import FRONT_END_TYPES, RENAMED_TYPES
from comfyrail.workflow.editor.to_editor import workflow_to_editor
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.graph import parse_workflow
from tests.workflow_formats.editor_graphs import CATALOG


def drawn(prompt: Any, catalog: NodeCatalog = CATALOG) -> Any:
    return json.loads(json.dumps(workflow_to_editor(parse_workflow(prompt), catalog)))


def there_and_back(prompt: Any, catalog: NodeCatalog = CATALOG) -> Any:
    return workflow_from(drawn(prompt, catalog), catalog)[0].to_prompt()


SAMPLED: dict[str, Any] = {
    "4": {"class_type": "Load", "inputs": {}, "_meta": {"title": "First"}},
    "7": {
        "class_type": "Sample",
        "inputs": {"image": ["4", 1], "seed": 5, "steps": 9, "name": "heun", "text": "a dog"},
        "_meta": {"title": "Second"},
    },
}


def test_a_graph_has_what_the_editor_needs() -> None:
    graph = drawn(SAMPLED)
    assert (graph["version"], graph["last_node_id"], graph["last_link_id"]) == (0.4, 7, 1)
    assert graph["links"] == [[1, 4, 1, 7, 0, "MASK"]]
    load, sample = graph["nodes"]
    assert load["outputs"] == [
        {"name": "IMAGE", "type": "IMAGE", "links": []},
        {"name": "MASK", "type": "MASK", "links": [1]},
    ]
    assert (sample["id"], sample["type"], sample["title"]) == (7, "Sample", "Second")
    assert sample["inputs"][0] == {"name": "image", "type": "IMAGE", "link": 1}
    assert sample["inputs"][1]["widget"] == {"name": "seed"}
    # The control says "fixed": the editor must run the same seed.
    assert sample["widgets_values"] == [5, "fixed", 9, "heun", "a dog"]
    assert (load["order"], sample["order"]) == (0, 1)
    assert "comfyrail" not in sample["properties"]


def test_nodes_stand_right_of_those_that_feed_them_and_do_not_overlap() -> None:
    wide = {str(at): {"class_type": "Load", "inputs": {}} for at in range(5)}
    chain = {
        f"{at}": {"class_type": "Invert", "inputs": {"image": [str(at - 1), 0], "amount": 1.0}}
        for at in range(5, 9)
    }
    graph = drawn({**wide, **chain})
    boxes = {node["id"]: (*node["pos"], *node["size"]) for node in graph["nodes"]}
    for at in range(5, 9):
        assert boxes[at][0] >= boxes[at - 1][0] + boxes[at - 1][2]
    for one, (x, y, width, height) in boxes.items():
        for other, (left, top, _, _) in boxes.items():
            if one != other:
                assert not (x <= left < x + width and y <= top < y + height)


@pytest.mark.parametrize(
    "node",
    [
        {"class_type": "Text", "inputs": {"text": ["not", "a", "link"]}},
        {"class_type": "Text", "inputs": {"text": {"__value__": ["1", 0]}}},
        {"class_type": "Text", "inputs": {"text": ["99", 0]}},
        {"class_type": "Text", "inputs": {"text": ["1", -1]}},
        {"class_type": "Text", "inputs": {"text": ["1", 10**9]}},
        {"class_type": "Text", "inputs": {"text": ["1", 40]}},
        {"class_type": "Text", "inputs": {"text": None}},
        {"class_type": "Text", "inputs": {}},
        {"class_type": "Text", "inputs": {"text": "x", "unknown": [1, {"a": None}]}},
        {"class_type": "Load", "inputs": {"unknown": ["1", 0]}},
        {"class_type": "Invert", "inputs": {"image": "no link", "amount": "1.0"}},
        {"class_type": "Invert", "inputs": {"image": ["1", 0], "amount": True}},
        {"class_type": "Sample", "inputs": {"text": "{a|b} // c /* d */ \\{ \r\n"}},
        {"class_type": "Sample", "inputs": {"seed": 2**64 - 1, "text": 5}},
        {"class_type": "SaveImage", "inputs": {"filename_prefix": "%date:yyyy%_%Text.text%"}},
        {"class_type": "Odd", "inputs": {"a": 1, "b": ["1", 3], "c": ["x"], "d": "randomize"}},
        {"class_type": "Odd", "inputs": {"control_after_generate": "fixed"}},
        {"class_type": "Text", "inputs": {"text": "x"}, "_meta": {"title": ""}},
    ],
)
def test_what_the_editor_has_no_place_for_comes_back(node: dict[str, Any]) -> None:
    prompt = {"1": {"class_type": "Load", "inputs": {}}, "n": node}
    assert there_and_back(prompt) == prompt


EDITORS_TYPES = sorted(FRONT_END_TYPES | RENAMED_TYPES.keys())


@pytest.mark.parametrize("class_type", EDITORS_TYPES)
def test_types_that_only_the_editor_has_come_back_where_the_api_format_has_them(
    class_type: str,
) -> None:
    prompt = {
        "1": {"class_type": "Load", "inputs": {}},
        "2": {"class_type": class_type, "inputs": {"value": 5, "image": ["1", 0]}},
        "3": {"class_type": "Save", "inputs": {"image": ["2", 0]}},
    }
    assert there_and_back(prompt) == prompt


def test_a_type_comes_back_after_the_editor_has_saved_it_under_its_new_name() -> None:
    graph = drawn({"1": {"class_type": "T2IAdapterLoader", "inputs": {}}})
    graph["nodes"][0]["type"] = "ControlNetLoader"
    assert workflow_from(graph, CATALOG)[0].nodes["1"].class_type == "T2IAdapterLoader"
    graph["nodes"][0]["type"] = "Load"
    assert workflow_from(graph, CATALOG)[0].nodes["1"].class_type == "Load"


@pytest.mark.parametrize("node_id", ["76:12", "012", "-1", "-10", "", "ä", "1.5", "9" * 30])
def test_ids_that_are_no_numbers_come_back(node_id: str) -> None:
    prompt = {
        node_id: {"class_type": "Load", "inputs": {}},
        "1": {"class_type": "Save", "inputs": {"image": [node_id, 0]}},
    }
    numbers = [node["id"] for node in drawn(prompt)["nodes"]]
    assert all(isinstance(number, int) for number in numbers)
    assert there_and_back(prompt) == prompt


def test_what_the_user_changes_in_the_editor_counts_over_what_was_kept() -> None:
    graph = drawn({"a": {"class_type": "Invert", "inputs": {"image": "no link"}}})
    node = graph["nodes"][0]
    assert workflow_from(graph, CATALOG)[0].nodes["a"].inputs == {"image": "no link"}
    node["widgets_values"] = [0.5]
    node["title"] = "Mine"
    changed = workflow_from(graph, CATALOG)[0].nodes["a"]
    assert changed.inputs == {"image": "no link", "amount": 0.5}
    assert changed.title == "Mine"


def test_a_node_that_the_user_copies_gets_an_id_of_its_own() -> None:
    graph = drawn({"a:b": {"class_type": "Load", "inputs": {}}})
    graph["nodes"].append({**graph["nodes"][0], "id": 5})
    assert set(workflow_from(graph, CATALOG)[0].nodes) == {"a:b", "5"}


def test_a_workflow_in_a_circle_is_drawn_too() -> None:
    prompt = {
        "1": {"class_type": "Invert", "inputs": {"image": ["2", 0], "amount": 1.0}},
        "2": {"class_type": "Invert", "inputs": {"image": ["1", 0], "amount": 1.0}},
    }
    assert there_and_back(prompt) == prompt


def test_the_other_fields_of_an_envelope_come_back() -> None:
    nodes = {"1": {"class_type": "Load", "inputs": {}}}
    graph = workflow_to_editor(parse_workflow({"nodes": nodes, "name": "mine"}), CATALOG)
    assert workflow_from(graph, CATALOG)[0].metadata == {"name": "mine"}


def test_transforms_become_nodes() -> None:
    transform = {"class_type": "Invert", "input": "image", "inputs": {"amount": 1.0}}
    prompt = {
        "1": {"class_type": "Load", "inputs": {}},
        "2": {
            "class_type": "Save",
            "inputs": {"image": ["1", 0]},
            "_meta": {"transforms": {"image": transform}},
        },
    }
    assert set(there_and_back(prompt)) == {"1", "2", "2:image"}


def test_ten_thousand_nodes_are_drawn() -> None:
    prompt: dict[str, Any] = {"0": {"class_type": "Load", "inputs": {}}}
    for at in range(1, 10_000):
        prompt[str(at)] = {
            "class_type": "Invert",
            "inputs": {"image": [str(at - 1), 9], "amount": 1},
        }
    graph = workflow_to_editor(parse_workflow(prompt), CATALOG)
    assert workflow_from(graph, CATALOG)[0].nodes["9999"].inputs["image"] == ["9998", 9]
