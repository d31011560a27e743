"""From the names of files in a workflow to the files that are meant: the caller's own.

A name may be that of an asset (the newest of it), an asset's id, the name that a job's graph has
for one (`uploads/<hash>/<name>`), `<job id>/<name> [output]` for what an earlier job made, or
`<name> [temp]` for what was uploaded into that folder of ComfyUI's.
Anywhere in a graph `{"__type": "core/ASSET", "info": {"id": …}}` stands for an asset.

The files of the input folder itself, and of workers, belong to whoever runs the server: they are
for its local user alone. See `local_files`.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.errors import AssetNotFound
from comfyrail.ids import AssetId, JobId, TenantId
from comfyrail.jobs.job import JobInput, Output
from comfyrail.store.assets import Asset
from comfyrail.usecases.asset_names import INPUT, canonical_name, folder_of, read_canonical
from comfyrail.usecases.local_files import absent_file, files_in
from comfyrail.validation.findings import Finding
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.file_inputs import FileInput, file_inputs
from comfyrail.workflow.graph import Node, Workflow, is_link
from comfyrail.workflow.nearest import Suggestions, shown

ASSET_TYPE = "core/ASSET"
MOST_FILES = 1000
DEEPEST = 50

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MARKED = re.compile(r"(.+?) ?\[(input|output|temp)\]")


class AssetFinder(Protocol):
    """The side of the store that is needed here."""

    async def get_asset(self, tenant: TenantId, asset_id: AssetId) -> Asset: ...

    async def find_asset_by_name(self, tenant: TenantId, name: str) -> Asset | None: ...

    async def find_assets_by_content(self, tenant: TenantId, start: str) -> Sequence[Asset]: ...

    async def find_output_by_content(
        self, tenant: TenantId, start: str, filename: str
    ) -> Output | None: ...

    async def find_named_output(
        self,
        tenant: TenantId,
        job_id: JobId,
        filename: str,
        subfolder: str | None = None,
        *,
        is_temporary: bool = False,
    ) -> Output | None: ...


@dataclass(frozen=True, slots=True)
class AssetReference:
    """A typed reference somewhere in an input; `asset_id` is None where it has no id."""

    node_id: str
    input: str
    asset_id: str | None


@dataclass(frozen=True, slots=True)
class References:
    """What in a workflow stands for files."""

    files: Sequence[FileInput] = ()
    assets: Sequence[AssetReference] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.assets)


@dataclass(frozen=True, slots=True)
class Bound:
    """The workflow with the names that its files have for workers, and what it needs of them."""

    workflow: Workflow
    findings: Sequence[Finding] = ()
    inputs: tuple[JobInput, ...] = ()


@dataclass(slots=True)
class _Binding:
    """What has been found so far."""

    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    inputs: dict[str, JobInput] = field(default_factory=dict)

    def set(self, node_id: str, name: str, found: JobInput) -> None:
        self.changes.setdefault(node_id, {})[name] = found.name
        self.inputs[found.name] = found


def find_references(workflow: Workflow, catalog: NodeCatalog) -> References:
    """Nothing for most workflows, at nearly no cost."""
    nodes = ((node.id, node.class_type, node.inputs) for node in workflow.nodes.values())
    return References(tuple(file_inputs(nodes, catalog)), tuple(_asset_references(workflow)))


class FileBinder:
    def __init__(self, store: AssetFinder, input_folder: Path | None = None) -> None:
        """`input_folder`: whose files the local user may name too."""
        self._store = store
        self._input_folder = input_folder

    async def bind(self, principal: Principal, workflow: Workflow, references: References) -> Bound:
        """Every fault is a finding; nothing is written."""
        binding = _Binding()
        is_owner = principal.tenant == LOCAL_USER.tenant
        known = _Known(self._store, principal.tenant)
        typed = {(each.node_id, each.input) for each in references.assets}
        unknown: list[FileInput] = []
        await self._bind_typed(known, workflow, references.assets, binding)
        for each in references.files[:MOST_FILES]:
            if (each.node_id, each.input) in typed:
                continue
            found = await known.by_text(each.value) if isinstance(each.value, str) else None
            if found is not None and not each.is_folder:
                binding.set(each.node_id, each.input, found)
            elif is_owner:
                unknown.append(each)
            elif _names_something(each.value):
                binding.findings.append(_missing_file(each, workflow.nodes[each.node_id]))
        if unknown:
            binding.findings += await self._absent(workflow, unknown)
        if len(references.files) > MOST_FILES:
            binding.findings.append(_too_many(len(references.files)))
        if binding.changes:
            workflow = workflow.with_inputs(binding.changes)
        return Bound(workflow, binding.findings, tuple(binding.inputs.values()))

    async def _absent(self, workflow: Workflow, files: Sequence[FileInput]) -> list[Finding]:
        """What the local user has named and nobody has."""
        present: frozenset[str] = frozenset()
        if self._input_folder is not None:
            names = [each.value for each in files if isinstance(each.value, str)]
            present = await asyncio.to_thread(files_in, self._input_folder, names)
        near = Suggestions()
        found = (absent_file(each, workflow.nodes[each.node_id], present, near) for each in files)
        return [each for each in found if each is not None]

    async def _bind_typed(
        self,
        known: "_Known",
        workflow: Workflow,
        references: Sequence[AssetReference],
        binding: _Binding,
    ) -> None:
        names: dict[str, str] = {}
        for each in references[:MOST_FILES]:
            found = None if each.asset_id is None else await known.by_id(each.asset_id)
            if found is None:
                binding.findings.append(_missing_asset(each))
            elif each.asset_id is not None:
                names[each.asset_id] = found.name
                binding.inputs[found.name] = found
        for node_id, name in {(each.node_id, each.input) for each in references}:
            value = workflow.nodes[node_id].inputs[name]
            binding.changes.setdefault(node_id, {})[name] = _replaced(value, names)


class _Known:
    """What a tenant's names mean, each looked up once."""

    def __init__(self, store: AssetFinder, tenant: TenantId) -> None:
        self._store = store
        self._tenant = tenant
        self._found: dict[str, JobInput | None] = {}

    async def by_text(self, text: str) -> JobInput | None:
        if text not in self._found:
            self._found[text] = await self._look_up(text)
        return self._found[text]

    async def by_id(self, asset_id: str) -> JobInput | None:
        try:
            return _input_of(await self._store.get_asset(self._tenant, AssetId(asset_id)))
        except AssetNotFound:
            return None

    async def _look_up(self, text: str) -> JobInput | None:
        marked = _MARKED.fullmatch(text)
        name, folder = (marked[1], marked[2]) if marked else (text, INPUT)
        if folder != INPUT:
            uploaded = await self._store.find_asset_by_name(self._tenant, folder_of(folder) + name)
            if uploaded is not None:
                return _input_of(uploaded)
            return await self._output(name, is_temporary=folder == "temp")
        canonical = read_canonical(name)
        if canonical is not None:
            return await self._by_content(*canonical)
        if _ID.fullmatch(name):
            found = await self.by_id(name)
            if found is not None:
                return found
        asset = await self._store.find_asset_by_name(self._tenant, name)
        return None if asset is None else _input_of(asset)

    async def _by_content(self, start: str, basename: str) -> JobInput | None:
        """One of the tenant's assets or outputs with these bytes; one of this name first."""
        assets = await self._store.find_assets_by_content(self._tenant, start)
        if assets:
            named = (each for each in assets if _basename(each.name) == basename)
            return _input_of(next(named, assets[0]))
        output = await self._store.find_output_by_content(self._tenant, start, basename)
        return None if output is None else _input_of_output(output)

    async def _output(self, name: str, *, is_temporary: bool) -> JobInput | None:
        job_id, _, rest = name.partition("/")
        subfolder, _, filename = rest.rpartition("/")
        if not filename or not _ID.fullmatch(job_id):
            return None
        output = await self._store.find_named_output(
            self._tenant,
            JobId(job_id),
            filename,
            subfolder or None,
            is_temporary=is_temporary,
        )
        return None if output is None else _input_of_output(output)


