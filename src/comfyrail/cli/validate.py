"""`comfyrail validate`: all that is wrong with a workflow, here or by a server."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.text import Text

from comfyrail.api.check_contract import validation_report
from comfyrail.cli.exits import FAILED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.surroundings import local_surroundings
from comfyrail.cli.terminal import errors, line, out, plain
from comfyrail.cli.workflow_file import is_library_reference, read_setting, read_workflow
from comfyrail.client import ComfyrailClient
from comfyrail.client.checks import Finding, ValidationReport, WorkerFit
from comfyrail.usecases.examination import Source, examine
from comfyrail.validation.fleet_fit import fleet_report

Reply = TypeVar("Reply")

COLOURS = {"error": "bold red", "warning": "yellow", "hint": "cyan"}


@dataclass(frozen=True, slots=True)
class CheckWishes:
    """What `validate` and `plan` have in common. `server` None: checked in this process."""

    file: Path
    settings: Sequence[str] = ()
    server: str | None = None
    catalog: Path | None = None
    data: Path | None = None
    auto_fix: bool = False
    optimize: bool = False

    def parameters(self) -> dict[str, Any]:
        return dict(read_setting(text) for text in self.settings)


def validate_workflow(wishes: CheckWishes, *, as_json: bool, output: Path | None) -> None:
    """Show the report and end with 1 when the workflow cannot run."""
    report, seconds = _ask_server(wishes) if wishes.server else _check_here(wishes)
    if output is not None and report.workflow is not None:
        write_json(report.workflow, output)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    else:
        _show(wishes.file, report, seconds)
    if not report.valid:
        sys.exit(FAILED)


def _check_here(wishes: CheckWishes) -> tuple[ValidationReport, float]:
    """The report, and the seconds that the checks took without reading files."""
    parameters = wishes.parameters()
    workflow = read_workflow(wishes.file)
    context = local_surroundings(wishes.catalog, wishes.data).context
    source = Source(workflow, parameters, None, wishes.auto_fix, wishes.optimize)
    started = time.perf_counter()
    examination = examine(source, context)
    seconds = time.perf_counter() - started
    runnable = examination.workflow
    fits = [] if runnable is None else fleet_report(runnable, context)
    return as_client_sees(validation_report(examination, fits), ValidationReport), seconds


def _ask_server(wishes: CheckWishes) -> tuple[ValidationReport, float]:
    """The report, and the seconds until it came."""
    workflow, parameters = workflow_for_server(wishes), wishes.parameters()

    async def ask() -> ValidationReport:
        async with ComfyrailClient(wishes.server or "") as client:
            return await client.validate(
                workflow, parameters, auto_fix=wishes.auto_fix, optimize=wishes.optimize
            )

    started = time.perf_counter()
    report = call_server(ask())
    return report, time.perf_counter() - started


def workflow_for_server(wishes: CheckWishes) -> dict[str, Any] | str:
    """What a server is sent; a name that is no file means a workflow of its library."""
    if wishes.catalog is not None or wishes.data is not None:
        explain_and_exit("--catalog and --data are for checks without a server.", WRONG_USE)
    is_reference = is_library_reference(wishes.file)
    return str(wishes.file) if is_reference else read_workflow(wishes.file)


def as_client_sees(body: object, kind: type[Reply]) -> Reply:
    """A reply that was made here, as it would come from a server."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def _show(file: Path, report: ValidationReport, seconds: float) -> None:
    counts = [
        _counted(report.errors, "error"),
        _counted(report.warnings, "warning"),
        _counted(report.hints, "hint"),
    ]
    verdict = ("can run", "bold green") if report.valid else ("cannot run", "bold red")
    out.print(
        Text.assemble(
            f"{line(str(file))} ",
            verdict,
            f": {', '.join(counts)} in {_counted(report.nodes, 'node')} ({seconds * 1000:.1f} ms)",
        ),
        soft_wrap=True,
    )
    for fix in report.fixes:
        out.print(Text.assemble(("  fixed   ", "green"), plain(fix.message)), soft_wrap=True)
    for change in report.optimizations:
        out.print(Text.assemble(("  changed ", "green"), plain(change.message)), soft_wrap=True)
    show_findings(report.findings)
    later = ", ".join(stage for stage in report.unchecked if stage != "optimization")
    if later:
        out.print(Text(f"  Mend these first. Not checked yet: {line(later)}.", "dim"))
    show_fits(report.workers)


def show_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        out.print(
            Text.assemble(
                (f"  {finding.severity:<8}", COLOURS[finding.severity]),
                plain(finding.message),
                (f"  [{line(finding.error_code)}]", "dim"),
            ),
            soft_wrap=True,
        )


def show_fits(workers: Sequence[WorkerFit]) -> None:
    """What each worker lacks; those that lack nothing only where others do."""
    if all(worker.can_run for worker in workers):
        return
    for worker in workers:
        said = "can run it" if worker.can_run else f"lacks {_lacks(worker)}"
        state = "" if worker.online else " (away)"
        out.print(Text(plain(f"  {worker.worker_id}{state} {said}")), soft_wrap=True)


def _lacks(worker: WorkerFit) -> str:
    choices = [f"{each['value']!r} for {each['input']}" for each in worker.missing_choices]
    memory = [
        f"{amount / 1e9:.1f} GB of {name.replace('_', ' ')}"
        for name, amount in worker.memory.items()
        if amount
    ]
    parts = [*worker.missing_node_types, *worker.missing_models, *choices, *memory]
    shown = ", ".join(parts[:8])
    return shown if len(parts) <= 8 else f"{shown} and {len(parts) - 8} more"


def write_json(value: Mapping[str, Any], output: Path) -> None:
    try:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    except OSError as error:
        explain_and_exit(f"{output} cannot be written: {error.strerror}.", WRONG_USE)
    errors.print(Text(line(f"Wrote {output}.")), soft_wrap=True)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
