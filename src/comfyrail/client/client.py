"""An asynchronous client of API v1."""

import io
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

from comfyrail.client.access import Access
from comfyrail.client.batches import Batches
from comfyrail.client.checks import (
    Converted,
    Fix,
    NodePage,
    NodeSummary,
    NodeType,
    Plan,
    ValidationReport,
)
from comfyrail.client.errors import (
    InvalidAddress,
    InvalidRequest,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)
from comfyrail.client.event_stream import read_events
from comfyrail.client.fleet import Fleet, Queue
from comfyrail.client.following import follow
from comfyrail.client.forms import ExecutionForm, Form
from comfyrail.client.library import Library
from comfyrail.client.outputs import Output, Outputs
from comfyrail.client.paths import query, quoted
from comfyrail.client.uploads import Uploads
from comfyrail.client.webhooks import Webhooks

DEFAULT_SERVER = "http://127.0.0.1:8080"
SERVER_VARIABLE = "COMFYRAIL_SERVER"
KEY_VARIABLE = "COMFYRAIL_API_KEY"
PATIENCE_SECONDS = 30.0
CALL_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=5)
STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=60)
DOWNLOAD_CHUNK = 1 << 18
LARGE_BODY = 1 << 20
GATEWAY_STATUSES = {502, 503, 504}

Reply = TypeVar("Reply")


class Result(msgspec.Struct):
    outputs: list[Output]


class ExecutionFailure(msgspec.Struct):
    category: str
    code: str
    message: str
    details: dict[str, Any]


class AttemptOfJob(msgspec.Struct):
    """One try of a job. `cause`: why it was lost; `error`: how it failed; `recovery`: how it was
    tried again after that.
    """

    attempt: int
    worker_id: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    cause: str | None
    error: ExecutionFailure | None
    recovery: str | None
    retry_delay: float | None


class Cover(msgspec.Struct):
    """A file of a job, and where a small version of it is."""

    output_id: str
    content_type: str
    kind: str
    url: str
    thumbnail: str | None


class Execution(msgspec.Struct):
    execution_id: str
    status: str
    priority: int
    submitted_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    queue_position: int | None
    progress: float
    current_node: str | None
    completed_nodes: int
    total_nodes: int
    attempts: int
    worker_id: str | None
    result: Result | None
    error: ExecutionFailure | None
    estimated_duration: float | None = None
    estimated_cost: float | None = None
    cost: float | None = None
    reason: str | None = None
    effective_priority: float = 5.0
    queue_class: str = "medium"
    predicted_wait: float | None = None
    waiting_for: str | None = None
    """Why a queued job does not start, where that is not merely its turn."""
    not_before: datetime | None = None
    batch_id: str | None = None
    retries: int = 0
    max_retries: int = 3
    retry_at: datetime | None = None
    """When a job that has failed is tried again."""
    attempt_history: list[AttemptOfJob] | None = None
    title: str | None = None
    """The name of its workflow in the library."""
    workflow_id: str | None = None
    preview: int | None = None
    """How many previews its attempt has brought so far."""
    cover: Cover | None = None
    """The file that shows best what it has made, where a list was asked for it."""
    outputs: int | None = None
    """How many files it has, in the same lists."""

    @property
    def is_final(self) -> bool:
        return self.status in {"completed", "failed", "cancelled"}


class Event(msgspec.Struct):
    execution_id: str
    number: int
    type: str
    timestamp: datetime
    data: dict[str, Any]


class NodeResult(msgspec.Struct):
    """How one node of a job went."""

    node_id: str
    class_type: str | None
    status: str
    started_at: datetime | None
    duration: float | None
    cached: bool
    error_type: str | None
    error_message: str | None


class LogLine(msgspec.Struct):
    """What happened to a job, in words."""

    number: int
    timestamp: datetime
    level: str
    event: str
    message: str


class Submitted(msgspec.Struct):
    """`fixes` is what was mended, where that was asked for."""

    execution_id: str
    estimated_duration: float | None = None
    queue_position: int | None = None
    predicted_wait: float | None = None
    fixes: list[Fix] = []


class _ExecutionList(msgspec.Struct):
    executions: list[Execution]


class _OutputList(msgspec.Struct):
    outputs: list[Output]


class _Log(msgspec.Struct):
    lines: list[LogLine]
    next_after: int | None


class FeedEvent(msgspec.Struct, kw_only=True):
    """An event among all of one's. What is of no execution is of workers or of the server. The
    beginning of a stream has only an `id`.
    """

    id: int
    execution_id: str | None = None
    number: int | None = None
    type: str = ""
    timestamp: datetime | None = None
    workflow_id: str | None = None
    batch_id: str | None = None
    data: dict[str, Any] = {}


