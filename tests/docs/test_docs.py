"""The reference pages name all that the product has, and nothing that it has not [15.5]."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from comfyrail import errors
from comfyrail.api import contract, library_contract
from comfyrail.api.surfaces import OPERATIONS
from comfyrail.bootstrap.settings import Settings
from comfyrail.cli.main import app
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.folders import Folders
from comfyrail.jobs.events import EventType
from comfyrail.validation.context import ERROR_STAGES, ValidationContext
from comfyrail.validation.validate import validate
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.graph import parse_workflow

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "comfyrail"
REFERENCE = ROOT / "docs" / "reference"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

SWITCHED_PROTOCOLS = 101
CODE = re.compile(r"[A-Z]+(_[A-Z]+)*")
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@cache
def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def reference(name: str) -> str:
    return read(REFERENCE / name)


def headings(page: Path) -> list[str]:
    prose = FENCE.sub("", read(page))
    return re.findall(r"^#+ (.+)$", prose, re.MULTILINE)


def first_cells(text: str) -> dict[str, str]:
    """Table rows by the code in their first cell."""
    rows = re.findall(r"^\| `([^`]+)` \|.*$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if re.match(r"\| `[^`]+` \|", line)]
    return dict(zip(rows, lines, strict=True))


# Routes


def routes() -> set[str]:
    return {
        f"{'WS' if operation.status == SWITCHED_PROTOCOLS else method.upper()} {path}"
        for (method, path), operation in OPERATIONS.items()
    }


def test_every_route_has_a_section_in_the_api_reference() -> None:
    described = {
        heading
        for page in REFERENCE.glob("api*.md")
        for heading in headings(page)
        if re.match(r"(GET|HEAD|POST|PUT|PATCH|DELETE|WS) /", heading)
    }
    assert described == routes()


def structs() -> list[type[msgspec.Struct]]:
    found = [
        each
        for module in (contract, library_contract)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, msgspec.Struct)
    ]
    assert contract.Execution in found
    return found


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: str(struct.__name__))
def test_every_field_of_a_body_is_in_the_api_reference(struct: type[msgspec.Struct]) -> None:
    prose = FENCE.sub("", reference("api.md"))
    named = set(re.findall(r"[`\"](\w+)[`\"]", prose))
    assert set(struct.__struct_fields__) <= named


# Events


def test_every_event_type_has_a_section_in_the_event_reference() -> None:
    described = re.findall(r"^##+ `([a-z]+\.\w+)`$", reference("events.md"), re.MULTILINE)
    assert sorted(described) == sorted(EventType)


# Settings


def test_every_setting_is_in_the_settings_reference_with_variable_flag_and_default() -> None:
    rows = first_cells(reference("settings.md").partition("## Other variables")[0])
    assert set(rows) == set(Settings.model_fields)
    serve_flags = options_of(commands()["comfyrail serve"])
    for name, field in Settings.model_fields.items():
        cells = [cell.strip() for cell in rows[name].split("|")[1:-1]]
        assert cells[1] == f"`COMFYRAIL_{name.upper()}`"
        flag = f"--{name.replace('_', '-')}"
        assert cells[2] == (f"`{flag}`" if flag in serve_flags else "none")
        if isinstance(field.default, int | float | str):
            assert f"`{as_written(field.default)}`" in cells[3]


def as_written(default: float | str) -> str:
    """As a variable of the environment would have it."""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


# Errors


def error_classes(kind: type[errors.ComfyrailError]) -> Iterator[type[errors.ComfyrailError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from error_classes(below)


def codes_of_source(tree: ast.AST) -> Iterator[str]:
    """Codes given as `code="…"`, and those of faults, findings and route errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in {"code", "error_code"}:
                    yield from codes_in(keyword.value)
            if isinstance(node.func, ast.Name) and node.func.id in {"Fault", "Finding", "_error"}:
                for argument in node.args[:3]:
                    yield from codes_in(argument)
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if any(name == "code" or name.endswith("_ERRORS") for name in names):
                yield from codes_in(node.value)


