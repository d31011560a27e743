"""A job as ComfyUI's clients read it: in the queue, in the history, in the list of jobs."""

import re
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import HTTPConnection

from comfyrail.access.principal import Principal
from comfyrail.api.comfyui.off_loop import off_loop
from comfyrail.api.comfyui.origin import number_of, read_origin
from comfyrail.api.comfyui.words import ANIMATED, END_OF, SOCKET_SENDER, STATUS_OF
from comfyrail.api.messages import encode
from comfyrail.api.services import services_of
from comfyrail.ids import JobId
from comfyrail.jobs.job import Job, Output
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Submitted
from comfyrail.usecases.comfyui_records import ComfyuiRecords, NodesRun
from comfyrail.workflow.catalog import NodeCatalog

ENTRIES_KEPT_BYTES = 32 << 20
LARGEST_KEPT = 1 << 20
FEW = 4
MANY = 64
LARGE_READ = 1 << 20
TEXT_KINDS = frozenset({"text", "value"})

_NUMBERED = re.compile(r"(.+)_(\d+)")
_decode_prompt = msgspec.json.Decoder(dict[str, Any]).decode
_decode_value = msgspec.json.Decoder().decode

Ui = Mapping[str, Mapping[str, list[Any]]]
"""By node, what it shows: lists by name."""


def entries_of(connection: HTTPConnection) -> "Entries":
    """One for the server."""
    state = connection.app.state
    if not hasattr(state, "comfyui_entries"):
        state.comfyui_entries = Entries(services_of(connection).comfyui.records)
    found: Entries = state.comfyui_entries
    return found


async def read_prompt(submitted: Submitted) -> Mapping[str, Any]:
    return await off_loop(len(submitted.prompt), _decode_prompt, submitted.prompt)


def size_of(submitted: Submitted) -> int:
    return len(submitted.prompt) + len(submitted.extra_data or b"")


def prompt_id_of(job: Job) -> str:
    return job.alias or job.id


class Entries:
    """Makes them. Those of jobs that have ended never change: the last ones are kept."""

    def __init__(self, records: ComfyuiRecords) -> None:
        self._records = records
        self._kept: OrderedDict[JobId, bytes] = OrderedDict()
        self._bytes = 0

    async def history(
        self, principal: Principal, jobs: Sequence[Job], catalog: NodeCatalog
    ) -> AsyncIterator[tuple[str, bytes]]:
        """By prompt id, as JSON, one after the other. All of them are the principal's own, and have
        ended.
        """
        kept = {job.id: self._kept[job.id] for job in jobs if job.id in self._kept}
        missing = [job for job in jobs if job.id not in kept]
        made = self.submitted(principal, missing)
        for job in jobs:
            content = kept.get(job.id)
            if content is None:
                _, submitted = await anext(made)
                if submitted is None:
                    continue
                entry = await self.describe(principal, job, submitted, catalog)
                content = await off_loop(size_of(submitted), encode, entry)
                self._keep(job.id, content)
            yield prompt_id_of(job), content

    async def queue_items(
        self, principal: Principal, jobs: Sequence[Job], catalog: NodeCatalog
    ) -> AsyncIterator[bytes]:
        """As JSON, one after the other."""
        async for job, submitted in self.submitted(principal, jobs):
            if submitted is not None:
                yield await off_loop(size_of(submitted), _encode_item, job, submitted, catalog)

    async def submitted(
        self, principal: Principal, jobs: Sequence[Job]
    ) -> AsyncIterator[tuple[Job, Submitted | None]]:
        """What was submitted for each of the jobs, a few at a time: each may have megabytes. None
        for one that is gone.
        """
        position, count = 0, FEW
        while position < len(jobs):
            some = jobs[position : position + count]
            found = await self._records.submitted(principal, [job.id for job in some])
            position += count
            is_much = sum(map(size_of, found.values())) > LARGE_READ
            count = FEW if is_much else min(count * 2, MANY)
            for job in some:
                yield job, found.get(job.id)

    async def describe(
        self, principal: Principal, job: Job, submitted: Submitted, catalog: NodeCatalog
    ) -> dict[str, Any]:
        """An entry of the history."""
        item = await off_loop(size_of(submitted), queue_item, job, submitted, catalog)
        prompt = item[2]
        ui = await self.ui(submitted.outputs, prompt)
        run = await self._records.nodes_run(principal, job.id)
        messages = list(status_messages(job, run, prompt))
        return {
            "prompt": item,
            "outputs": ui,
            "status": {
                "status_str": "success" if job.state is JobState.COMPLETED else "error",
                "completed": job.state is JobState.COMPLETED,
                "messages": messages,
            },
            "meta": {node: _meta(node) for node in ui},
        }

    async def ui(self, outputs: Sequence[Output], prompt: Mapping[str, Any]) -> Ui:
        """What the nodes show, as their `ui` had it."""
        shown: dict[str, dict[str, list[Any]]] = defaultdict(dict)
        for output in outputs:
            node = output.file.node_id
            if is_socket_picture(output, prompt):
                continue
            if output.file.kind in TEXT_KINDS:
                name, values = await self._text(output)
            else:
                name, values = output.file.kind, [file_body(output)]
            shown[node].setdefault(name, []).extend(values)
            if ANIMATED in _class_of(node, prompt).lower():
                shown[node]["animated"] = [True]
        return shown

    async def _text(self, output: Output) -> tuple[str, list[Any]]:
        content = await self._records.content(output)
        stem = output.file.filename.rpartition(".")[0] or output.file.filename
        numbered = _NUMBERED.fullmatch(stem)
        if output.file.kind == "text":
            name = numbered[1] if numbered and int(numbered[2][:9]) > 1 else stem
            return name, [content.decode("utf-8", "replace")]
        try:
            value = _decode_value(content)
        except msgspec.DecodeError:
            return stem, []
        return stem, value if isinstance(value, list) else [value]

    def _keep(self, job_id: JobId, content: bytes) -> None:
        """For the next request: what this one answers does not depend on it."""
        if len(content) > LARGEST_KEPT:
            return
        self._bytes += len(content) - len(self._kept.pop(job_id, b""))
        self._kept[job_id] = content
        while self._bytes > ENTRIES_KEPT_BYTES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)


