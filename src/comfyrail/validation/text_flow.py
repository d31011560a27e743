"""Texts that reach an input through links: they mean what that input means.

A node that gives a text (a primitive, a join of two) may do nothing with its own: what is written
there is a path if it becomes a file's name at the end, and a prompt if it becomes one. Where the
nodes on the way only pass texts on or join them, what arrives is known exactly. Where one of them
makes a text as it runs, only the parts are known that go into it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from comfyrail.validation.meanings import (
    JUDGED_AT_THE_END,
    InputMeanings,
    Meaning,
    is_prompt,
    meanings_of,
)
from comfyrail.workflow.graph import Edge, Node, is_link

LONGEST_JOINED = 100_000
MOST_JOINED = 2_000_000
"""Characters of one join, and of all that a workflow has."""
MOST_ALTERNATIVES = 16
"""Of which one arrives. Where there may be more, nobody looks through all of them."""

_JOINED_INPUTS: Mapping[str, tuple[str, ...]] = {
    "StringConcatenate": ("string_a", "delimiter", "string_b")
}
_MADE_OF: Mapping[str, tuple[str, ...]] = {
    **_JOINED_INPUTS,
    "StringReplace": ("string", "find", "replace"),
}
"""By node type, the inputs of which it makes its text in a way that is known."""


@dataclass(frozen=True, slots=True)
class Part:
    """A text as it is written in a node."""

    node: Node
    input: str
    text: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A text with what it means, and the written texts that it is made of: one, or those joined.

    `whole`: it arrives as it is; else it is a part of what arrives. `begins`: that may begin so.
    """

    text: str
    meaning: Meaning
    parts: tuple[Part, ...]
    whole: bool = True
    begins: bool = True


@dataclass(frozen=True, slots=True)
class _Arriving:
    text: str
    parts: tuple[Part, ...]


_Texts = Sequence[_Arriving] | None
"""All texts of which one arrives; None where nobody can say."""


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a value, however it is wrapped. The value may be deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting.extend(each.values())
            waiting.extend(key for key in each if key != "__value__")
        elif isinstance(each, list):
            waiting.extend(each)


def link_in(value: Any) -> tuple[str, int] | None:
    """The link that a value is. A worker takes the wrappers off, and finds one in there too."""
    while type(value) is dict and "__value__" in value:
        value = value["__value__"]
    return (value[0], int(value[1])) if type(value) is list and is_link(value) else None


