"""The fleet as if it were one ComfyUI: its node types, models and devices."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.errors import WorkerError, WorkerProtocolError
from comfyrail.fleet.comfyui.decoding import decode_reply
from comfyrail.fleet.fleet import Fleet
from comfyrail.fleet.view import WorkerView
from comfyrail.store.interface import Store
from comfyrail.usecases.assets import Assets
from comfyrail.workflow.catalog import COMBO, UPLOAD_FLAGS, NodeCatalog, NodeType

log = structlog.get_logger(__name__)

SECTIONS = ("required", "optional")
CANONICAL = "uploads/"
"""Where the server itself keeps the files of jobs in the input folder."""

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Described:
    """All node types at one moment: as JSON, but for those that offer uploaded files."""

    catalog: NodeCatalog
    fingerprint: str
    encoded: Mapping[str, bytes]
    uploading: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """`tag` changes with the content."""

    content: bytes
    tag: str


class ComfyuiFleet:
    def __init__(self, fleet: Fleet, store: Store, assets: Assets) -> None:
        self._fleet = fleet
        self._store = store
        self._assets = assets
        self._described: Described | None = None
        self._describing = asyncio.Lock()

    @property
    def catalog(self) -> NodeCatalog:
        return self._fleet.catalog

    def workers(self) -> Sequence[WorkerView]:
        return self._fleet.views()

    async def object_info(self, principal: Principal, name: str | None = None) -> ObjectInfo:
        """Of all node types, or of one. Where a node takes an uploaded file it offers the caller's
        own: what others have on the workers is not the caller's business.
        """
        described = await self._describe()
        may_see = principal.may(Permission.ASSETS_READ)
        names = await self._assets.names(principal) if may_see else ()
        if name is not None:
            entry = described.uploading.get(name)
            one = described.encoded.get(name, b"") if entry is None else b""
            if entry is not None:
                one = encode(_with_files(entry, names, principal))
            return ObjectInfo(b"{%b:%b}" % (encode(name), one) if one else b"{}", "")
        digest = hashlib.sha256(f"{described.fingerprint} {principal.is_limited}".encode())
        digest.update(encode(list(names)))
        return ObjectInfo(joined(described, names, principal), digest.hexdigest()[:32])

    async def models(self) -> Mapping[str, Mapping[str, int | None]]:
        """All models of all workers: sizes by folder and name."""
        found: dict[str, dict[str, int | None]] = {}
        for worker in self._fleet.capabilities:
            for folder, names in worker.models.items():
                there = found.setdefault(folder, {})
                for name, size in names.items():
                    there[name] = there.get(name) or size
        return found

    async def free(self) -> None:
        """Ask every worker to let go of models and results in its memory."""
        await asyncio.gather(*(self._free(worker.id) for worker in self._fleet.views()))

    async def _free(self, worker_id: Any) -> None:
        connection = self._fleet.find(worker_id).life.connection
        if connection is None or not connection.is_open:
            return
        try:
            await connection.client.free()
        except WorkerError as error:
            log.warning("memory_not_freed", worker_id=worker_id, error=error.message)

    async def _describe(self) -> Described:
        """Made anew only when some worker has other nodes than before."""
        async with self._describing:
            catalog = self._fleet.catalog
            if self._described is None or self._described.catalog is not catalog:
                contents = await self._store.list_catalogs()
                uses = Counter(
                    worker.catalog_fingerprint for worker in await self._store.list_workers()
                )
                order = sorted(contents, key=lambda key: (-uses[key], key))
                self._described = await asyncio.to_thread(
                    merge, catalog, [contents[key] for key in order]
                )
            return self._described


def merge(catalog: NodeCatalog, contents: Sequence[bytes]) -> Described:
    """All node types of all catalogs, the most common catalog first."""
    versions: dict[str, list[dict[str, Any]]] = {}
    for content in contents:
        for name, entry in _read(content):
            versions.setdefault(name, []).append(entry)
    encoded: dict[str, bytes] = {}
    uploading: dict[str, Mapping[str, Any]] = {}
    for name, node_type in catalog.types.items():
        known = versions.get(name)
        if known is None:
            continue
        entry = _merged_entry(known, node_type)
        if any(port.takes_upload for port in node_type.inputs.values()):
            uploading[name] = entry
        else:
            encoded[name] = encode(entry)
    digest = hashlib.sha256()
    for name, text in encoded.items():
        digest.update(name.encode() + text)
    digest.update(encode(uploading))
    return Described(catalog, digest.hexdigest(), encoded, uploading)


def _read(content: bytes) -> Iterable[tuple[str, dict[str, Any]]]:
    try:
        raw = decode_reply(content)
    except WorkerProtocolError:
        return
    for name, entry in raw.items() if isinstance(raw, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("input"), dict | None):
            yield name, entry


def _merged_entry(versions: Sequence[dict[str, Any]], node_type: NodeType) -> dict[str, Any]:
    """The most common description, with the inputs and the choices that others have."""
    first, *others = versions
    if not others:
        return first
    sections = {name: dict(_section(first, name)) for name in SECTIONS}
    known = {port for section in sections.values() for port in section}
    for other in others:
        for name in SECTIONS:
            for port, spec in _section(other, name).items():
                if port not in known:
                    known.add(port)
                    sections["optional"][port] = spec
    for section in sections.values():
        for port, spec in section.items():
            merged = node_type.inputs.get(port)
            if merged is not None and merged.choices is not None:
                section[port] = _with_choices(spec, list(merged.choices))
    return {**first, "input": {**(first.get("input") or {}), **sections}}


def _section(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = (entry.get("input") or {}).get(name)
    return section if isinstance(section, dict) else {}


def _with_choices(spec: Any, choices: list[Any]) -> Any:
    """In whichever of its two forms a choice is described."""
    if not isinstance(spec, list) or not spec:
        return spec
    kind, *rest = spec
    if isinstance(kind, list):
        return [choices, *rest]
    if kind == COMBO and rest and isinstance(rest[0], dict) and "options" in rest[0]:
        return [kind, {**rest[0], "options": choices}, *rest[1:]]
    return spec


def _with_files(
    entry: Mapping[str, Any], names: Sequence[str], principal: Principal
) -> dict[str, Any]:
    sections = {
        name: {
            port: _with_choices(spec, _files(spec, names, principal)) if _uploads(spec) else spec
            for port, spec in _section(entry, name).items()
        }
        for name in SECTIONS
        if _section(entry, name)
    }
    return {**entry, "input": {**(entry.get("input") or {}), **sections}}


def _files(spec: list[Any], names: Sequence[str], principal: Principal) -> list[Any]:
    """The caller's uploads; for the single user of a server also what lies in the input folder."""
    if principal.is_limited:
        return list(names)
    options = spec[1] if isinstance(spec[1], dict) else {}
    there = spec[0] if isinstance(spec[0], list) else options.get("options")
    others = [
        each
        for each in (there if isinstance(there, list) else [])
        if isinstance(each, str) and not each.startswith(CANONICAL)
    ]
    return list(dict.fromkeys([*names, *others]))


def _uploads(spec: Any) -> bool:
    return (
        isinstance(spec, list)
        and len(spec) > 1
        and isinstance(spec[1], dict)
        and any(spec[1].get(flag) for flag in UPLOAD_FLAGS)
    )


def joined(described: Described, names: Sequence[str], principal: Principal) -> bytes:
    """As one JSON object."""
    parts = [b"%b:%b" % (encode(name), text) for name, text in described.encoded.items()]
    parts += [
        b"%b:%b" % (encode(name), encode(_with_files(entry, names, principal)))
        for name, entry in described.uploading.items()
    ]
    return b"{%b}" % b",".join(parts)
