"""What `comfyrail workflows` does."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import typer
from rich.text import Text

from comfyrail.cli.exits import FAILED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.results import create_file, print_path
from comfyrail.cli.tables import add_row, ago, new_table, print_table
from comfyrail.cli.terminal import line, out, plain, say
from comfyrail.cli.workflow_file import read_limited, read_workflow
from comfyrail.client import (
    UNCHANGED,
    ComfyrailClient,
    DeclaredInput,
    LibraryWorkflow,
    SavedWorkflow,
    ValidationReport,
    WorkflowSummary,
)
from comfyrail.errors import InvalidLibraryEntry, InvalidWorkflow, RequestError
from comfyrail.library.bundles import LARGEST_BUNDLE
from comfyrail.library.content import read_inputs
from comfyrail.library.files import (
    DESCRIPTION_FILE,
    INPUTS_JSON,
    INPUTS_YAML,
    LIMITS,
    PREVIEW_FILE,
    WORKFLOW_FILE,
)
from comfyrail.library.names import check_name, split_reference
from comfyrail.workflow.declared_inputs import parse_declared_inputs


@dataclass(frozen=True, slots=True)
class SaveRequest:
    name: str
    file: Path
    description: Path | None
    inputs: Path | None
    preview: Path | None


def show_workflows(server: str, limit: int) -> None:
    async def ask() -> list[WorkflowSummary]:
        found: list[WorkflowSummary] = []
        async with ComfyrailClient(server) as client:
            async for workflow in client.library.workflows(limit):
                found.append(workflow)
                if len(found) == limit:
                    break
        return found

    found = call_server(ask())
    if not found:
        say(f"No workflows. Save one with: comfyrail workflows save NAME FILE --server {server}")
        return
    table = new_table("Name", "Version", "Saved", "Description")
    for each in found:
        add_row(table, each.name, str(each.version), ago(each.saved_at), line(each.description))
    print_table(table)


def show_workflow(server: str, reference: str, *, as_json: bool) -> None:
    name, version = read_reference(reference)

    async def ask() -> LibraryWorkflow:
        async with ComfyrailClient(server) as client:
            return await client.library.show(name, version)

    shown = call_server(ask())
    if as_json:
        typer.echo(json.dumps(shown.workflow, indent=2))
        return
    _describe(shown, server)


def show_versions(server: str, name: str) -> None:
    async def ask() -> list[WorkflowSummary]:
        async with ComfyrailClient(server) as client:
            return await client.library.versions(name)

    table = new_table("Version", "Saved", "Description")
    for each in call_server(ask()):
        add_row(table, str(each.version), ago(each.saved_at), line(each.description))
    print_table(table)


def save_workflow(server: str, request: SaveRequest) -> None:
    if request.file.is_dir():
        request = _in_folder(request)
    try:
        check_name(request.name)
    except InvalidLibraryEntry as error:
        explain_and_exit(error.message, WRONG_USE)
    workflow = read_workflow(request.file)
    description: Any = UNCHANGED
    if request.description is not None:
        content = read_limited(request.description, LIMITS[DESCRIPTION_FILE])
        description = content.decode(errors="replace")
    inputs = UNCHANGED if request.inputs is None else _read_inputs(request.inputs)
    preview: Any = UNCHANGED
    if request.preview is not None:
        preview = read_limited(request.preview, LIMITS[PREVIEW_FILE])

    async def ask() -> tuple[SavedWorkflow, ValidationReport]:
        async with ComfyrailClient(server) as client:
            saved = await client.library.save(
                request.name, workflow, description=description, inputs=inputs, preview=preview
            )
            return saved, await client.validate(f"{saved.name}@{saved.version}")

    saved, report = call_server(ask())
    say(f"Saved {saved.name}, version {saved.version}. {_how_to_run(saved.name, server)}")
    if not report.valid:
        count = "1 error" if report.errors == 1 else f"{report.errors} errors"
        say(
            f"As it is it cannot run there: {count}. "
            f"See: comfyrail validate {saved.name} --server {server}"
        )


def delete_workflow(server: str, name: str, *, is_sure: bool) -> None:
    if not is_sure:
        question = f"Delete '{name}' with all its versions?"
        if not sys.stdin.isatty():
            explain_and_exit(f"{question} Add --yes to do it.", WRONG_USE)
        if not typer.confirm(plain(question)):
            sys.exit(FAILED)

    async def ask() -> None:
        async with ComfyrailClient(server) as client:
            await client.library.delete(name)

    call_server(ask())
    say(f"Deleted {name}.")


def export_workflow(server: str, reference: str, output: Path | None) -> None:
    name, version = read_reference(reference)

    async def ask() -> Path:
        async with ComfyrailClient(server) as client:
            chunks = client.library.export_bundle(name, version)
            async with aclosing(chunks):
                # The first one before there is a file: a name may be wrong.
                first = await anext(chunks)
                with _new_file(output, name) as (path, file):
                    file.write(first)
                    async for chunk in chunks:
                        await asyncio.to_thread(file.write, chunk)
                return path

    print_path(call_server(ask()))


def import_workflow(server: str, file: Path, name: str | None, *, replace: bool) -> None:
    content = read_limited(file, LARGEST_BUNDLE)

    async def ask() -> SavedWorkflow:
        async with ComfyrailClient(server) as client:
            return await client.library.import_bundle(content, name=name, replace=replace)

    saved = call_server(ask())
    numbers = ", ".join(map(str, saved.added))
    which = f"version {numbers}" if len(saved.added) == 1 else f"versions {numbers}"
    say(f"Imported {saved.name}, {which}. {_how_to_run(saved.name, server)}")


def read_reference(text: str) -> tuple[str, int | None]:
    """NAME or NAME@VERSION, or the end of the command."""
    try:
        return split_reference(text)
    except RequestError:
        explain_and_exit(f"{text!r} is not like NAME or NAME@3.", WRONG_USE)


def _in_folder(request: SaveRequest) -> SaveRequest:
    """A folder as the library has them; what is named apart counts more."""

    def beside(*names: str) -> Path | None:
        return next((path for path in map(request.file.joinpath, names) if path.exists()), None)

    return replace(
        request,
        file=request.file / WORKFLOW_FILE,
        description=request.description or beside(DESCRIPTION_FILE),
        inputs=request.inputs or beside(INPUTS_YAML, INPUTS_JSON),
        preview=request.preview or beside(PREVIEW_FILE),
    )


def _read_inputs(path: Path) -> list[dict[str, Any]]:
    content = read_limited(path, LIMITS[INPUTS_YAML])
    try:
        raw = read_inputs(str(path), content)
    except InvalidWorkflow as error:
        explain_and_exit(error.message, WRONG_USE)
    if raw is None:
        message = f"{path} is empty: declare an input in it, or write [] to declare none."
        explain_and_exit(message, WRONG_USE)
    try:
        return [each.as_dict() for each in parse_declared_inputs(raw)]
    except InvalidWorkflow as error:
        findings = [str(each["message"]) for each in error.details["findings"]]
        explain_and_exit(f"{path}: " + "\n       ".join(findings), WRONG_USE)


@contextmanager
def _new_file(output: Path | None, name: str) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file, gone again when it is not written to its end."""
    try:
        if output is None:
            path, file = create_file(Path(), f"{name}.zip")
        else:
            path, file = output, output.open("xb")
    except OSError as error:
        explain_and_exit(f"{output or name} cannot be written: {error.strerror}.", WRONG_USE)
    try:
        with file:
            yield path, file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _describe(shown: LibraryWorkflow, server: str) -> None:
    rows = [
        ("Name", shown.name),
        ("Version", str(shown.version)),
        ("Versions", ", ".join(map(str, shown.versions))),
        ("Saved", ago(shown.saved_at)),
    ]
    if shown.preview is not None:
        rows.append(("Preview", server + shown.preview))
    for name, value in rows:
        say(Text(f"{name:<9}"), value)
    if shown.inputs:
        out.print()
        table = new_table("Input", "Type", "Default", "Allowed", "What it is")
        for each in shown.inputs:
            what = each.label or each.description or ""
            add_row(table, each.name, each.type, _default(each), _allowed(each), line(what))
        print_table(table)
    if shown.description:
        out.print()
        out.print(Text(plain(shown.description.strip())), soft_wrap=True)


def _default(declared: DeclaredInput) -> str:
    if declared.default is None:
        return "required" if declared.required else ""
    return line(json.dumps(declared.default, ensure_ascii=False))


def _allowed(declared: DeclaredInput) -> str:
    if declared.choices is not None:
        return line(", ".join(map(str, declared.choices)))
    if declared.minimum is None and declared.maximum is None:
        return ""
    low = "" if declared.minimum is None else f"{declared.minimum:g}"
    high = "" if declared.maximum is None else f"{declared.maximum:g}"
    return f"{low} to {high}".strip()


def _how_to_run(name: str, server: str) -> str:
    return f"Run it with: comfyrail run {name} --server {server}"
