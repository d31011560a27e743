"""Analyses on the way of every submission: made once for workflows that differ only in texts.

Most submissions are an earlier workflow with another seed and another text. What an analysis
never looks at is left out of the key that it is remembered by; everything else is in it as it is.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from comfyrail.planning.analysis import Analysis, analyse
from comfyrail.workflow.capabilities import ResourceNeeds
from comfyrail.workflow.catalog import NodeCatalog, NodeType
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.input_costs import COSTLY_NAMES, without_excess

REMEMBERED = 256
LARGEST_REMEMBERED = 100
"""Nodes: longer workflows are rare, and their analyses are large."""

_encode = msgspec.json.Encoder().encode


class Analyst:
    """For one catalog and one set of model sizes. May be used from several threads."""

    def __init__(self, catalog: NodeCatalog, model_sizes: Mapping[str, int]) -> None:
        self._catalog = catalog
        self._model_sizes = model_sizes
        self._known: OrderedDict[bytes, Analysis] = OrderedDict()
        self._guard = threading.Lock()
        self._latest: tuple[Workflow, Analysis] | None = None

    def is_for(self, catalog: NodeCatalog, model_sizes: Mapping[str, int]) -> bool:
        """Whether it was made for these very objects."""
        return catalog is self._catalog and model_sizes is self._model_sizes

    def analyse(self, workflow: Workflow) -> Analysis:
        latest = self._latest
        if latest is None or latest[0] is not workflow:
            latest = self._latest = workflow, self._look_up(workflow)
        return latest[1]

    def needs(self, workflow: Workflow) -> ResourceNeeds:
        return self.analyse(workflow).needs

    def _look_up(self, workflow: Workflow) -> Analysis:
        workflow = without_excess(workflow.expanded(), self._catalog)
        key = self._key(workflow)
        if key is None:
            return analyse(workflow, self._catalog, self._model_sizes)
        with self._guard:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        made = analyse(workflow, self._catalog, self._model_sizes)
        with self._guard:
            self._known[key] = made
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return made

    def _key(self, workflow: Workflow) -> bytes | None:
        """None for what is not worth it, or cannot be written as JSON."""
        if len(workflow.nodes) > LARGEST_REMEMBERED:
            return None
        ignored = self._catalog.prepared(ignored_inputs)
        parts: list[object] = []
        for node in workflow.nodes.values():
            skipped = ignored[node.class_type]
            if skipped is None:
                return None
            parts += (node.id, node.class_type)
            parts += (
                (name, value)
                for name, value in node.inputs.items()
                if name not in skipped or isinstance(value, list)  # a link counts anywhere
            )
        try:
            return _encode(parts)
        except (ValueError, TypeError, OverflowError, RecursionError):
            return None


def ignored_inputs(node_type: NodeType) -> frozenset[str]:
    """Inputs of a type whose literals no analysis looks at: seeds, texts, names of uploads."""
    return frozenset(
        name
        for name, port in node_type.inputs.items()
        if name not in COSTLY_NAMES
        and (
            name.endswith("seed")
            or port.takes_upload
            or (port.type == "STRING" and port.choices is None)
        )
    )