def is_socket_picture(output: Output, prompt: Mapping[str, Any]) -> bool:
    """Whether it was sent to a socket: ComfyUI has it nowhere else."""
    return (
        output.file.filename.startswith("picture_")
        and SOCKET_SENDER in _class_of(output.file.node_id, prompt).lower()
    )


def file_body(output: Output) -> dict[str, str]:
    """Under a folder of its job's own: two workers may give their files equal names."""
    file = output.file
    subfolder = f"{output.job_id}/{file.subfolder}" if file.subfolder else output.job_id
    kind = "temp" if file.is_temporary else "output"
    return {"filename": file.filename, "subfolder": subfolder, "type": kind}


def queue_item(job: Job, submitted: Submitted, catalog: NodeCatalog) -> list[Any]:
    """ComfyUI's five: number, id, graph, extra data, ids of the outputs."""
    prompt = _decode_prompt(submitted.prompt)
    extra_data = _decode_prompt(submitted.extra_data or b"{}")
    if job.surface == "comfyui" and job.origin_key is not None:
        extra_data["client_id"] = job.origin_key
    extra_data["create_time"] = job.submitted_at
    origin = read_origin(submitted.origin) if job.surface == "comfyui" else read_origin(None)
    outputs = [
        node
        for node in prompt
        if (known := catalog.get(_class_of(node, prompt))) is not None and known.is_output
    ]
    number = number_of(origin, job.submitted_at)
    return [number, prompt_id_of(job), prompt, extra_data, outputs]


def _encode_item(job: Job, submitted: Submitted, catalog: NodeCatalog) -> bytes:
    return encode(queue_item(job, submitted, catalog))


def status_messages(
    job: Job, run: NodesRun, prompt: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    prompt_id = prompt_id_of(job)
    if job.started_at is not None:
        yield "execution_start", {"prompt_id": prompt_id, "timestamp": job.started_at}
        cached = {"nodes": list(run.cached), "prompt_id": prompt_id, "timestamp": job.started_at}
        yield "execution_cached", cached
    kind = END_OF.get(job.state)
    if kind is not None:
        yield kind, end_data(job, run, prompt)


def end_data(job: Job, run: NodesRun, prompt: Mapping[str, Any]) -> dict[str, Any]:
    """Of the message that ends a prompt."""
    data: dict[str, Any] = {"prompt_id": prompt_id_of(job)}
    if job.state is not JobState.COMPLETED:
        details = job.fault.details if job.fault is not None else {}
        node = str(details.get("node_id") or run.current or "")
        data |= {
            "node_id": node,
            "node_type": str(details.get("node_type") or _class_of(node, prompt)),
            "executed": list(run.executed),
        }
    if job.state is JobState.FAILED:
        data |= _error_data(job)
    return {**data, "timestamp": job.completed_at}


def _error_data(job: Job) -> dict[str, Any]:
    fault = job.fault
    return {
        "exception_message": "" if fault is None else fault.message,
        "exception_type": str(fault.details.get("exception_type") or fault.code) if fault else "",
        "traceback": [],
        "current_inputs": {},
        "current_outputs": [],
    }


def job_body(job: Job, submitted: Submitted, ui: Ui, error: Mapping[str, Any] | None) -> Any:
    """Of the list of jobs."""
    origin = read_origin(submitted.origin) if job.surface == "comfyui" else read_origin(None)
    body: dict[str, Any] = {
        "id": prompt_id_of(job),
        "status": STATUS_OF[job.state],
        "priority": number_of(origin, job.submitted_at),
        "create_time": job.submitted_at,
    }
    if job.started_at is not None:
        body["execution_start_time"] = job.started_at
    if job.completed_at is not None:
        body["execution_end_time"] = job.completed_at
    if error is not None:
        body["execution_error"] = error
    files = list(_files_of(ui))
    body["outputs_count"] = len(files)
    if files:
        body["preview_output"] = files[0]
    if origin.workflow_id is not None:
        body["workflow_id"] = origin.workflow_id
    return body


def _files_of(ui: Ui) -> Iterator[dict[str, Any]]:
    for node, shown in ui.items():
        for kind, items in shown.items():
            for item in items:
                if isinstance(item, dict) and "filename" in item:
                    yield {**item, "nodeId": node, "mediaType": kind}


def _class_of(node: str, prompt: Mapping[str, Any]) -> str:
    entry = prompt.get(node)
    return str(entry.get("class_type") or "") if isinstance(entry, dict) else ""


def _meta(node: str) -> dict[str, str | None]:
    return {"node_id": node, "display_node": node, "parent_node": None, "real_node_id": node}
