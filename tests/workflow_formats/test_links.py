"""Links as the editor follows them: reroutes, bypassed and muted nodes, primitives, notes."""

from typing import Any

import pytest

from comfyrail.errors import MalformedWorkflow
from tests.workflow_formats.editor_graphs import (
    Drawing,
    convert,
    convert_with_notes,
    inputs_of,
)

MUTED = 2
BYPASSED = 4


def test_both_schemas_say_the_same() -> None:
    drawing = Drawing()
    first = drawing.node("Load", outputs=("IMAGE", "MASK"))
    last = drawing.node("Save", "image:IMAGE", title="Keep")
    drawing.link(first, last, "image", slot=1)
    wanted = {
        "1": {"class_type": "Load", "inputs": {}, "_meta": {"title": "Load"}},
        "2": {"class_type": "Save", "inputs": {"image": ["1", 1]}, "_meta": {"title": "Keep"}},
    }
    assert convert(drawing.raw()) == wanted
    assert convert(drawing.as_old_schema()) == wanted


def test_the_title_of_a_type_counts_where_a_node_has_none() -> None:
    drawing = Drawing()
    drawing.node("Invert", values=[1.0])
    assert convert(drawing.raw())["1"]["_meta"] == {"title": "Invert it"}


def test_a_chain_of_reroutes_is_followed() -> None:
    drawing = Drawing()
    at = drawing.node("Load")
    for _ in range(3):
        reroute = drawing.node("Reroute", ":*", outputs=("*",))
        drawing.link(at, reroute, "")
        at = reroute
    save = drawing.node("Save", "image:IMAGE")
    drawing.link(at, save, "image")
    assert convert(drawing.raw()) == {
        "1": {"class_type": "Load", "inputs": {}, "_meta": {"title": "Load"}},
        "5": {"class_type": "Save", "inputs": {"image": ["1", 0]}, "_meta": {"title": "Save"}},
    }


def test_reroutes_on_links_change_nothing() -> None:
    drawing = Drawing()
    first = drawing.node("Load")
    last = drawing.node("Save", "image:IMAGE")
    drawing.link(first, last, "image")
    raw = drawing.as_old_schema()
    raw["extra"] = {
        "reroutes": [{"id": 1, "pos": [0, 0], "linkIds": [1]}],
        "linkExtensions": [{"id": 1, "parentId": 1}],
    }
    assert inputs_of(raw, "2") == {"image": ["1", 0]}
    drawing.links[0]["parentId"] = 1
    assert inputs_of({**drawing.raw(), "reroutes": [{"id": 1}]}, "2") == {"image": ["1", 0]}


def test_a_node_that_gives_by_name_gives_what_its_partner_takes() -> None:
    drawing = Drawing()
    first = drawing.node("Load")
    put = drawing.node("SetNode", "IMAGE:IMAGE", values=["picture"])
    take = drawing.node("GetNode", values=["picture"])
    last = drawing.node("Save", "image:IMAGE")
    drawing.link(first, put, "IMAGE")
    drawing.link(take, last, "image")
    assert inputs_of(drawing.raw(), "4") == {"image": ["1", 0]}


def test_remarks_are_no_nodes() -> None:
    drawing = Drawing()
    drawing.node("Load")
    drawing.node("Note", values=["a remark"])
    drawing.node("MarkdownNote", values=["# a remark"])
    drawing.node("Label (rgthree)")
    assert set(convert(drawing.raw())) == {"1"}


def test_muted_nodes_and_links_from_them_are_left_out() -> None:
    drawing = Drawing()
    first = drawing.node("Load", mode=MUTED)
    text = drawing.node("Text", values=["hello"], outputs=("STRING",), mode=MUTED)
    last = drawing.node(
        "Sample", "image:IMAGE", "text:STRING*", values=[1, "fixed", 2, "heun", "x"]
    )
    drawing.link(first, last, "image")
    drawing.link(text, last, "text")
    prompt = convert(drawing.raw())
    assert set(prompt) == {"3"}
    assert prompt["3"]["inputs"] == {"seed": 1, "steps": 2, "name": "heun", "text": "x"}


def bypass(*inputs: str, wanted: str, slot: int = 0, outputs: tuple[str, ...]) -> Any:
    """What a taker of a type gets through a bypassed node; the n-th source feeds its n-th input."""
    drawing = Drawing()
    names = [each.partition(":")[0] for each in inputs]
    for _ in names:
        drawing.node("Unknown", outputs=("*",))
    passed = drawing.node("Odd", *inputs, outputs=outputs, mode=BYPASSED)
    taker = drawing.node("Odder", f"x:{wanted}")
    for number, name in enumerate(names, 1):
        drawing.link(number, passed, name)
    drawing.link(passed, taker, "x", slot=slot)
    prompt, _ = convert_with_notes(drawing.raw())
    return prompt[str(taker)]["inputs"].get("x")


