"""What `comfyrail workers` and `comfyrail queue` do."""

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import yaml
from rich.text import Text

from comfyrail.cli.exits import WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.tables import add_row, ago, coloured, new_table, print_table
from comfyrail.cli.terminal import out, plain, say
from comfyrail.client import ComfyrailClient, FleetFigures, Pool, QueueReport, Worker
from comfyrail.client.fleet import Breaker

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class AddRequest:
    url: str | None
    driver: str | None
    settings: tuple[str, ...]
    config: Path | None
    name: str | None
    labels: tuple[str, ...]


def show_workers(server: str) -> None:
    async def ask(client: ComfyrailClient) -> tuple[list[Worker], FleetFigures]:
        return await client.fleet.workers(), await client.fleet.figures()

    workers, figures = _with_client(server, ask)
    table = new_table(
        "Worker", "Status", "Driver", "Pool", "Address", "Device", "Load", "Node types", "Running"
    )
    troubles = []
    for worker in workers:
        add_row(
            table,
            worker.worker_id,
            _status(worker),
            worker.driver,
            worker.pool or "",
            worker.endpoint or "",
            worker.device or "",
            f"{worker.load:.0%}",
            str(worker.node_types),
            "\n".join(worker.current_jobs),
        )
        if worker.error:
            troubles.append(f"{worker.worker_id}: {worker.error}")
    print_table(table)
    say(
        f"{figures.total} workers: {figures.idle} idle, {figures.running} running, "
        f"{figures.starting} starting, {figures.failed} failed; "
        f"{figures.utilization:.0%} busy in the last minute."
    )
    troubles += [_trouble_of(pool) for pool in figures.pools if pool.error]
    for trouble in troubles:
        out.print(Text(plain(trouble), "yellow"), soft_wrap=True)


def show_worker(server: str, worker_id: str) -> None:
    worker = _with_client(server, lambda client: client.fleet.worker(worker_id))
    say(f"{worker.worker_id} is", _status(worker).append(f", by {worker.driver}."))
    for name, value in (
        ("Pool", worker.pool),
        ("Address", worker.endpoint),
        ("Device", worker.device),
        ("Labels", ", ".join(f"{key}={text}" for key, text in worker.labels.items())),
        ("Node types", str(worker.node_types)),
        ("Models in memory", ", ".join(worker.cached_models)),
        ("Running", ", ".join(worker.current_jobs)),
    ):
        if value:
            say(f"{name}: {value}")
    _print_trouble(worker)
    _print_breakers(worker.breakers)


def _print_trouble(worker: Worker) -> None:
    if not worker.error:
        return
    out.print(Text(plain(worker.error), "yellow"), soft_wrap=True)
    if worker.error_detail is not None and worker.error_detail.suggested_action:
        say(f"What to do: {worker.error_detail.suggested_action}")


def _print_breakers(breakers: list[Breaker]) -> None:
    table = new_table("Fails", "Breaker", "Failures", "Next try", "Why")
    failing = [each for each in breakers if each.failures or each.state != "closed"]
    for each in failing:
        add_row(
            table,
            "all jobs" if each.model is None else f"model {each.model}",
            each.state.replace("_", " "),
            str(each.failures),
            "" if each.until is None else f"in {_seconds_until(each.until)} s",
            each.cause or "",
        )
    if failing:
        print_table(table)


def _trouble_of(pool: Pool) -> str:
    text = f"pool {pool.pool}: {pool.error}"
    if pool.rests_until is None:
        return text
    return f"{text} Tried again in {_seconds_until(pool.rests_until)} s."


def _seconds_until(moment: datetime) -> int:
    return max(0, round((moment - datetime.now(UTC)).total_seconds()))


