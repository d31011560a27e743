import json
import time
from typing import Any

import pytest

from comfyrail.engine import bounded_regex
from comfyrail.engine.allocation import LARGEST_TEXT
from comfyrail.engine.builtin.strings import (
    compare,
    concatenate,
    contains,
    convert_case,
    replace_text,
    substring,
    text_length,
    trim,
)
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    NodeExecuted,
    NodeStarted,
)
from comfyrail.engine.interrupt import Interrupt
from tests.engine.engine_parts import Engine

NESTED = "(a+)+$"
LONG = "a" * 40 + "b"
FLAGS = {"case_insensitive": True, "multiline": False, "dotall": False}


def shown_as_text(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {
        "1": {"class_type": class_type, "inputs": inputs},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    }


def shown(engine: Engine, class_type: str, **inputs: Any) -> Any:
    """What PreviewAny shows of a node's output; the failure where there is one."""
    events = engine.run(shown_as_text(class_type, **inputs), ["2"])
    texts = [event.ui["text"] for event in events if isinstance(event, NodeExecuted)]
    return texts[0][0] if texts else events[-1]


@pytest.mark.parametrize(
    ("node", "value", "text"),
    [
        ("PrimitiveInt", 3, "3"),
        ("PrimitiveFloat", 1e-7, "1e-07"),
        ("PrimitiveBoolean", True, "True"),
        ("PrimitiveString", "hé", "hé"),
        ("PrimitiveStringMultiline", "a\nb", "a\nb"),
    ],
)
def test_a_primitive_passes_its_value_on(
    node: str, value: object, text: str, engine: Engine
) -> None:
    assert shown(engine, node, value=value) == text


def test_any_value_can_be_shown_as_text(engine: Engine) -> None:
    for source, text in [(None, "None"), ({"a": ["é"]}, json.dumps({"a": ["é"]}, indent=4))]:
        prompt = {"1": {"class_type": "PreviewAny", "inputs": {"source": source}}}
        (event,) = [e for e in engine.run(prompt, ["1"]) if isinstance(e, NodeExecuted)]
        assert event.ui == {"text": [text]}
    mask = shown(engine, "SolidMask", value=0.5, width=2, height=1)
    assert mask.startswith("float32 array of 1 by 1 by 2")


def test_texts_are_changed_as_python_does() -> None:
    assert concatenate.function(string_a="", string_b="b", delimiter=", ") == ", b"
    assert substring.function(string="hello", start=1, end=-1) == "ell"
    assert text_length.function(string="añb😀") == 4
    assert convert_case.function(string="it's ß", mode="Title Case") == "It'S Ss"
    assert trim.function(string=" \t x \n", mode="Left") == "x \n"
    assert replace_text.function(string="aXa", find="", replace="-") == "-a-X-a-"


def test_case_counts_only_where_it_is_wanted() -> None:
    assert not contains.function(string="Hello", substring="h", case_sensitive=True)
    assert contains.function(string="Hello", substring="h", case_sensitive=False)
    pair = {"string_a": "Hello", "string_b": "HE", "mode": "Starts With"}
    assert not compare.function(**pair, case_sensitive=True)
    assert compare.function(**pair, case_sensitive=False)


def test_a_text_that_would_grow_without_end_is_refused() -> None:
    half = "a" * (LARGEST_TEXT // 2 + 1)
    with pytest.raises(MemoryError, match="characters"):
        concatenate.function(string_a=half, string_b=half, delimiter="")
    with pytest.raises(MemoryError, match="characters"):
        replace_text.function(string="a" * 10_000, find="a", replace="b" * 10_000)


@pytest.mark.parametrize(
    ("mode", "index", "text"),
    [
        ("First Match", 2, "k1=v1"),
        ("All Matches", 2, "k1\nk2\nk3"),
        ("First Group", 2, "v1"),
        ("First Group", 3, ""),
        ("All Groups", 0, "k1=v1\nk2=v2\nk3="),
        ("All Groups", 1, "k1\nk2\nk3"),
    ],
)
def test_what_a_pattern_finds_is_extracted(
    mode: str, index: int, text: str, engine: Engine
) -> None:
    search = {"string": "k1=v1 k2=v2 k3=", "regex_pattern": r"(k\d)=(v\d)?", **FLAGS}
    assert shown(engine, "RegexExtract", **search, mode=mode, group_index=index) == text


def test_a_group_that_took_no_part_is_named(engine: Engine) -> None:
    search = {"string": "k1=v1 k3=", "regex_pattern": r"=(v\d)?", **FLAGS, "group_index": 1}
    failed = shown(engine, "RegexExtract", **search, mode="All Groups")
    assert isinstance(failed, ExecutionFailed)
    assert failed.message == "Group 1 took no part in match 2."


def test_an_unreadable_pattern_matches_nothing_and_replaces_nothing(engine: Engine) -> None:
    search = {"string": "x", "regex_pattern": "("}
    assert shown(engine, "RegexMatch", **search, **FLAGS) == "False"
    failed = shown(engine, "RegexReplace", **search, replace="")
    assert isinstance(failed, ExecutionFailed)
    assert "unterminated subpattern" in failed.message


def test_replacing_knows_groups_and_a_count(engine: Engine) -> None:
    replaced = {"string": "aBab", "regex_pattern": "(b)", "replace": r"<\1>", "count": 1}
    assert shown(engine, "RegexReplace", **replaced) == "a<B>ab"
    assert shown(engine, "RegexReplace", **replaced, case_insensitive=False) == "aBa<b>"


def test_a_pattern_that_would_never_end_is_stopped(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_regex, "LIMIT_SECONDS", 0.2)
    failed = shown(engine, "RegexMatch", string=LONG, regex_pattern=NESTED, **FLAGS)
    assert isinstance(failed, ExecutionFailed)
    assert "Use a simpler one" in failed.message


def test_a_running_pattern_can_be_interrupted(engine: Engine) -> None:
    interrupt = Interrupt()
    started = time.monotonic()

    def interrupt_once_it_runs(event: Event) -> None:
        if isinstance(event, NodeStarted):
            interrupt.request()

    prompt = shown_as_text("RegexMatch", string=LONG, regex_pattern=NESTED, **FLAGS)
    ended = engine.run(prompt, ["2"], interrupt=interrupt, watch=interrupt_once_it_runs)[-1]
    assert isinstance(ended, ExecutionInterrupted)
    assert time.monotonic() - started < bounded_regex.LIMIT_SECONDS


def test_a_replacement_that_would_fill_the_memory_is_stopped(engine: Engine) -> None:
    bomb = {"string": "a" * 100_000, "regex_pattern": "", "replace": "x" * 100_000}
    failed = shown(engine, "RegexReplace", **bomb)
    assert isinstance(failed, ExecutionFailed)
    assert "too much memory" in failed.message