def _names_something(value: Any) -> bool:
    return is_link(value) or (isinstance(value, str) and value != "")


def _input_of(asset: Asset) -> JobInput:
    return JobInput(canonical_name(asset.sha256, asset.name), asset.blob_key, asset.id)


def _input_of_output(output: Output) -> JobInput:
    file = output.file
    name = canonical_name(file.sha256, file.filename)
    return JobInput(name, file.blob_key, output=(output.job_id, file.id))


def _basename(name: str) -> str:
    return name.rpartition("/")[2]


def _asset_references(workflow: Workflow) -> Iterator[AssetReference]:
    for node in workflow.nodes.values():
        for name, value in node.inputs.items():
            kind = type(value)
            if kind is dict or (kind is list and not _is_plain_link(value)):
                for asset_id in _typed_in(value):
                    yield AssetReference(node.id, name, asset_id)


def _is_plain_link(value: list[Any]) -> bool:
    """As nearly all lists are: it has nothing in it."""
    return len(value) == 2 and type(value[0]) is str and type(value[1]) is int


def _typed_in(value: Any) -> Iterator[str | None]:
    waiting = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if depth > DEEPEST:
            continue
        if isinstance(each, dict):
            if each.get("__type") == ASSET_TYPE:
                yield _id_in(each)
            else:
                waiting += [(inner, depth + 1) for inner in each.values()]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]


