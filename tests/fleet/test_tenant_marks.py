"""Marks that keep what workers remember of one tenant from the others."""

from typing import Any

from comfyrail.fleet.tenant_marks import MARK, UNMARKED, mark_prompt
from comfyrail.ids import TenantId
from comfyrail.workflow.catalog import parse_object_info

ALICE, BOB = TenantId("alice"), TenantId("bob")
CATALOG = parse_object_info(
    {
        "Load": {"input": {"required": {"name": [["a.safetensors"]]}}, "output": ["MODEL", "CLIP"]},
        "Lora": {"input": {"required": {"model": ["MODEL"]}}, "output": ["MODEL"]},
        "Text": {"input": {"required": {"clip": ["CLIP"], "text": ["STRING"]}}, "output": ["C"]},
        "Begin": {"input": {"required": {"width": ["INT"]}}, "output": ["LATENT"]},
        "Any": {"input": {"required": {"a": ["*"]}}, "output": ["*"]},
        "Save": {"input": {"required": {"a": ["*"]}}, "output": [], "output_node": True},
    }
)
GRAPH: dict[str, Any] = {
    "1": {"class_type": "Load", "inputs": {"name": "a.safetensors"}},
    "2": {"class_type": "Lora", "inputs": {"model": ["1", 0]}},
    "3": {"class_type": "Text", "inputs": {"clip": ["1", 1], "text": "a cat"}},
    "4": {"class_type": "Begin", "inputs": {"width": 64}},
    "5": {"class_type": "Any", "inputs": {"a": ["4", 0]}},
    "6": {"class_type": "Save", "inputs": {"a": ["2", 0]}},
    "7": {"class_type": "Unheard", "inputs": {"a": ["2", 0]}},
}


def marks(prompt: Any, tenant: TenantId) -> dict[str, Any]:
    marked = mark_prompt(prompt, tenant, CATALOG, lambda node_id: ["a"] if node_id == "1" else ())
    return {key: node["inputs"][MARK] for key, node in marked.items() if MARK in node["inputs"]}


def test_nodes_that_save_begin_or_are_given_a_text_are_marked_and_loaders_are_not() -> None:
    found = marks(GRAPH, ALICE)
    assert set(found) == {"3", "4", "6", "7"}
    assert len(set(found.values())) == 1
    assert not set(found.values()) & set(marks(GRAPH, BOB).values())
    assert MARK not in str(GRAPH), "what was given is not changed"


def test_graphs_of_the_single_local_user_stay_as_they_are() -> None:
    assert mark_prompt(GRAPH, UNMARKED, CATALOG, lambda _: ()) is GRAPH


def test_mark_that_somebody_writes_counts_for_nothing() -> None:
    stolen = marks(GRAPH, ALICE)["4"]
    forged = {
        key: {**node, "inputs": {**node["inputs"], MARK: stolen}} for key, node in GRAPH.items()
    }
    assert marks(forged, BOB) == marks(GRAPH, BOB)
    assert marks(forged, UNMARKED) == {}
    assert mark_prompt(forged, UNMARKED, CATALOG, lambda _: ()) == GRAPH


def test_nodes_that_are_no_nodes_are_passed_over() -> None:
    odd: dict[str, Any] = {"1": [], "2": {"class_type": 3, "inputs": {}}, "3": {"inputs": None}}
    assert set(marks({"2": odd["2"]}, ALICE)) == {"2"}
    assert mark_prompt({"1": odd["1"], "3": odd["3"]}, ALICE, CATALOG, lambda _: ()) == {
        "1": [],
        "3": {"inputs": None},
    }
