"""The quick way to read JSON gives what the strict way gives, or gives way to it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.editor.strict_json import read_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(alphabet=st.characters(), max_size=8)
    | st.sampled_from(['":', '" :', "\\ud800", '{"a":1}', "__value__"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


def outcome(text: str | bytes) -> Any:
    try:
        return read_json(text)
    except MalformedWorkflow as error:
        return error.message


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(VALUES, st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]), st.booleans())
def test_text_of_any_value_is_read_alike(value: Any, marks: Any, ascii_only: bool) -> None:
    text = json.dumps(value, separators=marks, ensure_ascii=ascii_only)
    content = text.encode("utf-8", "surrogatepass")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    assert same(outcome(content), outcome(text))


@given(st.binary(max_size=60) | st.text('{}[]":,1eE+-. \\ud8a', max_size=40).map(str.encode))
def test_any_bytes_are_read_alike(content: bytes) -> None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        assert isinstance(outcome(content), str)
        return
    assert same(outcome(content), outcome(text))


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": 1, "a": 2}',
        b'{"a":1,"b":{"c":1,"c":"x"}}',
        b'{"a":1,"a" :2,"b":"\\":"}',
        b'{"a\\u0062":1,"ab":2}',
        b'[{"a":"\\":","a" \n:1}]',
    ],
)
def test_name_that_is_given_twice_is_never_lost(text: bytes) -> None:
    assert "twice" in str(outcome(text))


@pytest.mark.parametrize("text", [b"1%s" % (b"0" * 20), b'{"a": [1, -%s]}' % (b"9" * 19)])
def test_number_of_more_than_64_bits_is_refused(text: bytes) -> None:
    assert "64 bits" in str(outcome(text))


def test_ordinary_workflow_is_read_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the strict way was taken")

    monkeypatch.setattr("json.loads", fail)
    graph = {"1": {"class_type": "A", "inputs": {"text": "a: b", "width": 64, "image": ["2", 0]}}}
    assert read_json(json.dumps(graph).encode()) == graph
