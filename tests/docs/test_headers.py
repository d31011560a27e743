"""Every header that the API heeds or sends is in the reference [issue 7]."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "comfyrail" / "api"
PAGE = ROOT / "docs" / "reference" / "headers.md"

DASHED = re.compile(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)+")
SINGLE = {
    *("accept", "allow", "authorization", "connection", "cookie", "date", "deprecation", "etag"),
    *("expires", "host", "link", "location", "origin", "pragma", "prefer", "range", "ratelimit"),
    *("server", "sunset", "upgrade", "vary", "via", "warning"),
}
NO_HEADERS = {
    # Content types and other words with a dash, found where headers stand.
    *("no-cache", "no-store", "no-referrer", "same-origin", "same-site", "cross-site", "none"),
}


def is_header(text: str) -> bool:
    return text.lower() in SINGLE or (
        bool(DASHED.fullmatch(text)) and text.lower() not in NO_HEADERS
    )


def texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        value = node.value
        yield value.decode("latin-1") if isinstance(value, bytes) else value


def names_headers(node: ast.AST) -> bool:
    """`headers`, `request.headers`, `SECURITY_HEADERS` and the like."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return "headers" in str(name).lower()


def headers_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and names_headers(node.value):
            yield from texts(node.slice)
        elif isinstance(node, ast.Call):
            yield from headers_of_a_call(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(names_headers(target) for target in targets):
                yield from keys_of(node.value)
        elif isinstance(node, ast.Compare) and getattr(node.left, "id", None) == "name":
            # `if name == b"host"` in a pass over raw headers
            for each in node.comparators:
                yield from texts(each)


def headers_of_a_call(node: ast.Call) -> Iterator[str]:
    """`headers.get("…")`, and `headers={…}` among the arguments."""
    called = node.func
    if isinstance(called, ast.Attribute) and names_headers(called.value) and node.args:
        yield from texts(node.args[0])
    for keyword in node.keywords:
        if keyword.arg == "headers":
            yield from keys_of(keyword.value)


def keys_of(node: ast.AST) -> Iterator[str]:
    """Of a dict, or the first of each pair in a list or tuple."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            for key in inner.keys:
                if key is not None:
                    yield from texts(key)
        elif isinstance(inner, ast.Tuple) and len(inner.elts) == 2:
            yield from texts(inner.elts[0])


def headers_of_the_api() -> set[str]:
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.update(name.lower() for name in headers_in(tree) if is_header(name))
    return found


def test_every_header_is_in_the_reference_of_headers() -> None:
    found = headers_of_the_api()
    # One of each kind of place, so that the search itself cannot go blind unseen.
    assert {"etag", "host", "x-content-type-options", "retry-after", "last-event-id"} <= found
    page = PAGE.read_text(encoding="utf-8")
    described = {name.lower() for name in re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)}
    assert described == found
