"""Where the bars and texts of a picture go, so that none covers another, however many there are."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from comfyrail.engine.monitoring.labels import clean_label
from comfyrail.engine.profiling.node_profile import NodeProfile

NARROWEST = 2.0
"""Bars narrower than this are joined with such neighbours."""
CLOSE = 1.0
WIDEST_CLUSTER = 12.0
LETTER = 6.6
LABEL_ROWS = 4
LABEL_WIDTH = 170.0
MOST_LABELS = 60
PADDING = 5.0
BESIDE = 3.0
"""From a line to the text that it leads to."""
EDGE = 8.0


@dataclass(slots=True)
class Bar:
    """One node's stretch, or several that are too short to be seen apart. In units of the picture,
    from the left end of the time axis.
    """

    began: float
    ended: float
    nodes: list[NodeProfile]

    @property
    def width(self) -> float:
        """As it is drawn: never so narrow that it cannot be seen."""
        return max(self.ended - self.began, NARROWEST)

    @property
    def label(self) -> str:
        node = self.nodes[0]
        if len(self.nodes) == 1:
            return clean_label(f"{node.node_id} {node.node_type}")
        return f"{len(self.nodes)} nodes"

    @property
    def has_label_inside(self) -> bool:
        return text_width(self.label) + 2 * PADDING <= self.width


@dataclass(frozen=True, slots=True)
class Label:
    """A text below its bar: `row` counts down from it, `anchor` is where the line to it starts."""

    text: str
    x: float
    row: int
    anchor: float


@dataclass(slots=True)
class Lane:
    name: str
    bars: list[Bar]
    labels: list[Label] = field(default_factory=list)

    @property
    def label_rows(self) -> int:
        return max((label.row + 1 for label in self.labels), default=0)


@dataclass(frozen=True, slots=True)
class Chip:
    """A node without time: `node` is None for the last one, which says how many more there are."""

    x: float
    row: int
    width: float
    text: str
    node: NodeProfile | None


def text_width(text: str) -> float:
    """About how wide a text of the picture's small letters is."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return LETTER * (len(text) + 0.8 * wide)


def shorten(text: str, width: float) -> str:
    """The text, cut so that it fits."""
    if text_width(text) <= width:
        return text
    kept = ""
    for letter in text:
        if text_width(f"{kept}{letter}…") > width:
            break
        kept += letter
    return f"{kept}…"


def lay_out_lane(name: str, bars: Iterable[Bar], width: float) -> Lane:
    """The bars of one lane, joined where they are too narrow, and the labels that find room."""
    joined: list[Bar] = []
    for bar in sorted(bars, key=lambda each: (each.began, each.ended)):
        last = joined[-1] if joined else None
        if last is not None and _is_joined(last, bar):
            last.ended = max(last.ended, bar.ended)
            last.nodes.extend(bar.nodes)
        else:
            joined.append(bar)
    return Lane(name, joined, _place_labels(joined, width))


def lay_out_chips(nodes: Sequence[NodeProfile], width: float, rows: int) -> list[Chip]:
    """One after the other in a few rows; the last one stands for those without room."""
    chips: list[Chip] = []
    x, row = 0.0, 0
    room_for_rest = text_width("and 1000000 more") + 2 * PADDING
    for index, node in enumerate(nodes):
        text = shorten(clean_label(f"{node.node_id} {node.node_type}"), LABEL_WIDTH)
        wide = text_width(text) + 2 * PADDING
        is_last_row = row == rows - 1
        if x + wide > width - (room_for_rest if is_last_row else 0.0):
            if is_last_row:
                rest = f"and {len(nodes) - index} more"
                return [*chips, Chip(x, row, text_width(rest) + 2 * PADDING, rest, None)]
            x, row = 0.0, row + 1
        chips.append(Chip(x, row, wide, text, node))
        x += wide + PADDING
    return chips


def _is_joined(last: Bar, bar: Bar) -> bool:
    is_narrow = last.ended - last.began < NARROWEST or len(last.nodes) > 1
    return (
        is_narrow
        and bar.ended - bar.began < NARROWEST
        and bar.began - last.ended < CLOSE
        and bar.ended - last.began <= WIDEST_CLUSTER
    )


def _place_labels(bars: Sequence[Bar], width: float) -> list[Label]:
    """Labels of bars that have no room inside, the longest bars first."""
    outside = [bar for bar in bars if not bar.has_label_inside]
    outside.sort(key=lambda bar: bar.began - bar.ended)
    rows = _LabelRows(width)
    labels = [rows.place(bar) for bar in outside[:MOST_LABELS]]
    return [label for label in labels if label is not None]


class _LabelRows:
    """What is taken of the rows below a lane, by texts and by the lines that lead to them."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._taken: list[list[tuple[float, float]]] = [[] for _ in range(LABEL_ROWS)]

    def place(self, bar: Bar) -> Label | None:
        """Where the label of a bar goes; None where there is no room for it."""
        text = shorten(bar.label, LABEL_WIDTH)
        edge = min(bar.width / 2, EDGE)
        for row in range(LABEL_ROWS):
            for anchor in (edge, bar.width / 2, bar.width - edge):
                label = self._try(text, row, bar.began + anchor)
                if label is not None:
                    return label
        return None

    def _try(self, text: str, row: int, anchor: float) -> Label | None:
        wide = text_width(text) + BESIDE
        goes_left = anchor + wide > self._width
        x = anchor - wide if goes_left else anchor + BESIDE
        place = (anchor - wide, anchor) if goes_left else (anchor, anchor + wide)
        line = (anchor - 2.0, anchor + 2.0)
        if not self._is_free(row, place) or not all(self._is_free(r, line) for r in range(row)):
            return None
        self._taken[row].append((place[0] - PADDING, place[1] + PADDING))
        for above in range(row):
            self._taken[above].append(line)
        return Label(text, x, row, anchor)

    def _is_free(self, row: int, place: tuple[float, float]) -> bool:
        return all(place[1] <= start or place[0] >= end for start, end in self._taken[row])
