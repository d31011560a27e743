"""A workflow in text that people paste: alone, in a Markdown fence, between sentences, or as the
editor itself puts it on the clipboard.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.editor.strict_json import read_json, refuse_too_many

CANDIDATE_LIMIT = 20
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[^\n]*\n", re.MULTILINE)
_HAS_NODES = re.compile(r'"(class_type|nodes)"')
_EDITOR_HTML = re.compile(r'data-metadata="([A-Za-z0-9+/=]+)"')


def find_json(text: str) -> Any:
    """The first workflow in a text. Raises MalformedWorkflow where there is none that is right.

    Text that starts as JSON is meant as JSON, so that its faults are named.
    """
    stripped = text.removeprefix("\ufeff").strip()
    refuse_too_many(stripped)
    if stripped.startswith(("{", "[")):
        end = _end_of_json(stripped, 0)
        return read_json(stripped if end is None else stripped[:end])
    fault: MalformedWorkflow | None = None
    for candidate in _candidates(stripped):
        try:
            return read_json(candidate)
        except MalformedWorkflow as error:
            fault = fault or error
    raise fault or MalformedWorkflow(
        "There is no workflow in this text: no JSON object was found.", details={"path": ""}
    )


def _candidates(text: str) -> Iterator[str]:
    wrapped = _EDITOR_HTML.search(text)
    if wrapped is not None:
        yield from _unwrapped(wrapped[1])
    for opening in islice(_FENCE.finditer(text), CANDIDATE_LIMIT):
        end = text.find(f"\n{opening[1]}", opening.end() - 1)
        inside = text[opening.end() : end if end >= 0 else len(text)].strip()
        if inside.startswith("{"):
            yield inside
    yield from _objects_between_words(text)


def _unwrapped(encoded: str) -> Iterator[str]:
    try:
        yield base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return


def _objects_between_words(text: str) -> Iterator[str]:
    """Stretches of the text that are JSON objects, looked for at a few of its braces."""
    at = text.find("{")
    for _ in range(CANDIDATE_LIMIT):
        if at < 0:
            return
        end = _end_of_json(text, at)
        if end is not None and _HAS_NODES.search(text, at, end):
            yield text[at:end]
        at = text.find("{", at + 1 if end is None else end)


def _end_of_json(text: str, start: int) -> int | None:
    try:
        return json.JSONDecoder().raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None