@pytest.mark.parametrize(
    ("inputs", "outputs", "slot", "wanted", "passes"),
    [
        (("a:IMAGE", "b:MASK"), ("IMAGE",), 0, "IMAGE", "1"),
        (("a:MODEL", "b:CLIP"), ("MODEL", "CLIP"), 1, "CLIP", "2"),
        (("a:MASK", "b:IMAGE"), ("IMAGE",), 0, "IMAGE", "2"),  # the first of that type
        (("a:MASK", "b:LATENT,IMAGE"), ("IMAGE",), 0, "IMAGE", "2"),  # a set that has it
        (("a:MASK", "b:*"), ("IMAGE",), 0, "IMAGE", "2"),  # any type will do
        (("a:*", "b:IMAGE"), ("IMAGE",), 0, "IMAGE", "1"),  # the one across before others
        (("a:MASK", "b:IMAGE"), ("IMAGE",), 0, "*", "1"),  # a taker of anything: across
        (("a:MASK",), ("IMAGE", "LATENT"), 1, "*", "1"),  # none across: the first
        (("a:image",), ("IMAGE",), 0, "IMAGE", "1"),  # case does not count
        (("a:MASK",), ("IMAGE",), 0, "IMAGE", None),
    ],
)
def test_a_bypassed_node_passes_on_the_input_that_fits(
    inputs: tuple[str, ...], outputs: tuple[str, ...], slot: int, wanted: str, passes: str | None
) -> None:
    got = bypass(*inputs, wanted=wanted, slot=slot, outputs=outputs)
    assert got == (None if passes is None else [passes, 0])


def test_the_order_of_inputs_is_that_of_the_type_when_a_node_is_bypassed() -> None:
    drawing = Drawing()
    first = drawing.node("Load")
    # An old file: the linked widget comes first, the type has the image there.
    passed = drawing.node("Sample", "text:STRING*", "image:IMAGE", mode=BYPASSED)
    last = drawing.node("Anything", "value:*")
    drawing.link(first, passed, "image")
    drawing.link(passed, last, "value")
    assert inputs_of(drawing.raw(), "3") == {"value": ["1", 0]}


def test_a_primitive_writes_its_value_into_the_widgets_that_it_is_linked_to() -> None:
    drawing = Drawing()
    number = drawing.node("PrimitiveNode", values=[42, "fixed"], outputs=("INT",))
    one = drawing.node("Sample", "image:IMAGE", "seed:INT*", values=[1, "fixed", 2, "heun"])
    two = drawing.node("Sample", "image:IMAGE", "steps:INT*", values=[1, "fixed", 2, "heun"])
    drawing.link(number, one, "seed")
    drawing.link(number, two, "steps")
    prompt = convert(drawing.raw())
    assert set(prompt) == {"2", "3"}
    assert (prompt["2"]["inputs"]["seed"], prompt["3"]["inputs"]["steps"]) == (42, 42)


def test_a_link_in_a_circle_is_said_and_left_out() -> None:
    drawing = Drawing()
    one = drawing.node("Reroute", ":*", outputs=("*",))
    two = drawing.node("Reroute", ":*", outputs=("*",))
    last = drawing.node("Save", "image:IMAGE")
    drawing.link(one, two, "")
    drawing.link(two, one, "")
    drawing.link(two, last, "image")
    prompt, notes = convert_with_notes(drawing.raw())
    assert prompt["3"]["inputs"] == {}
    assert ["circle" in note.message for note in notes] == [True]


def test_links_into_nowhere_are_said_and_left_out() -> None:
    drawing = Drawing()
    drawing.node("Load")
    drawing.node("Save", "image:IMAGE")
    drawing.link(1, 2, "image")
    drawing.links[0]["origin_id"] = 99
    prompt, notes = convert_with_notes(drawing.raw())
    assert prompt["2"]["inputs"] == {}
    assert [(note.code, note.node_id) for note in notes] == [("BAD_LINK", "2")]
    drawing.links.clear()
    prompt, notes = convert_with_notes(drawing.raw())
    assert prompt["2"]["inputs"] == {}
    assert "a link 1 that is not there" in notes[0].message


def test_a_node_may_feed_itself() -> None:
    drawing = Drawing()
    drawing.node("Invert", "image:IMAGE", values=[0.5])
    drawing.link(1, 1, "image")
    assert inputs_of(drawing.raw(), "1") == {"amount": 0.5, "image": ["1", 0]}


def test_a_graph_of_which_nothing_runs_is_refused() -> None:
    drawing = Drawing()
    drawing.node("Note")
    drawing.node("Load", mode=MUTED)
    with pytest.raises(MalformedWorkflow, match="would run"):
        convert(drawing.raw())


def test_old_names_of_types_and_values_are_brought_up_to_date() -> None:
    drawing = Drawing()
    drawing.node("T2IAdapterLoader", widgets_values_named={"control_net_name": "x"})
    prompt, _ = convert_with_notes(drawing.raw())
    assert prompt["1"]["class_type"] == "ControlNetLoader"
