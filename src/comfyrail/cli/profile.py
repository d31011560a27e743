"""`comfyrail profile`: run a workflow in this process and show where its time goes."""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from comfyrail.cli.convert import say_notes
from comfyrail.cli.exits import FAILED, WRONG_USE, explain_and_exit
from comfyrail.cli.signals import Stopper, stop_on_signals
from comfyrail.cli.terminal import errors, line, out, plain, say
from comfyrail.cli.workflow_file import read_setting, read_workflow
from comfyrail.engine.assembly import build_executor
from comfyrail.engine.configuration import EngineConfiguration, load_configuration
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.options import Strategy
from comfyrail.engine.profiling import ProfileReport, Recorder, profile_execution
from comfyrail.engine.profiling.amounts import UNKNOWN, shown_seconds
from comfyrail.engine.profiling.table import ProfileTable
from comfyrail.engine.prompt_check import PromptRefused, check_prompt
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.runners.daemon_threads import DaemonThreads
from comfyrail.engine.server.node_sources import NodeSources, load_nodes
from comfyrail.engine.server.run import prepare_folders
from comfyrail.errors import InvalidWorkflow
from comfyrail.process import hand_over_quickly
from comfyrail.telemetry.logs import configure_logs
from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import refuse_errors
from comfyrail.validation.validate import validate
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.parameters import apply_parameters

MOST_ROWS = 50
LONGEST_CELL = 40
TEXT_COLUMNS = ("Node", "Type", "Status", "Where")
LEFT_OUT_FIRST = ("Written", "Read", "Waited", "Peak", "Output", "Where", "CPU")
"""What a terminal that is too narrow does not show, in this order."""
JSON_VERSION = 1


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    file: Path
    settings: tuple[str, ...] = ()
    strategy: str | None = None
    config: Path | None = None
    runs: int = 1
    data: Path | None = None
    json: Path | None = None
    svg: Path | None = None
    folded: Path | None = None
    comfyui: Path | None = None
    comfyui_arguments: Sequence[str] = ()
    nodes: Sequence[Path] = ()


def profile_workflow(request: ProfileRequest) -> None:
    """Do it and exit with the code that says how it ended."""
    raw = read_workflow(request.file)
    parameters = dict(read_setting(text) for text in request.settings)
    _check_wishes(request)
    configure_logs(level="warning")
    configuration = (
        EngineConfiguration() if request.config is None else load_configuration(request.config)
    )
    nodes = load_nodes(request.comfyui, request.comfyui_arguments, request.nodes)
    for failure in nodes.failures:
        errors.print(line(f"The pack {failure.name} is left out: {failure.reason}"))
    with _folders_for(request, nodes) as folders:
        execution = _prepare(raw, parameters, nodes.registry, folders, request.strategy)
        with Recorder(nodes.surroundings) as recorder:
            executor = build_executor(
                nodes.registry,
                folders,
                configuration,
                cache=nodes.change_cache and nodes.change_cache(configuration.cache_config()),
                surroundings=recorder.surroundings,
                hooks=[recorder],
            )
            # Wrong options are said before anything runs.
            executor.check_options(execution.extra_data)
            with asyncio.Runner(loop_factory=nodes.loop_factory) as runner:
                code = runner.run(_Profile(request, executor, recorder).do(execution))
    sys.exit(code)


def _check_wishes(request: ProfileRequest) -> None:
    strategies = get_args(Strategy)
    if request.strategy is not None and request.strategy not in strategies:
        choices = ", ".join(strategies)
        explain_and_exit(f"--strategy is one of {choices}, not {request.strategy!r}.", WRONG_USE)
    for path in (request.json, request.svg, request.folded):
        if path is not None and not path.absolute().parent.is_dir():
            explain_and_exit(f"{path} cannot be written: there is no such folder.", WRONG_USE)
    if request.comfyui_arguments and request.comfyui is None:
        option = request.comfyui_arguments[0]
        explain_and_exit(f"There is no option {option}. See comfyrail profile --help.", WRONG_USE)


@contextlib.contextmanager
def _folders_for(request: ProfileRequest, nodes: NodeSources) -> Iterator[Folders]:
    """ComfyUI's own, those that were asked for, or some that are gone afterwards."""
    if nodes.folders is not None:
        yield nodes.folders
    elif request.data is not None:
        yield prepare_folders(request.data)
    else:
        # A node that was left behind may still write as the folder goes.
        with tempfile.TemporaryDirectory(
            prefix="comfyrail-profile-", ignore_cleanup_errors=True
        ) as folder:
            yield prepare_folders(Path(folder))


def _prepare(
    raw: Mapping[str, Any],
    parameters: Mapping[str, Any],
    registry: NodeRegistry,
    folders: Folders,
    strategy: str | None,
) -> ExecutionRequest:
    """The workflow as a server and then a worker would take it, or the end of the command."""
    catalog = parse_object_info(registry.object_info(folders))
    try:
        read, notes = workflow_from(raw, catalog)
        say_notes(notes)
        workflow = apply_parameters(read, parameters, catalog).expanded()
        # On one's own machine nothing is forbidden: only what cannot work is refused.
        context = ValidationContext(catalog, stages=frozenset({"syntax", "semantic"}))
        refuse_errors(validate(workflow, context))
    except InvalidWorkflow as error:
        findings = [str(each.get("message")) for each in error.details.get("findings", ())]
        explain_and_exit("\n       ".join(findings) or error.message, WRONG_USE)
    except RecursionError:
        explain_and_exit("The workflow is nested too deeply.", WRONG_USE)
    verdict = check_prompt(workflow.to_prompt(), registry, folders)
    if isinstance(verdict, PromptRefused):
        explain_and_exit(_why_refused(verdict.body), WRONG_USE)
    for said in _node_faults(verdict.node_errors):
        errors.print(plain(f"An output is left out: {said}"), soft_wrap=True)
    asked = {} if strategy is None else {"comfyrail": {"strategy": strategy}}
    return ExecutionRequest(verdict.prompt, verdict.outputs, asked, "profile")


