"""Texts with `{{ dotted.path }}` in them. Nothing is carried out: a path is looked up, no more."""

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus

import msgspec

from comfyrail.errors import InvalidWebhook

LONGEST_TEMPLATE = 16_384
MOST_PLACEHOLDERS = 100
LONGEST_RENDERED = 256 << 10
"""Bytes of a body."""

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}\s]{1,200})\s*\}\}")
_PATH = re.compile(r"[\w-]+(\.[\w-]+)*")
_JSON_STARTS = ("{", "[", '"')

encode_json = msgspec.json.Encoder(order="deterministic").encode


def look_up(values: Mapping[str, Any], path: str) -> Any:
    """What a path leads to: names of objects, numbers of lists; None where it leads nowhere."""
    found: Any = values
    for part in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part[:6]) < len(found):
            found = found[int(part[:6])]
        else:
            return None
    return found


def choose_fields(values: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Only what the paths lead to, each in its place. One through a list is for every member."""
    chosen: dict[str, Any] = {}
    for path in paths:
        _choose(values, path.split("."), chosen)
    return chosen


def render_text(template: str, values: Mapping[str, Any]) -> str:
    return _render(template, values, as_text)


def render_html(template: str, values: Mapping[str, Any]) -> str:
    """What is filled in is text there, and no HTML."""
    return _render(template, values, lambda value: html.escape(as_text(value)))


def render_form(template: str, values: Mapping[str, Any]) -> str:
    """For `name={{ path }}&…`."""
    return _render(template, values, lambda value: quote_plus(as_text(value)))


def render_json(template: str, values: Mapping[str, Any]) -> str:
    """What is filled in is a value, or inside quotes a part of a string: it can end neither."""
    made = _Rendering()
    is_in_string = False
    for literal, path in _pieces(template):
        is_in_string = _ends_in_string(literal, is_in_string)
        made.add(literal)
        if path is not None:
            value = look_up(values, path)
            made.add(_inside_string(value) if is_in_string else encode_json(value).decode())
    return made.text


def is_json(template: str) -> bool:
    """Whether it begins like JSON; one that begins with a placeholder is plain text."""
    start = template.lstrip()
    return start.startswith(_JSON_STARTS) and not start.startswith("{{")


def check_template(template: str, name: str = "template") -> None:
    """Raise InvalidWebhook for one that could not be filled in, whatever is."""
    if len(template) > LONGEST_TEMPLATE:
        raise InvalidWebhook(f"{name} has more than {LONGEST_TEMPLATE:,} characters.")
    paths = [path for _, path in _pieces(template) if path is not None]
    if len(paths) > MOST_PLACEHOLDERS:
        raise InvalidWebhook(f"{name} has more than {MOST_PLACEHOLDERS} placeholders.")
    for path in paths:
        check_path(path, name)


def check_json_template(template: str) -> None:
    """The same for a body that begins like JSON: it has to be JSON then."""
    check_template(template)
    try:
        msgspec.json.decode(render_json(template, {}))
    except msgspec.DecodeError as error:
        raise InvalidWebhook(
            "template begins like JSON and is none when its placeholders are filled in. Is a quote "
            "or a bracket missing?"
        ) from error


def check_path(path: str, name: str) -> None:
    if not _PATH.fullmatch(path):
        raise InvalidWebhook(
            f"{name} has {path[:80]!r}, which is no path. Write it like outputs.0.url."
        )


def body_too_long() -> InvalidWebhook:
    return InvalidWebhook(
        f"The message would have more than {LONGEST_RENDERED:,} bytes. Choose less of it with "
        "fields, or a shorter template."
    )


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else encode_json(value).decode()


def _render(template: str, values: Mapping[str, Any], shown: Callable[[Any], str]) -> str:
    made = _Rendering()
    for literal, path in _pieces(template):
        made.add(literal)
        if path is not None:
            made.add(shown(look_up(values, path)))
    return made.text


class _Rendering:
    """What is filled in so far. It raises InvalidWebhook before it takes much memory."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def add(self, part: str) -> None:
        self._parts.append(part)
        self._length += len(part)
        if self._length > LONGEST_RENDERED:
            raise body_too_long()


def _pieces(template: str) -> Iterator[tuple[str, str | None]]:
    """Literal text, and the placeholder that follows it."""
    start = 0
    for found in _PLACEHOLDER.finditer(template):
        yield template[start : found.start()], found[1]
        start = found.end()
    yield template[start:], None


def _ends_in_string(literal: str, is_in_string: bool) -> bool:
    characters = iter(literal)
    for character in characters:
        if character == "\\" and is_in_string:
            next(characters, None)
        elif character == '"':
            is_in_string = not is_in_string
    return is_in_string


def _inside_string(value: Any) -> str:
    return encode_json(as_text(value)).decode()[1:-1]


def _choose(values: Any, path: Sequence[str], chosen: Any) -> None:
    name, *rest = path
    if not isinstance(values, Mapping) or name not in values:
        return
    value = values[name]
    if not rest:
        chosen[name] = value
    elif isinstance(value, Mapping):
        _choose(value, rest, chosen.setdefault(name, {}))
    elif isinstance(value, list):
        kept = chosen.setdefault(name, [{} for _ in value])
        for member, into in zip(value, kept, strict=True):
            _choose(member, rest, into)
