"""Cache keys: a Merkle hash of what a node's result depends on. Values are never hashed."""

import hashlib
import json
import secrets
from typing import Any

from comfyrail.engine.bound_graph import BoundGraph, BoundNode
from comfyrail.engine.folders import Folders

# NaN and numbers of any size have a text here; keys only need to be equal for equal inputs.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode


def compute_keys(graph: BoundGraph, folders: Folders) -> dict[str, str]:
    """The key of every node: class, version, literals, keys of the inputs, fingerprint.

    Node ids are left out, so that the same graph under other ids has the same keys. A node that
    is not cacheable, or whose fingerprint fails, gets a key that is never seen again.
    """
    keys: dict[str, str] = {}
    for node_id, node in graph.nodes.items():
        keys[node_id] = _key_of(node, keys, folders)
    return keys


def _key_of(node: BoundNode, keys: dict[str, str], folders: Folders) -> str:
    definition = node.definition
    described: list[Any] = [
        definition.name,
        definition.version,
        node.literals,
        {name: (keys[link.source], link.slot) for name, link in node.links.items()},
        _what_else_counts(node, folders),
    ]
    if "UNIQUE_ID" in definition.hidden.values():
        described.append(node.id)
    return hashlib.sha256(_encode(described).encode()).hexdigest()


def _what_else_counts(node: BoundNode, folders: Folders) -> object:
    if not node.definition.cacheable:
        return secrets.token_hex(16)
    if node.definition.fingerprint is None:
        return None
    try:
        return node.definition.fingerprint(node.own_literals(), folders)
    except Exception:  # noqa: BLE001 - the node itself will say what is wrong when it runs
        return secrets.token_hex(16)