class TextFlow:
    """The texts of one workflow, and where they go."""

    def __init__(
        self, nodes: Mapping[str, Node], prepared: Mapping[str, InputMeanings | None]
    ) -> None:
        self._nodes = nodes
        self._prepared = prepared
        self._meanings: dict[str, InputMeanings] = {}
        self._arriving: dict[str, _Texts] = {}
        self._left = MOST_JOINED
        self.computed_urls: list[Edge] = []
        """Links that were to be followed, and through which a URL comes that nobody has written."""
        self.not_followed: list[Node] = []
        """Nodes whose texts could be known, but are too long or too many to look at."""

    def meanings(self, node: Node) -> InputMeanings:
        """What the node's inputs mean."""
        known = self._prepared[node.class_type]
        if known is not None and known.dynamic is None:
            return known
        if node.id not in self._meanings:
            self._meanings[node.id] = meanings_of(node, self._prepared)
        return self._meanings[node.id]

    def texts_that_reach(self, seeds: Iterable[tuple[Edge, Meaning]]) -> Iterator[Judged]:
        """All texts that flow into the links `seeds`, each of which has a meaning. Linear."""
        seen: set[tuple[str, Meaning, bool]] = set()
        waiting: list[tuple[str, Meaning, bool]] = []
        for edge, meaning in seeds:
            texts = self.arriving_at(edge.source, edge.slot)
            if texts is None:
                waiting.append((edge.source, meaning, True))
                if meaning is Meaning.URL:
                    self.computed_urls.append(edge)
            elif (edge.source, meaning, True) not in seen:
                seen.add((edge.source, meaning, True))
                yield from (Judged(each.text, meaning, each.parts) for each in texts)
        while waiting:
            node_id, meaning, begins = place = waiting.pop()
            if place not in seen:
                seen.add(place)
                found, more = self._parts_of(self._nodes[node_id], meaning, begins=begins)
                yield from found
                waiting.extend(more)

    def _parts_of(
        self, node: Node, meaning: Meaning, *, begins: bool
    ) -> tuple[list[Judged], list[tuple[str, Meaning, bool]]]:
        """What a node makes its text of: texts that are known, and nodes that make theirs."""
        found: list[Judged] = []
        more: list[tuple[str, Meaning, bool]] = []
        known = self.meanings(node)
        later = _JOINED_INPUTS.get(node.class_type, ())[1:]
        for name, value in node.inputs.items():
            if known.only_passes and known.meanings and name not in known.meanings:
                continue
            if meaning is Meaning.PLAIN and is_prompt(name) and not known.only_passes:
                continue
            is_first = begins and name not in later
            link = link_in(value)
            if link is not None:
                texts = self.arriving_at(*link)
                if texts is None:
                    more.append((link[0], meaning, is_first))
                else:
                    found.extend(
                        Judged(each.text, meaning, each.parts, whole=False, begins=is_first)
                        for each in texts
                    )
            elif known.of(name) not in JUDGED_AT_THE_END | {None}:
                found.extend(
                    Judged(text, meaning, (Part(node, name, text),), whole=False, begins=is_first)
                    for text in texts_in(value)
                )
        return found, more

    def arriving_at(self, source: str, slot: int) -> _Texts:
        """The texts of which one comes out of a node; none where it gives no text."""
        node = self._nodes.get(source)
        if node is None or not self.meanings(node).gives_text(slot):
            return ()
        waiting = [source]
        while waiting:
            node = self._nodes[waiting[-1]]
            if node.id in self._arriving:
                waiting.pop()
                continue
            needed = [each for each in self._needed(node) if each not in self._arriving]
            if not needed or len(waiting) > len(self._nodes):
                # Longer than there are nodes: a cycle, out of which nothing comes.
                self._arriving[node.id] = None if needed else self._made_by(node)
                waiting.pop()
            else:
                waiting.append(needed[0])
        return self._arriving[source]

    def _needed(self, node: Node) -> Iterator[str]:
        for name in _MADE_OF.get(node.class_type, self.meanings(node).passed):
            link = link_in(node.inputs.get(name))
            if link is not None and link[0] in self._nodes:
                yield link[0]

    def _made_by(self, node: Node) -> _Texts:
        names = _MADE_OF.get(node.class_type)
        if names is not None:
            written = [self._written(node, name) for name in names]
            known = [texts for texts in written if texts]
            return self._put_together(node, known) if len(known) == len(written) else None
        passed = [self._written(node, name) for name in self.meanings(node).passed]
        found: dict[int, _Arriving] = {}
        for texts in passed:
            if texts is None:
                return None
            found.update((id(each), each) for each in texts)
        if len(found) > MOST_ALTERNATIVES:
            return self._give_up(node)
        return [*found.values()] if passed else None

    def _written(self, node: Node, name: str) -> _Texts:
        value = node.inputs.get(name, "")
        link = link_in(value)
        if link is None:
            texts = texts_in(value) if isinstance(value, str | dict) else (str(value),)
            return [_Arriving(text, (Part(node, name, text),)) for text in texts]
        source = self._nodes.get(link[0])
        if source is None or not self.meanings(source).gives_text(link[1]):
            return ()
        return self._arriving[source.id]

    def _put_together(self, node: Node, places: Sequence[Sequence[_Arriving]]) -> _Texts:
        """What is made of one text of each place, for every way to choose them."""
        if math.prod(map(len, places)) > MOST_ALTERNATIVES:
            return self._give_up(node)
        found: list[_Arriving] = []
        is_join = node.class_type in _JOINED_INPUTS
        for chosen in product(*places):
            texts = [each.text for each in chosen]
            length = sum(map(len, texts)) if is_join else _length_of_replaced(*texts)
            self._left -= length + sum(len(each.parts) for each in chosen)
            if length > LONGEST_JOINED or self._left < 0:
                return self._give_up(node)
            found.append(
                _Arriving(
                    "".join(texts) if is_join else texts[0].replace(texts[1], texts[2]),
                    tuple(part for each in chosen for part in each.parts),
                )
            )
        return found

    def _give_up(self, node: Node) -> _Texts:
        self.not_followed.append(node)
        return None


def _length_of_replaced(text: str, old: str, new: str) -> int:
    """At least: so long is what there is to look at, and what is made of it."""
    return len(text) + text.count(old) * max(0, len(new) - len(old))