def add_worker(server: str, request: AddRequest) -> None:
    if (request.url is None) == (request.driver is None):
        explain_and_exit("Give either the URL of a running worker, or a --driver.", WRONG_USE)
    config = _read_config(request)
    if request.url is not None and config:
        explain_and_exit("--set and --config are for a --driver, not for a URL.", WRONG_USE)
    labels = dict(_pair(text, "--label") for text in request.labels)

    async def ask(client: ComfyrailClient) -> Worker:
        return await client.fleet.add(
            request.url,
            driver=request.driver,
            config=config or None,
            name=request.name,
            labels=labels or None,
        )

    worker = _with_client(server, ask)
    where = worker.endpoint or request.url or f"a worker by {worker.driver}"
    say(f"Added {where} as {worker.worker_id}.")


def change_worker(server: str, worker_id: str, change: str) -> None:
    async def ask(client: ComfyrailClient) -> Worker:
        calls = {
            "drain": client.fleet.drain,
            "cordon": client.fleet.cordon,
            "resume": client.fleet.resume,
        }
        return await calls[change](worker_id)

    worker = _with_client(server, ask)
    running = len(worker.current_jobs)
    doing = f", {running} running" if running else ""
    say(f"{worker.worker_id} is", _status(worker).append(f"{doing}."))


def remove_worker(server: str, worker_id: str) -> None:
    _with_client(server, lambda client: client.fleet.remove(worker_id))
    say(f"Removed {worker_id}.")


def show_logs(server: str, worker_id: str, lines: int) -> None:
    text = _with_client(server, lambda client: client.fleet.logs(worker_id, lines))
    out.print(Text(plain(text)), soft_wrap=True)


def show_queue(server: str) -> None:
    _print_queue(_with_client(server, lambda client: client.queue.report()))


def pause_queue(server: str, reason: str | None) -> None:
    _print_queue(_with_client(server, lambda client: client.queue.pause(reason)))


def resume_queue(server: str) -> None:
    _print_queue(_with_client(server, lambda client: client.queue.resume()))


def _print_queue(report: QueueReport) -> None:
    if report.paused and report.paused_at is not None:
        why = f": {report.reason}" if report.reason else ""
        out.print(
            Text(plain(f"Paused {ago(report.paused_at)}{why}. No job starts."), "yellow"),
            soft_wrap=True,
        )
    say(
        f"{report.queued} queued ({report.scheduled} of them for later), "
        f"{report.processing} processing."
    )
    table = new_table(
        "Class", "Target", "Queued", "Work", "Started", "Too late", "Wait p50", "Wait p95"
    )
    for each in report.classes:
        add_row(
            table,
            each.queue_class,
            f"{each.target_seconds:g} s",
            str(each.queued),
            f"{each.expected_seconds:.0f} s",
            str(each.started),
            str(each.targets_missed),
            _seconds(each.wait_p50),
            _seconds(each.wait_p95),
        )
    print_table(table)


def _with_client(
    server: str, ask: Callable[[ComfyrailClient], Coroutine[Any, Any, Result]]
) -> Result:
    async def call() -> Result:
        async with ComfyrailClient(server) as client:
            return await ask(client)

    return call_server(call())


def _status(worker: Worker) -> Text:
    text = coloured(worker.status)
    if worker.health == "blocked":
        text.append(" (blocked)", "red")
    return text.append(" (cordoned)", "yellow") if worker.cordoned else text


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _read_config(request: AddRequest) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.config is not None:
        try:
            given = yaml.safe_load(request.config.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            explain_and_exit(f"{request.config} cannot be read: {error}", WRONG_USE)
        if not isinstance(given, dict):
            explain_and_exit(f"{request.config} is no table of settings.", WRONG_USE)
        config.update(given)
    for text in request.settings:
        name, value = _pair(text, "--set")
        config[name] = _value(value)
    return config


def _pair(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        explain_and_exit(f"Write it like {option} NAME=VALUE, not {text!r}.", WRONG_USE)
    return name.strip(), value


def _value(text: str) -> Any:
    """JSON where it is JSON: a number, true, a list; else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
