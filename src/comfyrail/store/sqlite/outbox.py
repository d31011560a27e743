"""Writes down what is to be told in the transaction in which it happens.

Nobody pays for webhooks that nobody has: who listens is known in memory, and a job says itself
whether it has somebody of its own to tell.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from comfyrail.ids import JobId, OutputId, TenantId, new_uuid
from comfyrail.jobs.delivery_schedule import UPLOAD_SECONDS, delays_of_job, patience
from comfyrail.jobs.events import EventType, NewEvent
from comfyrail.jobs.job import NewJob, Output
from comfyrail.jobs.output_config import UploadTarget, read_output_config
from comfyrail.jobs.webhooks import DEFAULT_RETRIES, DEFAULT_RETRY_DELAY_SECONDS
from comfyrail.store.feed import OPERATOR
from comfyrail.store.notifications import (
    ALL_EVENTS,
    LOUD_EVENTS,
    UPLOAD,
    Endpoint,
    UploadOrder,
    settings_of_job,
    upload_address,
)
from comfyrail.store.signals import DELIVERIES, tenant_topic
from comfyrail.store.sqlite.notification_rows import endpoint_values, read_endpoint
from comfyrail.store.sqlite.rows import encode, read_output

if TYPE_CHECKING:
    from comfyrail.store.sqlite.writer import Transaction

OWN_WEBHOOK = 1
OWN_UPLOADS = 2
MOST_PENDING = 1_000_000
"""What waits for a tenant: more is not written down. A batch of 10,000 jobs, of which 50 webhooks
are told when they are queued and when they end.
"""
MOST_PENDING_BESIDE_DEAD = 100_000
"""What waits for a tenant when one that has failed for long is told nothing more: it must not use
up what is there for those that work.
"""
DEAD_AFTER_MILLISECONDS = 3_600_000
"""One that has failed for so long, with no success, may come back but is not reckoned with."""
FLEET_PERMISSIONS = frozenset({"fleet:read", "*"})
"""One of them has whoever may be told of workers and the server."""
TOO_MUCH_WAITS = f"{MOST_PENDING:,} messages wait already."
UPLOAD_DELAYS = delays_of_job(DEFAULT_RETRIES, DEFAULT_RETRY_DELAY_SECONDS)
UPLOAD_PATIENCE_MILLISECONDS = round(patience(UPLOAD_DELAYS, UPLOAD_SECONDS) * 1000)

_decode_names = msgspec.json.Decoder(frozenset[str]).decode


@dataclass(frozen=True, slots=True)
class Listener:
    """An endpoint of an account, as far as it matters whether it is told."""

    endpoint_id: str
    tenant: TenantId
    events: frozenset[str]
    workflows: frozenset[str]
    surfaces: frozenset[str]
    made_by: str | None = None

    def wants(self, event_type: EventType, job: "JobMark | None") -> bool:
        if job is not None and not self._wants_job(job):
            return False
        if self.events:
            return event_type in self.events or (ALL_EVENTS in self.events and job is not None)
        return event_type not in LOUD_EVENTS

    def _wants_job(self, job: "JobMark") -> bool:
        if self.surfaces and job.surface not in self.surfaces:
            return False
        if not self.workflows:
            return True
        name = job.workflow_id or ""
        return name in self.workflows or name.partition("@")[0] in self.workflows


@dataclass(frozen=True, slots=True)
class JobMark:
    """What decides who is told of a job's events."""

    id: JobId
    number: int
    workflow_id: str | None
    surface: str
    tells: int


