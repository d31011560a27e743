"""Names of node types as others get them: few, short, and of characters that can be sent."""

import re

from comfyrail.engine.registry import NodeRegistry

OTHER = "other"
LONGEST_LABEL = 200
MOST_LABELS = 5000

# Control characters, whatever some program takes for the end of a line, marks that turn the
# direction of writing, halves of characters, and what XML does not allow.
_UNSENDABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff]"
)


def clean_label(text: str) -> str:
    """The text in one line of valid Unicode, cut where it is very long."""
    return _UNSENDABLE.sub("\N{REPLACEMENT CHARACTER}", text[:LONGEST_LABEL])


class NodeTypeLabels:
    """The label of each node type; `other` for one that the registry does not have."""

    def __init__(self, registry: NodeRegistry) -> None:
        self._registry = registry
        self._labels: dict[str, str] = {}

    def of(self, node_type: str) -> str:
        label = self._labels.get(node_type)
        if label is not None:
            return label
        # What is unknown is not remembered, so that nothing grows with it.
        if node_type not in self._registry or len(self._labels) >= MOST_LABELS:
            return OTHER
        label = self._labels[node_type] = clean_label(node_type)
        return label
