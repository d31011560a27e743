"""Texts as the editor sends them: choices, comments, placeholders in file names."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from comfyrail.workflow.editor.texts import (
    Moment,
    escape_choices,
    fill_placeholders,
    make_choices,
)
from comfyrail.workflow.editor.workflow_from import workflow_from
from tests.workflow_formats.editor_graphs import CATALOG, Drawing

NOON = datetime(2026, 3, 7, 12, 5, 9, tzinfo=UTC)
MOMENT = Moment(choose=lambda count: count - 1, now=lambda: NOON)


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("plain, text", "plain, text"),
        ("a {cat|dog} runs", "a dog runs"),
        ("a {big {cat|dog}|small {ant|bee}}", "a small bee"),
        ("{only}", "only"),
        ("never {closed|shut", "never shut"),
        (r"\{kept\|as it is\}", "{kept|as it is}"),
        (r"{a\|b|c\}d}", "c}d"),
        ("kept // gone\nkept", "kept \nkept"),
        ("kept /* gone\n */kept", "kept kept"),
        ("/* never closed", "/* never closed"),
        ("a/b", "a/b"),
        ("a | b", "a | b"),
        ("}", "}"),
    ],
)
def test_choices_are_made_and_comments_removed(written: str, sent: str) -> None:
    assert make_choices(written, MOMENT.choose) == sent


@pytest.mark.parametrize("text", ["/* " * 200_000, "{" * 200_000, "\\" * 200_000, "{a|" * 200_000])
def test_hostile_texts_take_no_longer_than_others(text: str) -> None:
    begun = time.process_time()  # of this process alone, however busy the machine is
    make_choices(text, MOMENT.choose)
    assert time.process_time() - begun < 10


def test_a_text_that_is_escaped_is_sent_as_it_was() -> None:
    assert make_choices(escape_choices("{a|b} and {c}"), MOMENT.choose) == "{a|b} and {c}"


def test_placeholders_are_filled() -> None:
    known = {("KSampler", "seed"): 7, ("KSampler", "name"): 'a/b:"c"', ("Sub", "on"): True}

    def find(node: str, widget: str) -> object:
        return known.get((node, widget))

    def filled(text: str) -> str | None:
        return fill_placeholders(text, find, MOMENT.now)

    assert filled("%date:yyyy-MM-dd%/%date:yy M d hh:mm:ss%") == "2026-03-07/26 3 7 12:05:09"
    assert filled("%KSampler.seed%_%KSampler.name%_%Sub.on%") == "7_a_b__c__true"
    assert filled("%KSampler.cfg% %width% %a.b.c% 100%") == "%KSampler.cfg% %width% %a.b.c% 100%"


def test_file_names_are_filled_from_the_widgets_of_the_file() -> None:
    drawing = Drawing()
    drawing.node("Sample", values=[7, "fixed", 9, "heun"], title="Mine")
    drawing.node(
        "Sample", values=[8, "fixed", 9, "heun"], properties={"Node name for S&R": "Yours"}
    )
    drawing.node("SaveImage", "images:IMAGE", values=["%Mine.seed%-%Yours.seed%-%Yours.gone%"])
    workflow, _ = workflow_from(drawing.raw(), CATALOG, MOMENT)
    assert workflow.nodes["3"].inputs["filename_prefix"] == "7-8-%Yours.gone%"


@pytest.mark.parametrize(
    ("value", "times", "is_filled"),
    [("x" * 1_000, 10, True), ("x" * 1_001, 1, False), ("x" * 1_000, 11, False), ([1], 1, False)],
)
def test_a_file_name_that_would_be_too_long_is_left_as_it_is_with_a_note(
    value: Any, times: int, is_filled: bool
) -> None:
    drawing = Drawing()
    drawing.node("Text", values=[value], title="T")
    drawing.node("SaveImage", values=["%T.text%" * times])
    workflow, notes = workflow_from(drawing.raw(), CATALOG, MOMENT)
    made = workflow.nodes["2"].inputs["filename_prefix"]
    assert made == (value * times if is_filled else "%T.text%" * times)
    assert ["it is left as it is" in note.message for note in notes] == [True] * (not is_filled)


def test_no_more_placeholders_are_looked_up_than_a_file_name_can_hold() -> None:
    asked: list[str] = []

    def find(node: str, _: str) -> object:
        asked.append(node)
        return "x" * 500

    assert fill_placeholders("%a.b%" * 100_000, find, MOMENT.now) is None
    assert len(asked) == 21


def test_a_text_that_a_primitive_fills_is_the_same_for_all_that_take_it() -> None:
    drawing = Drawing()
    told = {"Run widget replace on values": True}
    drawing.node("PrimitiveNode", values=["%T.steps% " + "x" * 1000], properties=told)
    drawing.node("Sample", values=[1, "fixed", 9, "heun"], title="T")
    for _ in range(3):
        drawing.link(1, drawing.node("Text", "text:STRING*", values=[""]), "text")
    workflow, _ = workflow_from(drawing.raw(), CATALOG, MOMENT)
    made = [workflow.nodes[node_id].inputs["text"] for node_id in ("3", "4", "5")]
    assert made[0] == "9 " + "x" * 1000
    assert made[0] is made[1] is made[2]


def test_only_texts_that_ask_for_it_have_their_choices_made() -> None:
    drawing = Drawing()
    drawing.node("Sample", values=[7, "fixed", 9, "heun", "{a|b}"])
    drawing.node("Text", values=["{a|b}"])
    workflow, _ = workflow_from(drawing.raw(), CATALOG, MOMENT)
    assert workflow.nodes["1"].inputs["text"] == "b"
    assert workflow.nodes["2"].inputs["text"] == "{a|b}"


def test_a_primitive_fills_placeholders_when_it_is_told_to() -> None:
    drawing = Drawing()
    drawing.node(
        "PrimitiveNode",
        values=["%date:yyyy%"],
        outputs=("STRING",),
        properties={"Run widget replace on values": True},
    )
    drawing.node("Text", "text:STRING*", values=["x"])
    drawing.link(1, 2, "text")
    workflow, _ = workflow_from(drawing.raw(), CATALOG, MOMENT)
    assert workflow.nodes["2"].inputs["text"] == "2026"