@dataclass(slots=True)
class Listeners:
    """The enabled endpoints of accounts, in memory.

    Read by the thread that writes, replaced from the event loop: what is here is never changed. It
    may name one that is gone or disabled by now: `insert_delivery` looks again.
    """

    by_tenant: Mapping[TenantId, tuple[Listener, ...]] = field(default_factory=dict)
    of_operator: Mapping[str, tuple[Listener, ...]] = field(default_factory=dict)
    """Those that name an event of workers or of the server, by that."""

    def replace_all(self, endpoints: Iterable[Endpoint]) -> None:
        found: dict[TenantId, list[Listener]] = defaultdict(list)
        for endpoint in endpoints:
            if endpoint.is_enabled:
                found[endpoint.tenant].append(_listener(endpoint))
        self._set({tenant: tuple(listeners) for tenant, listeners in found.items()})

    def put(self, endpoint: Endpoint) -> None:
        others = self._without(endpoint.tenant, endpoint.id)
        added = (_listener(endpoint),) if endpoint.is_enabled else ()
        self._set({**self.by_tenant, endpoint.tenant: (*others, *added)})

    def drop(self, tenant: TenantId, endpoint_id: str) -> None:
        self._set({**self.by_tenant, tenant: self._without(tenant, endpoint_id)})

    def _without(self, tenant: TenantId, endpoint_id: str) -> tuple[Listener, ...]:
        known = self.by_tenant.get(tenant, ())
        return tuple(each for each in known if each.endpoint_id != endpoint_id)

    def _set(self, by_tenant: dict[TenantId, tuple[Listener, ...]]) -> None:
        self.by_tenant = {tenant: found for tenant, found in by_tenant.items() if found}
        of_operator: dict[str, list[Listener]] = defaultdict(list)
        for listeners in self.by_tenant.values():
            for listener in listeners:
                for event in listener.events:
                    if event != ALL_EVENTS and not EventType(event).is_of_a_job:
                        of_operator[event].append(listener)
        self.of_operator = {event: tuple(found) for event, found in of_operator.items()}


def _listener(endpoint: Endpoint) -> Listener:
    return Listener(
        endpoint.id,
        endpoint.tenant,
        frozenset(endpoint.settings.events),
        frozenset(endpoint.settings.workflows),
        frozenset(endpoint.settings.surfaces),
        endpoint.made_by,
    )


def tells_of(job: NewJob) -> int:
    own = OWN_WEBHOOK if job.webhook is not None else 0
    return own | (OWN_UPLOADS if job.output_config.uploads else 0)


def own_endpoint_id(job_id: JobId) -> str:
    return f"job_{job_id}"


def keep_own_webhook(tx: "Transaction", job: NewJob) -> None:
    """The endpoint that a job brings with it."""
    if job.webhook is None:
        return
    endpoint = Endpoint(
        id=own_endpoint_id(job.id),
        tenant=job.tenant,
        url=job.webhook.url,
        settings=settings_of_job(job.webhook),
        created_at=tx.now,
        changed_at=tx.now,
        job_id=job.id,
        secret=job.webhook.secret,
    )
    tx.run("insert_endpoint", **endpoint_values(endpoint))


def tell(tx: "Transaction", tenant: TenantId, event: NewEvent, job: JobMark | None) -> None:
    """Called right after the event was written: its row is the last one."""
    listeners = tx.listeners.by_tenant.get(tenant, ())
    if tenant == OPERATOR:
        found = tx.listeners.of_operator.get(event.type, ())
        listeners = tuple(each for each in found if _may_look_at_fleet(tx, each))
    tells = 0 if job is None else job.tells
    if not listeners and not tells:
        return
    row = tx.one("last_row")
    sequence = None if row is None else row["sequence"]
    for listener in listeners:
        if listener.wants(event.type, job):
            _add(tx, listener.endpoint_id, event.type, sequence, job)
    if job is not None and tells & OWN_WEBHOOK:
        _tell_own(tx, event.type, sequence, job)
    if job is not None and tells & OWN_UPLOADS and event.type is EventType.COMPLETED:
        _order_uploads(tx, tenant, job)
    tx.notify(DELIVERIES)


