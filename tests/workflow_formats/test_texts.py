"""Texts as the editor sends them: choices, comments, placeholders in file names."""

import time
from datetime import UTC, datetime

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


@pytest.mark.parametrize("text", ["/* " * 500_000, "{" * 500_000, "\\" * 500_000, "{a|" * 500_000])
def test_hostile_texts_take_no_longer_than_others(text: str) -> None:
    begun = time.monotonic()
    make_choices(text, MOMENT.choose)
    assert time.monotonic() - begun < 10


def test_a_text_that_is_escaped_is_sent_as_it_was() -> None:
    assert make_choices(escape_choices("{a|b} and {c}"), MOMENT.choose) == "{a|b} and {c}"


def test_placeholders_are_filled() -> None:
    known = {("KSampler", "seed"): 7, ("KSampler", "name"): 'a/b:"c"', ("Sub", "on"): True}

    def find(node: str, widget: str) -> object:
        return known.get((node, widget))

    def filled(text: str) -> str:
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
