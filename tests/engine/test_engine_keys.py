import asyncio
from typing import Any

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.folders import Folders
from comfyrail.engine.keys import KeyBook
from comfyrail.engine.live_graph import LiveGraph, upstream_first


def keys_of(prompt: dict[str, Any], outputs: list[str], folders: Folders) -> dict[str, str]:
    live = LiveGraph(prompt, builtin_registry().view())
    book = KeyBook(live, folders, "test")
    order = upstream_first(live, outputs)
    asyncio.run(book.make(order))
    return {node_id: book[node_id] for node_id in order}


def graph(color: int = 0, ids: str = "123") -> dict[str, Any]:
    first, second, third = list(ids)
    inputs = {"width": 8, "height": 8, "batch_size": 1, "color": color}
    return {
        first: {"class_type": "EmptyImage", "inputs": inputs},
        second: {"class_type": "ImageInvert", "inputs": {"image": [first, 0]}},
        third: {"class_type": "PreviewImage", "inputs": {"images": [second, 0]}},
    }


def test_keys_do_not_depend_on_node_ids(folders: Folders) -> None:
    ours = keys_of(graph(), ["3"], folders)
    theirs = keys_of(graph(ids="789"), ["9"], folders)
    assert list(ours.values()) == list(theirs.values())


def test_a_changed_value_changes_the_keys_of_all_that_depend_on_it(folders: Folders) -> None:
    before, after = (keys_of(graph(color), ["3"], folders) for color in (0, 1))
    assert all(before[node_id] != after[node_id] for node_id in "123")


def test_titles_do_not_count_and_unknown_inputs_do(folders: Folders) -> None:
    titled, extended = graph(), graph()
    titled["1"]["_meta"] = {"title": "First"}
    extended["1"]["inputs"]["note"] = "again"
    plain = keys_of(graph(), ["3"], folders)
    assert keys_of(titled, ["3"], folders) == plain
    assert keys_of(extended, ["3"], folders)["1"] != plain["1"]


def test_values_of_different_types_have_different_keys(folders: Folders) -> None:
    values = [1, 1.0, "1", True, None, float("nan"), [1], 10**30]
    keys = set()
    for value in values:
        prompt = graph()
        prompt["1"]["inputs"]["note"] = value
        keys.add(keys_of(prompt, ["3"], folders)["1"])
    assert len(keys) == len(values)