def write_notice(
    tx: "Transaction", tenant: TenantId, event_type: EventType, data: Mapping[str, Any]
) -> None:
    """An event that is of no job."""
    event = NewEvent(event_type, data)
    tx.run(
        "insert_event",
        tenant=tenant,
        job_id=None,
        number=None,
        type=event.type,
        at=tx.now,
        data=encode(event.data),
    )
    tx.notify(tenant_topic(tenant))
    tell(tx, tenant, event, None)


def _may_look_at_fleet(tx: "Transaction", listener: Listener) -> bool:
    """Whether its maker still may; one whom the table of users never had may."""
    if listener.made_by is None:
        return True
    row = tx.one("get_user", user_id=listener.made_by)
    if row is None or row["is_disabled"] or row["tenant"] != listener.tenant:
        return False
    return not FLEET_PERMISSIONS.isdisjoint(_decode_names(row["permissions"]))


def _add(
    tx: "Transaction",
    endpoint_id: str,
    event_type: EventType,
    sequence: int | None,
    job: JobMark | None,
) -> None:
    added = tx.one(
        "insert_delivery",
        id=new_message_id(),
        endpoint_id=endpoint_id,
        job_id=job.id if job else None,
        event_sequence=sequence,
        number=job.number if job else None,
        type=event_type,
        now=tx.now,
        most=MOST_PENDING,
        most_beside_dead=MOST_PENDING_BESIDE_DEAD,
        dead_since=tx.now - DEAD_AFTER_MILLISECONDS,
    )
    if added is None:
        tx.run("note_dropped", endpoint_id=endpoint_id)


def _tell_own(tx: "Transaction", event_type: EventType, sequence: int | None, job: JobMark) -> None:
    row = tx.one("get_endpoint_of_job", job_id=job.id)
    if row is None or event_type not in read_endpoint(row).settings.events:
        return
    _add(tx, row["id"], event_type, sequence, job)
    if event_type.is_final:
        tx.run("set_webhook_delivered", job_id=job.id, is_delivered=False)


def _order_uploads(tx: "Transaction", tenant: TenantId, job: JobMark) -> None:
    wishes = tx.one("get_wishes", job_id=job.id)
    targets = read_output_config(wishes["output_config"]).uploads if wishes else []
    outputs = [read_output(row) for row in tx.all("list_outputs", job_id=job.id)]
    waiting = tx.one("pending_of_tenant", tenant=tenant)
    is_full = waiting is not None and waiting["pending"] >= MOST_PENDING
    for target in targets:
        output = _wanted(target, outputs)
        error = TOO_MUCH_WAITS if is_full else None if output else _no_such_output(target)
        tx.run(
            "insert_upload",
            id=new_message_id(),
            tenant=tenant,
            address=upload_address(tenant, target.url),
            job_id=job.id,
            number=job.number,
            type=UPLOAD,
            target=encode(_order(target, output)),
            state="pending" if error is None else "dead",
            error=error,
            now=tx.now,
            expires_at=tx.now + UPLOAD_PATIENCE_MILLISECONDS,
        )


def _wanted(target: UploadTarget, outputs: Iterable[Output]) -> Output | None:
    meant = [each for each in outputs if target.node_id in (None, each.file.node_id)]
    return meant[target.index] if target.index < len(meant) else None


def _order(target: UploadTarget, output: Output | None) -> UploadOrder:
    return UploadOrder(
        url=target.url,
        method=target.method,
        headers=target.headers,
        output_id=output.file.id if output else OutputId(""),
        filename=output.file.filename if output else "",
        content_type=output.file.content_type if output else "",
        size=output.file.size if output else 0,
        blob_key=output.file.blob_key if output else "",
    )


def _no_such_output(target: UploadTarget) -> str:
    where = "" if target.node_id is None else f" of node {target.node_id}"
    return f"The job made no output with the index {target.index}{where}."


def new_message_id() -> str:
    return f"msg_{new_uuid()}"
