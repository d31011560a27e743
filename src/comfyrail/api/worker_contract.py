"""The bodies of API v1 about workers and pools."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from comfyrail.api.contract import moment, time_of
from comfyrail.errors import MalformedRequest, WorkerError
from comfyrail.fleet.classification import classify_worker_error
from comfyrail.fleet.figures import FleetFigures, PoolFigures, PoolStanding
from comfyrail.fleet.model_breakers import BreakerView
from comfyrail.fleet.view import WorkerView
from comfyrail.usecases.workers import NewWorker


class AddWorkerRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A worker to add: `url` for a running ComfyUI, or any `driver` with its `config`."""

    url: str | None = None
    driver: str | None = None
    config: dict[str, Any] = {}
    name: str | None = None
    labels: dict[str, str] = {}


class BreakerBody(msgspec.Struct, kw_only=True):
    """What keeps jobs away from a worker that fails: all of them (`inference`), or those with one
    `model` that does not load there (`model_loading`). `state` is closed, open or half_open;
    `until`: when the next try is made.
    """

    kind: str
    model: str | None
    state: str
    failures: int
    cause: str | None
    until: datetime | None


class WorkerErrorBody(msgspec.Struct, kw_only=True):
    """What is wrong with a worker, and what to do about it. `retry_after`: seconds until it is
    tried again by itself.
    """

    category: str
    code: str
    message: str
    suggested_action: str | None
    retry_after: float | None


class WorkerBody(msgspec.Struct, kw_only=True):
    """A worker. `health` is ok, failing or blocked; `error` says what is wrong with it."""

    worker_id: str
    driver: str
    pool: str | None
    endpoint: str | None
    status: str
    health: str
    cordoned: bool
    labels: dict[str, str]
    current_jobs: list[str]
    load: float
    cached_models: list[str]
    node_types: int
    device: str | None
    memory_total: int | None
    memory_free: int | None
    added_at: datetime
    last_active_at: datetime | None
    error: str | None
    error_detail: WorkerErrorBody | None
    breakers: list[BreakerBody]


class WorkerList(msgspec.Struct, kw_only=True):
    workers: list[WorkerBody]


class WorkerLogs(msgspec.Struct, kw_only=True):
    worker_id: str
    text: str


class PoolBody(msgspec.Struct, kw_only=True):
    """Workers of a pool. `utilization` over the last minute. `error` says why its last worker did
    not come up, `rests_until` when its driver is tried again.
    """

    pool: str
    driver: str
    minimum: int
    maximum: int
    error: str | None
    rests_until: datetime | None
    total: int
    available: int
    allocated: int
    idle: int
    running: int
    starting: int
    failed: int
    utilization: float


class FleetBody(msgspec.Struct, kw_only=True):
    """All workers together, and each pool."""

    total: int
    available: int
    allocated: int
    idle: int
    running: int
    starting: int
    failed: int
    utilization: float
    pools: list[PoolBody]


def new_worker(body: AddWorkerRequest) -> NewWorker:
    """What the request asks for. A URL alone is a worker that is already running."""
    config = dict(body.config)
    if body.url is not None:
        if body.driver not in {None, "static"} or config:
            raise MalformedRequest(
                "Give either the url of a running worker, or a driver and its config."
            )
        config = {"url": body.url}
    elif body.driver is None:
        raise MalformedRequest("Give the url of a running worker, or a driver and its config.")
    return NewWorker(body.driver or "static", config, body.name, body.labels)


def worker_body(view: WorkerView) -> WorkerBody:
    return WorkerBody(
        worker_id=view.id,
        driver=view.driver,
        pool=view.pool,
        endpoint=view.endpoint,
        status=view.status,
        health=view.health.state,
        cordoned=view.is_cordoned,
        labels=dict(view.labels),
        current_jobs=list(view.current_jobs),
        load=round(view.load, 3),
        cached_models=list(view.warm_models),
        node_types=view.node_types,
        device=view.device,
        memory_total=view.memory_total,
        memory_free=view.memory_free,
        added_at=moment(view.added_at),
        last_active_at=time_of(view.last_active_at),
        error=view.error,
        error_detail=_error_detail(view),
        breakers=[_breaker_body(each) for each in view.health.breakers],
    )


def _error_detail(view: WorkerView) -> WorkerErrorBody | None:
    fault = view.error_detail
    if fault is None:
        if view.error is None:
            return None
        fault = classify_worker_error(WorkerError(view.error)).fault
    return WorkerErrorBody(
        category=fault.category,
        code=fault.code,
        message=fault.message,
        suggested_action=fault.suggested_action,
        retry_after=fault.retry_after,
    )


def _breaker_body(view: BreakerView) -> BreakerBody:
    return BreakerBody(
        kind=view.kind,
        model=view.model,
        state=view.state,
        failures=view.failures,
        cause=view.cause,
        until=time_of(view.until),
    )


def worker_list(views: Sequence[WorkerView]) -> WorkerList:
    return WorkerList(workers=[worker_body(view) for view in views])


def fleet_body(figures: FleetFigures, pools: Mapping[str, PoolStanding]) -> FleetBody:
    bodies = [
        PoolBody(
            pool=name,
            driver=pool.driver,
            minimum=pool.minimum,
            maximum=pool.maximum,
            error=pool.error,
            rests_until=time_of(pool.rests_until),
            **_counts(figures.pools.get(name, PoolFigures())),
        )
        for name, pool in pools.items()
    ]
    return FleetBody(**_counts(figures.overall), pools=bodies)


def _counts(figures: PoolFigures) -> dict[str, Any]:
    return {
        "total": figures.total,
        "available": figures.available,
        "allocated": figures.allocated,
        "idle": figures.idle,
        "running": figures.running,
        "starting": figures.starting,
        "failed": figures.failed,
        "utilization": round(figures.utilization, 4),
    }
