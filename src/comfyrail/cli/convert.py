"""`comfyrail convert`: a workflow from one of ComfyUI's formats to the other."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from comfyrail.cli.catalogs import ChosenCatalog, choose_catalog
from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.cli.terminal import errors, line
from comfyrail.cli.workflow_file import read_workflow
from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.editor.convert import convert_json
from comfyrail.workflow.editor.notes import UNKNOWN_NODE_TYPE, ConversionNote

FORMATS = ("api", "editor")


@dataclass(frozen=True, slots=True)
class ConvertRequest:
    file: Path
    to: str
    catalog: Path | None = None
    data: Path | None = None
    output: Path | None = None


def convert_workflow(request: ConvertRequest) -> None:
    """Write the workflow in the format that was asked for. What it already is stays as it is."""
    if request.to not in FORMATS:
        explain_and_exit(f"--to is one of {', '.join(FORMATS)}, not {request.to!r}.", WRONG_USE)
    raw = read_workflow(request.file)
    chosen = choose_catalog(request.catalog, request.data)
    try:
        converted, notes = convert_json(
            raw, "editor" if request.to == "editor" else "api", chosen.catalog
        )
    except MalformedWorkflow as error:
        explain_and_exit(error.message, WRONG_USE)
    say_notes(notes)
    _advise(notes, chosen)
    _write(converted, request.output)


def say_notes(notes: Sequence[ConversionNote]) -> None:
    """On standard error, where they do not mix with results."""
    for note in notes:
        said = Text.assemble(("Note:", "bold yellow"), " ", line(note.message))
        errors.print(said, soft_wrap=True)


def _advise(notes: Sequence[ConversionNote], chosen: ChosenCatalog) -> None:
    if any(note.code == UNKNOWN_NODE_TYPE for note in notes):
        said = f"The node catalog is that of {chosen.origin}. Give another with --catalog."
        errors.print(Text(line(said)), soft_wrap=True)


def _write(content: Any, output: Path | None) -> None:
    if output is None:
        # A terminal would act on some characters, so they are written as escapes.
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
        return
    try:
        output.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        explain_and_exit(f"{output} cannot be written: {error.strerror}.", WRONG_USE)
