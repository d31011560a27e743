"""Texts that reach an input through links: they mean what that input means.

A node that gives a text (a primitive, a join of two) does nothing with its own: what is written
there is a path if it becomes a file's name at the end, and a prompt if it becomes one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from comfyrail.validation.meanings import JUDGED_AT_THE_END, UNKNOWN_TYPE, InputMeanings, Meaning
from comfyrail.workflow.graph import Edge, Node


@dataclass(frozen=True, slots=True)
class Judged:
    """A text of a node, with what it means at the end. `whole`: it arrives as it is."""

    node: Node
    input: str
    text: str
    meaning: Meaning
    whole: bool


def texts_that_reach(
    seeds: Iterable[tuple[Edge, Meaning]],
    nodes: Mapping[str, Node],
    meanings: Mapping[str, InputMeanings | None],
) -> list[Judged]:
    """All texts that flow into the links `seeds`, each of which has a meaning. Linear."""
    found: list[Judged] = []
    waiting = [(edge.source, meaning) for edge, meaning in seeds]
    seen: set[tuple[str, Meaning]] = set()
    while waiting:
        node_id, meaning = waiting.pop()
        node = nodes.get(node_id)
        if node is None or (node_id, meaning) in seen:
            continue
        seen.add((node_id, meaning))
        known = meanings.get(node.class_type) or UNKNOWN_TYPE
        if not known.passes_text:
            continue
        waiting.extend((edge.source, meaning) for edge in node.edges())
        texts = texts_passed_on(node, known)
        whole = passes_one_text(node, known)
        found.extend(Judged(node, name, text, meaning, whole) for name, text in texts)
    return found


def texts_passed_on(node: Node, known: InputMeanings) -> list[tuple[str, str]]:
    """The literals of a node that its text may be made of."""
    return [
        (name, value)
        for name, value in node.inputs.items()
        if type(value) is str and known.of(name) not in JUDGED_AT_THE_END | {None}
    ]


def passes_one_text(node: Node, known: InputMeanings) -> bool:
    """Whether a node's text is surely the one that is written in it, as a primitive's is."""
    return len(node.inputs) == 1 and len(texts_passed_on(node, known)) == 1
