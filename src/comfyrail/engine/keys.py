"""Cache keys: a Merkle hash of what a node's result depends on. Values are never hashed."""

import hashlib
import inspect
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from comfyrail.engine.definition import NodeInputs
from comfyrail.engine.folders import Folders
from comfyrail.engine.live_graph import BoundNode, LiveGraph

log = structlog.get_logger(__name__)


class _NotPlain(TypeError):
    """A value that has no text which is equal for equal values only."""


def _refuse(value: Any) -> Any:
    raise _NotPlain(type(value).__name__)


# NaN and numbers of any size have a text here; keys only need to be equal for equal inputs.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_refuse).encode


class KeyBook:
    """The keys of the nodes of one execution, made when they are asked for.

    A key is made of class, version, literals, keys of the inputs and fingerprint. Node ids are
    left out, so that the same graph under other ids has the same keys. A node that is not
    cacheable, whose fingerprint fails, or that holds values which are not plain data gets a key
    of this execution's own: it is made with the `nonce`, so that the same execution can go on
    where it ended.
    """

    def __init__(self, graph: LiveGraph, folders: Folders, nonce: str) -> None:
        self._graph = graph
        self._folders = folders
        self._nonce = nonce
        self._keys: dict[str, str] = {}

    def __getitem__(self, node_id: str) -> str:
        return self._keys[node_id]

    def forget(self, node_id: str) -> None:
        """The node has become another."""
        self._keys.pop(node_id, None)

    async def make(self, order: Iterable[str]) -> None:
        """Make the keys of nodes that come after their sources."""
        for node_id in order:
            if node_id not in self._keys:
                self._keys[node_id] = await self._key_of(self._graph[node_id])

    async def _key_of(self, node: BoundNode) -> str:
        definition = node.definition
        described: list[Any] = [
            definition.name,
            definition.version,
            node.literals,
            {name: (self._source_key(link.source), link.slot) for name, link in node.links.items()},
        ]
        if not definition.cacheable:
            described.append(self._unique(node.id))
        elif definition.fingerprint is not None:
            described.append(await self._fingerprint(node))
        if definition.raw_links:
            # What such a node is given names other nodes.
            raw = [name for name in node.links if name in definition.raw_links]
            described.append({name: node.links[name].source for name in raw})
        if definition.keyed_by_id or "UNIQUE_ID" in definition.hidden.values():
            described.append(["id", node.id])
        try:
            text = _encode(described)
        except (TypeError, ValueError, RecursionError):
            text = self._unique(node.id)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _source_key(self, source: str) -> str:
        # A node of a cycle has none yet; the plan will find the cycle.
        return self._keys.get(source) or self._unique(source)

    async def _fingerprint(self, node: BoundNode) -> object:
        make = node.definition.fingerprint
        if make is None:
            return None
        inputs = NodeInputs(node.id, node.own_literals(), dict.fromkeys(node.links), self._folders)
        try:
            value = make(inputs)
            if inspect.isawaitable(value):
                value = await value
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the node will say it itself
            log.debug("fingerprint_failed", node_id=node.id, error=str(error))
            return self._unique(node.id)
        return self._unique(node.id) if _is_never_equal(value) else value

    def _unique(self, node_id: str) -> str:
        return f"{self._nonce}/{node_id}"


def as_text(value: Any) -> str | None:
    """A text that is equal for equal values only, types included; None where there is none."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError):
        return None


def _is_never_equal(value: object) -> bool:
    """NaN is ComfyUI's way to say that a node has always changed."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, list | tuple):
        return any(map(_is_never_equal, value))
    return isinstance(value, Mapping) and any(map(_is_never_equal, value.values()))