def _why_refused(body: Mapping[str, Any]) -> str:
    error = body["error"]
    said = [text for text in (error["message"], error["details"]) if text]
    return "\n       ".join(_node_faults(body["node_errors"]) or [": ".join(said)])


def _node_faults(node_errors: Mapping[str, Any]) -> list[str]:
    return [
        f"Node '{node_id}' ({node['class_type']}): {each['message']}: {each['details']}"
        for node_id, node in node_errors.items()
        for each in node["errors"]
    ]


class _Profile:
    """All runs of one workflow. The executor works in a thread, so that signals are seen."""

    def __init__(self, request: ProfileRequest, executor: Executor, recorder: Recorder) -> None:
        self._request = request
        self._executor = executor
        self._recorder = recorder
        self._reports: list[ProfileReport] = []
        hand_over_quickly()

    async def do(self, execution: ExecutionRequest) -> int:
        """The exit code."""
        threads = DaemonThreads(1, "executor")
        with stop_on_signals() as stopper:
            try:
                stopper.hold()
                for number in range(1, self._request.runs + 1):
                    report = await self._run_once(threads, execution, number, stopper)
                    self._show(report, number)
                    if report.outcome != "completed":
                        break
                stopper.let_go()
                await threads.run(self._executor.close)
            except asyncio.CancelledError:
                if stopper.exit_code is None:
                    raise
                return stopper.exit_code
            finally:
                threads.close()
        self._compare()
        self._write_files()
        return stopper.exit_code or _exit_code(self._reports[-1])

    async def _run_once(
        self, threads: DaemonThreads, execution: ExecutionRequest, number: int, stopper: Stopper
    ) -> ProfileReport:
        interrupt = Interrupt()
        watcher = asyncio.create_task(_interrupt_when_asked(stopper, interrupt), name="interrupt")
        of_several = f" ({number} of {self._request.runs})" if self._request.runs > 1 else ""
        call = partial(profile_execution, self._executor, self._recorder, execution, interrupt)
        try:
            with errors.status(Text(line(f"Running {self._request.file.name}{of_several}"))):
                return await threads.run(call)
        finally:
            watcher.cancel()

    def _show(self, report: ProfileReport, number: int) -> None:
        if self._request.runs > 1:
            say(Text(f"Run {number}", "bold"))
        table = report.as_table(MOST_ROWS)
        _print_table(table)
        out.print()
        for name, figure in table.summary:
            say(Text(f"{name:<24}"), figure)
        out.print()
        self._reports.append(report)

    def _compare(self) -> None:
        if len(self._reports) < 2:
            return
        for number, report in enumerate(self._reports, start=1):
            ran = len(report.nodes) - report.counts["cached"]
            figures = f"{shown_seconds(report.wall_seconds)}, {ran} nodes ran"
            say(f"Run {number}: {figures}, {report.counts['cached']} were cached")

    def _write_files(self) -> None:
        request = self._request
        if request.json is not None:
            runs = [report.as_dict() for report in self._reports]
            content = {"version": JSON_VERSION, "workflow": str(request.file), "runs": runs}
            _write(request.json, json.dumps(content, indent=2, allow_nan=False) + "\n")
        for number, report in enumerate(self._reports, start=1):
            if request.svg is not None:
                title = str(request.file) + (f", run {number}" if request.runs > 1 else "")
                _write(_numbered(request.svg, number), report.as_svg(title))
            if request.folded is not None:
                _write(_numbered(request.folded, number), report.as_folded())


async def _interrupt_when_asked(stopper: Stopper, interrupt: Interrupt) -> None:
    await stopper.asked.wait()
    errors.print("Stopping. Ctrl-C again leaves at once.")
    interrupt.request()


def _exit_code(report: ProfileReport) -> int:
    return 0 if report.outcome == "completed" else FAILED


def _numbered(path: Path, number: int) -> Path:
    """`a.svg`, `a-2.svg` …"""
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        explain_and_exit(f"{path} cannot be written: {error.strerror}.", FAILED)


def _print_table(table: ProfileTable) -> None:
    """Nothing is cut in a file; a terminal shows as many columns as it has room for."""
    left_out: list[str] = []
    while True:
        shown = _rich_table(table, left_out)
        unlimited = Console(highlight=False, width=10_000)
        needed = Measurement.get(unlimited, unlimited.options, shown).maximum
        if needed <= out.width or not out.is_terminal or len(left_out) == len(LEFT_OUT_FIRST):
            break
        left_out.append(LEFT_OUT_FIRST[len(left_out)])
    Console(highlight=False, width=max(needed, out.width)).print(shown)


def _rich_table(table: ProfileTable, left_out: Sequence[str]) -> Table:
    shown = Table(box=None, pad_edge=False, show_footer=True)
    kept = [
        index
        for index, column in enumerate(table.columns)
        if column not in left_out and any(row[index] not in {"", UNKNOWN} for row in table.rows)
    ]
    for index in kept:
        name = table.columns[index]
        justify = "left" if name in TEXT_COLUMNS else "right"
        footer = Text(table.totals[index], "bold")
        shown.add_column(name, footer, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in table.rows:
        shown.add_row(*(Text(_cell(row[index])) for index in kept))
    return shown


def _cell(text: str) -> str:
    clean = line(text)
    return clean if len(clean) <= LONGEST_CELL else f"{clean[: LONGEST_CELL - 1]}…"