def codes_in(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        value = inner.value if isinstance(inner, ast.Constant) else None
        if isinstance(value, str) and CODE.fullmatch(value):
            yield value


def error_codes() -> set[str]:
    found = {kind.code for kind in error_classes(errors.ComfyrailError)}
    for path in SOURCES.rglob("*.py"):
        found.update(codes_of_source(ast.parse(path.read_text(encoding="utf-8"))))
    return found


def test_every_error_code_is_in_the_error_reference() -> None:
    found = error_codes()
    # One of each kind of place, so that the search itself cannot go blind unseen.
    assert {"STALE_ATTEMPT", "CANNOT_LISTEN", "INTERRUPTED", "BAD_LINK", "HTTP_ERROR"} <= found
    assert {"UNKNOWN_NODE_TYPE", "ROUTE_NOT_FOUND", "WORKER_LOST"} <= found
    described = {cell for cell in first_cells(reference("errors.md")) if CODE.fullmatch(cell)}
    assert described == found


# Commands


def commands() -> dict[str, Any]:
    """Every command that is not hidden, by its full name."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for below, child in getattr(command, "commands", {}).items():
            if not child.hidden:
                yield from walk(f"{name} {below}", child)

    return dict(walk("comfyrail", typer.main.get_command(app)))


def options_of(command: Any) -> set[str]:
    shown = [each for each in command.params if each.param_type_name == "option"]
    return {name for each in shown if not each.hidden for name in each.opts}


def command_sections() -> dict[str, str]:
    parts = re.split(r"^##+ ", reference("command-line.md"), flags=re.MULTILINE)
    found = [re.match(r"`(comfyrail[\w -]*)`\n(.*)", part, re.DOTALL) for part in parts]
    return {match[1]: match[2] for match in found if match}


def test_every_command_and_option_is_in_the_command_line_reference() -> None:
    known = commands()
    assert {"comfyrail run", "comfyrail jobs show"} <= set(known)
    sections = command_sections()
    assert set(sections) == set(known)
    for name, command in known.items():
        described = set(re.findall(r"^\| ((?:`-.+?`(?:, )?)+) \|", sections[name], re.MULTILINE))
        options = {option for cell in described for option in re.findall(r"`(-[^`]+)`", cell)}
        assert options - {"--help"} == options_of(command) - {"--help"}, name


def test_every_variable_of_a_command_is_in_the_settings_reference() -> None:
    named = [
        each.envvar for command in commands().values() for each in command.params if each.envvar
    ]
    assert "COMFYRAIL_SERVER" in named
    described = first_cells(reference("settings.md"))
    assert set(named) <= set(described)


def test_every_node_type_in_the_workflow_reference_exists() -> None:
    table = reference("workflow-format.md").partition("## Built-in node types")[2]
    described = set(first_cells(table.partition("\n## ")[0]))
    assert described == set(builtin_registry().names())


# Links and examples


def links(page: Path) -> list[str]:
    prose = FENCE.sub("", read(page))
    found = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose)
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchor(heading: str) -> str:
    """The name that GitHub gives to a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for target in links(page):
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if fragment:
            assert fragment in {anchor(each) for each in headings(file)}, f"{page.name}: {target}"


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in links(page)
        if not target.startswith("#")
    }
    assert [page for page in PAGES if page not in linked and page.name != "README.md"] == []


def json_examples() -> list[Any]:
    return [
        pytest.param(content, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (language, content) in enumerate(FENCE.findall(read(page)))
        if language == "json"
    ]


@pytest.mark.parametrize("content", json_examples())
def test_every_json_example_is_json_and_every_workflow_in_it_valid(
    content: str, tmp_path: Path
) -> None:
    example = json.loads(content)
    is_workflow = all(isinstance(each, dict) and "class_type" in each for each in example.values())
    if is_workflow:
        catalog = parse_object_info(
            builtin_registry().object_info(Folders.under(tmp_path, tmp_path))
        )
        assert (
            validate(parse_workflow(example), ValidationContext(catalog, stages=ERROR_STAGES)) == []
        )
