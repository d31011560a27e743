"""Keeps what workers remember of one tenant's graphs from the others.

A worker reuses the result of a node when the same node comes again, whoever sends it: a file that
was saved for one tenant, with the whole graph written into it, would be given to another. An input
that a node does not know is passed over by the node and counts when results are compared, on
ComfyUI and on Comfyrail's engine alike. Nodes that load models are not marked: what they load is
nobody's, and is to stay warm for all.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from comfyrail.ids import TenantId
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import is_link

MARK = "comfyrail_tenant"
UNMARKED = TenantId("local")
"""The single user of a server with access off: nothing is to be kept from anybody."""
LETTERS = 16

Prompt = Mapping[str, Any]


def mark_prompt(
    prompt: Prompt,
    tenant: TenantId,
    catalog: NodeCatalog,
    names_models: Callable[[str], Collection[str]],
) -> Prompt:
    """The graph with the tenant's mark in every node whose result could tell something about its
    owner: those that save, that begin a graph, or that are given a text. What somebody has written
    there is taken away. `names_models` says which models a node names, by its id.
    """
    mark = None if tenant == UNMARKED else hashlib.sha256(tenant.encode()).hexdigest()[:LETTERS]
    changed: dict[str, Any] = {}
    for node_id, node in prompt.items():
        inputs = node.get("inputs") if isinstance(node, Mapping) else None
        if not isinstance(inputs, Mapping):
            continue
        wanted = {name: value for name, value in inputs.items() if name != MARK}
        is_owned = mark is not None and _tells_something(node, wanted, catalog)
        if is_owned and not names_models(node_id):
            wanted[MARK] = mark
        if wanted != inputs:
            changed[node_id] = {**node, "inputs": wanted}
    return {**prompt, **changed} if changed else prompt


def _tells_something(node: Prompt, inputs: Prompt, catalog: NodeCatalog) -> bool:
    if not any(is_link(value) for value in inputs.values()):
        return True
    class_type = node.get("class_type")
    node_type = catalog.get(class_type) if isinstance(class_type, str) else None
    if node_type is None or node_type.is_output:
        return True
    return any(
        isinstance(inputs.get(name), str) and port.type == "STRING"
        for name, port in node_type.inputs.items()
    )