class _NodeResults(msgspec.Struct):
    nodes: list[NodeResult]


class ComfyrailClient:
    """Use as `async with ComfyrailClient() as client`.

    `patience` is for how many seconds a broken event stream is taken up again; `library` has the
    calls to the server's library of workflows, `fleet` those to its workers, `queue` those to its
    queue, `access` those about users and keys, `all_outputs` those about what jobs have made,
    `webhooks` those about whom they tell.

    `api_key` is an API key or a token. Without a server or a key the client takes COMFYRAIL_SERVER
    and COMFYRAIL_API_KEY of the environment.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        api_key: str | None = None,
        patience: float | None = None,
    ) -> None:
        if server is None:
            server = os.environ.get(SERVER_VARIABLE, "").strip() or DEFAULT_SERVER
        self.server = server if server.endswith("://") else server.rstrip("/")
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._api_key = (os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key).strip()
        self._http: aiohttp.ClientSession | None = None
        self.library = Library(self._ask, self._call)
        self.fleet = Fleet(self._ask, self._call)
        self.queue = Queue(self._ask)
        self.batches = Batches(self._ask)
        self.uploads = Uploads(self._ask, self._call)
        self.access = Access(self._ask, self._call)
        self.all_outputs = Outputs(self._ask, self._call)
        self.webhooks = Webhooks(self._ask, self._call)

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def execute(
        self,
        workflow: Mapping[str, Any] | str,
        input_params: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Submit a workflow; returns the execution's id.

        A text is the name of a workflow in the library, `name` or `name@version`. Options:
        auto_fix, optimize, priority, queue_class, timeout, queue_timeout, max_retries,
        not_before, labels, execution_config, output_config, callback_url, webhook_config.
        """
        return (await self.submit(workflow, input_params, **options)).execution_id

    async def submit(
        self,
        workflow: Mapping[str, Any] | str,
        input_params: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> Submitted:
        """As `execute`, with the whole reply.

        `idempotency_key`: the same request under the same key is done once, however often it is
        sent.
        """
        body = _check_body(workflow, input_params, **options)
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
        return await self._ask("POST", "/v1/workflows/execute", Submitted, body, headers=headers)

    async def validate(
        self,
        workflow: Mapping[str, Any] | str,
        input_params: Mapping[str, Any] | None = None,
        *,
        auto_fix: bool = False,
        optimize: bool = False,
    ) -> ValidationReport:
        """Check a workflow, or one of the library by its name, without running it."""
        body = _check_body(workflow, input_params, auto_fix=auto_fix, optimize=optimize)
        return await self._ask("POST", "/v1/workflows/validate", ValidationReport, body)

    async def plan(
        self,
        workflow: Mapping[str, Any] | str,
        input_params: Mapping[str, Any] | None = None,
        *,
        auto_fix: bool = False,
        optimize: bool = False,
    ) -> Plan:
        """What a workflow would need, take and cost. Raises RequestFailed where it cannot run."""
        body = _check_body(workflow, input_params, auto_fix=auto_fix, optimize=optimize)
        return await self._ask("POST", "/v1/workflows/plan", Plan, body)

    async def convert(
        self, content: bytes, to: str = "api", content_type: str = "application/json"
    ) -> Converted:
        """Convert a workflow to `api` or `editor` format: JSON, or a picture that holds one."""
        headers = {"Content-Type": content_type}
        path = f"/v1/workflows/convert?to={quoted(to)}"
        return await self._ask("POST", path, Converted, content, headers=headers)

    async def form(self, content: bytes, content_type: str = "application/json") -> Form:
        """What can be set in a workflow: JSON in either format, or a picture that holds one."""
        headers = {"Content-Type": content_type}
        return await self._ask("POST", "/v1/workflows/form", Form, content, headers=headers)

    async def execution_form(self, execution_id: str) -> ExecutionForm:
        """The same of the graph that a job runs or ran, to run it again with other values."""
        path = f"/v2/workflows/executions/{quoted(execution_id)}/workflow"
        return await self._ask("GET", path, ExecutionForm)

    async def nodes(self, search: str = "") -> list[NodeSummary]:
        """The node types of all workers whose name, title or category has the text in it."""
        found: list[NodeSummary] = []
        cursor: str | None = ""
        while cursor is not None:
            after = f"&cursor={quoted(cursor)}" if cursor else ""
            path = f"/v1/nodes?search={quoted(search)}{after}"
            page = await self._ask("GET", path, NodePage)
            found += page.nodes
            cursor = page.next_cursor
        return found

    async def node(self, name: str) -> NodeType:
        return await self._ask("GET", f"/v1/nodes/{quoted(name)}", NodeType)

    async def execution(self, execution_id: str) -> Execution:
        return await self._ask("GET", _execution_path(execution_id), Execution)

    async def executions(
        self,
        status: str | None = None,
        limit: int = 50,
        *,
        text: str | None = None,
        workflow_id: str | None = None,
        cover: bool = False,
    ) -> list[Execution]:
        """The newest executions first: all of them, or those that a text finds or that run a
        workflow of the library; with `cover` each with the file that shows best what it has made.
        """
        filters = {"status": status, "text": text, "workflow_id": workflow_id}
        wanted = "".join(f"&{name}={quoted(value)}" for name, value in filters.items() if value)
        path = f"/v1/workflows/executions?limit={limit}{wanted}{'&cover=true' if cover else ''}"
        return (await self._ask("GET", path, _ExecutionList)).executions

    async def preview(self, execution_id: str) -> bytes | None:
        """The newest picture of what is being sampled; None where there is none now."""
        async with self._call("GET", _execution_path(execution_id, "/preview")) as response:
            return await response.read() or None

    async def cancel(self, execution_id: str) -> Execution:
        return await self._ask("POST", _execution_path(execution_id, "/cancel"), Execution)

    async def retry(
        self, execution_id: str, *, idempotency_key: str | None = None, **changes: Any
    ) -> Submitted:
        """Run an ended job once more, as a new one. Changes: priority, timeout, max_retries."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
        path = _execution_path(execution_id, "/retry")
        return await self._ask("POST", path, Submitted, changes, headers=headers)

    async def logs(self, execution_id: str) -> AsyncIterator[LogLine]:
        """What has happened to a job so far."""
        after: int | None = 0
        while after is not None:
            path = _execution_path(execution_id, f"/logs?after={after}")
            page = await self._ask("GET", path, _Log)
            for line in page.lines:
                yield line
            after = page.next_after

    async def change_priority(self, execution_id: str, priority: int) -> Execution:
        """Give a queued job another priority."""
        body = {"priority": priority}
        return await self._ask("PATCH", _execution_path(execution_id), Execution, body)

    async def node_results(self, execution_id: str) -> list[NodeResult]:
        """How each node of a job goes or went."""
        path = _execution_path(execution_id, "/nodes")
        return (await self._ask("GET", path, _NodeResults)).nodes

    async def outputs(self, execution_id: str) -> list[Output]:
        path = _execution_path(execution_id, "/outputs")
        return (await self._ask("GET", path, _OutputList)).outputs

    async def events(self, execution_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Events until the final one; reconnects by itself and goes on where it was.

        Raises ServerUnreachable when the line stays broken for longer than the patience.
        """
        path = _execution_path(execution_id, "/events")
        async for event in self._follow(path, after, Event, lambda each: each.number):
            yield event

    async def all_events(
        self, after: int | None = None, **filters: str | Sequence[str] | None
    ) -> AsyncIterator[FeedEvent]:
        """The events of all one's executions, for ever; from now on, or behind the id of one.

        Filters: types, execution_id, workflow_id, batch_id, surface. It reconnects as `events`
        does.
        """
        path = f"/v1/events/stream{query(**filters)}"
        async for event in self._follow(
            path, after, FeedEvent, lambda each: each.id, is_patient_at_first=False
        ):
            yield event

    async def _follow(
        self,
        path: str,
        after: int | None,
        kind: type[Reply],
        number_of: Callable[[Reply], int],
        *,
        is_patient_at_first: bool = True,
    ) -> AsyncIterator[Reply]:
        broken = ServerUnreachable(f"No answer from {self.server}: the event stream ends too early")
        async for item in follow(
            lambda position: self._stream(path, position),
            lambda data: self._decode(data, kind),
            number_of,
            after,
            self._patience,
            broken,
            is_patient_at_first=is_patient_at_first,
        ):
            yield item

    async def download(self, output: Output) -> AsyncIterator[bytes]:
        if not output.url.startswith("/"):
            raise self._unexpected("it keeps its results elsewhere")
        left = output.size
        async with self._call("GET", output.url, timeout=STREAM_TIMEOUT) as response:
            async for chunk in response.content.iter_chunked(DOWNLOAD_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise self._unexpected("a result is larger than it said")
                yield chunk
        if left > 0:
            raise self._unexpected("a result is smaller than it said")

    async def check_alive(self) -> None:
        """Raise ServerUnreachable when nothing answers, UnexpectedReply when another does."""
        async with self._call("GET", "/health"):
            return

    async def is_ready(self) -> bool:
        """Whether a job would run now; False also while nothing answers."""
        return await self.why_not_ready() is None

    async def why_not_ready(self) -> str | None:
        """What is in the way of a job, as the server says it; None when nothing is."""
        try:
            async with self._call("GET", "/ready"):
                return None
        except (ServerUnreachable, UnexpectedReply, RequestFailed) as error:
            return str(error)

    async def _stream(self, path: str, after: int | None) -> AsyncIterator[tuple[str, str]]:
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        async with self._call("GET", path, headers=headers, timeout=STREAM_TIMEOUT) as response:
            if response.content_type != "text/event-stream":
                raise self._unexpected(f"{response.content_type} came for a job's events")
            try:
                async for item in read_events(response.content):
                    yield item
            except ValueError as error:
                raise self._unexpected(str(error)) from error

    async def _ask(
        self,
        method: str,
        path: str,
        kind: type[Reply],
        body: Mapping[str, Any] | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        async with self._call(method, path, body, headers=headers) as response:
            return self._decode(await response.read(), kind)

    def _decode(self, content: str | bytes, kind: type[Reply]) -> Reply:
        try:
            return msgspec.json.decode(content, type=kind)
        except (ValueError, RecursionError) as error:
            raise self._unexpected(str(error)) from error

    def _unexpected(self, why: str) -> UnexpectedReply:
        return UnexpectedReply(f"{self.server} does not answer like a Comfyrail server: {why}")

    @asynccontextmanager
    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = CALL_TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._http is None:
            raise RuntimeError("Use the client as an asynchronous context manager.")
        sent = {**self._credentials(), **(headers or {})}
        data: bytes | io.BytesIO | None = None
        if isinstance(body, bytes):
            # As a file a large one is sent in pieces: other things go on meanwhile.
            data = io.BytesIO(body) if len(body) > LARGE_BODY else body
        elif body is not None:
            data = _encode(body)
            sent["Content-Type"] = "application/json"
        url = self._url(path)
        try:
            async with self._http.request(
                method, url, data=data, headers=sent, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise self._refusal(response.status, await response.read())
                yield response
        except (aiohttp.InvalidURL, UnicodeError) as error:
            raise _invalid_address(self.server) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ServerUnreachable(f"No answer from {self.server}: {_why(error)}") from error

    def _credentials(self) -> dict[str, str]:
        if not self._api_key:
            return {}
        if not (self._api_key.isascii() and self._api_key.isprintable()):
            raise InvalidRequest("The API key has characters that no key has. Copy it once more")
        return {"Authorization": f"Bearer {self._api_key}"}

    def _url(self, path: str) -> URL:
        """As it stands: what is quoted stays quoted, and no `..` walks to another route."""
        try:
            base = URL(self.server)
            url = URL(str(base).rstrip("/") + path, encoded=True)
        except ValueError as error:
            raise _invalid_address(self.server) from error
        if base.scheme not in {"http", "https"} or not base.host or base.query_string:
            raise _invalid_address(self.server)
        return url

    def _refusal(self, status: int, content: bytes) -> Exception:
        error = _error_of(content)
        if error is not None:
            return RequestFailed(status, error)
        if status in GATEWAY_STATUSES:
            return ServerUnreachable(f"No answer from {self.server}: a gateway says {status}")
        return self._unexpected(f"it says {status}")


def _check_body(
    workflow: Mapping[str, Any] | str, input_params: Mapping[str, Any] | None, **options: Any
) -> dict[str, Any]:
    which = "workflow_id" if isinstance(workflow, str) else "workflow"
    return {which: workflow, "input_params": dict(input_params or {}), **options}


def _execution_path(execution_id: str, below: str = "") -> str:
    return f"/v1/workflows/execution/{quoted(execution_id)}{below}"


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidRequest(f"The request cannot be written as JSON: {error}") from error


def _invalid_address(server: str) -> InvalidAddress:
    return InvalidAddress(f"{server!r} is no address of a server, such as {DEFAULT_SERVER}")


def _why(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.strerror or "no connection"
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else "line broke")


def _error_of(content: bytes) -> dict[str, Any] | None:
    """The error in a reply; None when it has none in the shape that Comfyrail gives it."""
    try:
        error = msgspec.json.decode(content)["error"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return error if isinstance(error, dict) else None