def _id_in(reference: Mapping[str, Any]) -> str | None:
    info = reference.get("info")
    asset_id = info.get("id") if isinstance(info, Mapping) else None
    return asset_id if isinstance(asset_id, str) and _ID.fullmatch(asset_id) else None


def _replaced(value: Any, names: Mapping[str, str], depth: int = 0) -> Any:
    if depth > DEEPEST:
        return value
    if isinstance(value, dict):
        if value.get("__type") == ASSET_TYPE:
            return names.get(_id_in(value) or "", value)
        return {key: _replaced(inner, names, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, names, depth + 1) for inner in value]
    return value


def _missing_asset(reference: AssetReference) -> Finding:
    given = "has no id" if reference.asset_id is None else f"{reference.asset_id} is not there"
    return Finding(
        "semantic",
        "error",
        "MISSING_ASSET",
        f"Node '{reference.node_id}', input '{reference.input}': the asset {given}. Upload the "
        "file with POST /v1/uploads and use the asset_id of the reply.",
        node_id=reference.node_id,
        path=f"{reference.node_id}.inputs.{reference.input}",
        details={"input": reference.input, "asset_id": reference.asset_id},
    )


def _missing_file(file: FileInput, node: Node) -> Finding:
    if is_link(file.value):
        text = "the file's name is made by another node as it runs. Write it into the workflow."
    elif file.is_folder:
        text = f"the folder {shown(file.value)} is not yours. Upload files, and load them singly."
    else:
        text = f"you have no file {shown(file.value)}. Upload it with POST /v1/uploads."
    return Finding(
        "semantic",
        "error",
        "MISSING_INPUT_FILE",
        f"Node '{node.id}' ({node.class_type}), input '{file.input}': {text}",
        node_id=node.id,
        path=f"{node.id}.inputs.{file.input}",
        details={"input": file.input, "value": shown(file.value)},
    )


def _too_many(count: int) -> Finding:
    return Finding(
        "semantic",
        "error",
        "LIMIT_EXCEEDED",
        f"The workflow names {count} files; {MOST_FILES} at most.",
        details={"limit": "files", "allowed": MOST_FILES, "actual": count},
    )
