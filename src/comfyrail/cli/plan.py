"""`comfyrail plan`: what a workflow would need, take and cost."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
from rich.text import Text

from comfyrail.api.plan_contract import plan_body
from comfyrail.cli.exits import FAILED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.surroundings import local_surroundings
from comfyrail.cli.tables import add_row, new_table, print_table
from comfyrail.cli.terminal import line, out, say
from comfyrail.cli.validate import (
    CheckWishes,
    as_client_sees,
    show_findings,
    show_fits,
    workflow_for_server,
)
from comfyrail.cli.workflow_file import read_workflow
from comfyrail.client import ComfyrailClient, RequestFailed
from comfyrail.client.checks import Finding, Plan, PlannedDuration, WorkerPlan
from comfyrail.errors import InvalidWorkflow
from comfyrail.planning.cost import cost_of
from comfyrail.planning.plan import make_plan
from comfyrail.usecases.examination import Source, examine, refuse_unplannable
from comfyrail.validation.fleet_fit import fleet_report

GIGABYTE = 1e9
SLOWEST_SHOWN = 5


def plan_workflow(wishes: CheckWishes, *, as_json: bool) -> None:
    plan = _ask_server(wishes) if wishes.server else _plan_here(wishes)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
        return
    _show(wishes.file, plan)


def _plan_here(wishes: CheckWishes) -> Plan:
    parameters = wishes.parameters()
    workflow = read_workflow(wishes.file)
    here = local_surroundings(wishes.catalog, wishes.data)
    source = Source(workflow, parameters, None, wishes.auto_fix, wishes.optimize)
    examination = examine(source, here.context)
    try:
        runnable = refuse_unplannable(examination)
    except InvalidWorkflow:
        _refuse(wishes, [as_client_sees(each, Finding) for each in examination.findings])
    plan = make_plan(runnable, here.context.catalog, here.context.workers, here.model, here.rates)
    needs = plan.analysis.needs
    cost = cost_of(needs.seconds, here.likely_device, needs.video_memory, here.rates)
    fits = fleet_report(runnable, here.context)
    return as_client_sees(plan_body(plan, fits, examination.findings, cost), Plan)


def _refuse(wishes: CheckWishes, findings: Sequence[Finding]) -> NoReturn:
    show_findings(findings)
    explain_and_exit(f"{wishes.file} cannot run, so there is nothing to plan.", FAILED)


def _ask_server(wishes: CheckWishes) -> Plan:
    workflow, parameters = workflow_for_server(wishes), wishes.parameters()

    async def ask() -> Plan:
        async with ComfyrailClient(wishes.server or "") as client:
            return await client.plan(
                workflow, parameters, auto_fix=wishes.auto_fix, optimize=wishes.optimize
            )

    try:
        return call_server(ask(), explains_refusal=False)
    except RequestFailed as error:
        if not error.findings:
            explain_and_exit(str(error), WRONG_USE)
        _refuse(wishes, [msgspec.convert(dict(each), Finding) for each in error.findings])


def _show(file: Path, plan: Plan) -> None:
    memory = plan.resources
    memory_said = [
        f"{memory.video_memory / GIGABYTE:.1f} GB video",
        f"{memory.memory / GIGABYTE:.1f} GB main",
        f"{memory.disk / GIGABYTE:.2f} GB disk",
    ]
    steps = f"{plan.nodes} nodes in {len(plan.levels)} steps, up to {plan.width} side by side"
    rows = [
        ("Workflow", f"{file}, {steps}"),
        ("Signature", plan.signature),
        ("Duration", _duration(plan.duration)),
        ("Cost", f"${plan.cost:.4f}"),
        ("Memory", ", ".join(memory_said)),
    ]
    for name, value in rows:
        say(Text(f"{name:<10}"), value)
    for model in plan.models:
        size = f"{model.size / GIGABYTE:.1f} GB" + ("" if model.size_known else ", a guess")
        say(Text(f"{'Model':<10}"), f"{model.folder}/{model.name} ({size})")
    _show_slowest(plan)
    _show_workers(plan.workers)
    show_findings(plan.findings)
    show_fits(plan.workers)


def _show_slowest(plan: Plan) -> None:
    if plan.duration.source == "heuristic":
        return  # a guess by node would contradict the rule of thumb
    slowest = sorted(plan.node_seconds.items(), key=lambda item: -item[1])[:SLOWEST_SHOWN]
    shown = ", ".join(f"{node} {seconds:.2f} s" for node, seconds in slowest if seconds > 0)
    if shown:
        say(Text(f"{'Slowest':<10}"), f"{shown} where nothing is cached")


def _show_workers(workers: Sequence[WorkerPlan]) -> None:
    if not workers:
        return
    out.print()
    table = new_table("Worker", "Device", "Can run", "Duration", "Cost", "Warm", "To load")
    for worker in workers:
        loads = f"{len(worker.loads)} ({worker.load_seconds:.1f} s)" if worker.loads else ""
        add_row(
            table,
            worker.worker_id,
            worker.device or "",
            Text("yes", "green") if worker.can_run else Text("no", "red"),
            f"{worker.duration.seconds:.2f} s",
            f"${worker.cost:.4f}",
            ", ".join(line(name) for name in worker.warm_models),
            loads,
        )
    print_table(table)


def _duration(duration: PlannedDuration) -> str:
    if duration.source == "heuristic":
        return f"{duration.seconds:.0f} s by rule of thumb: too few similar runs so far"
    error = "" if duration.median_error is None else f", usually {duration.median_error:.0%} off"
    return (
        f"{duration.seconds:.2f} s, mostly {duration.low:.2f} to {duration.high:.2f} "
        f"(from {duration.similar} similar runs{error})"
    )
