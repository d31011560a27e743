"""Sizes, colours and texts of the picture: readable on dark and on light pages alike."""

import zlib
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from comfyrail.engine.monitoring.labels import clean_label

WIDTH = 1200.0
LEFT = 110.0
RIGHT = 24.0
PLOT = WIDTH - LEFT - RIGHT
BAR_HEIGHT = 26.0
BASELINE = BAR_HEIGHT / 2 + 4
"""Where a text in the middle of a bar stands, from the bar's upper edge."""

NEUTRAL = "#78818c"
DARK = "#14181d"
RED = "#d9304f"
PAPER = "#eef1f4"
COLOURS = (
    "#7fb0e6",
    "#f2b36b",
    "#86c98b",
    "#d79bd0",
    "#ec9a92",
    "#6fcbcb",
    "#b9a9ec",
    "#d9cd6b",
    "#a9b8c6",
    "#a6cf6e",
    "#f0a8c0",
    "#d3b08c",
)
STYLE = f"""
text {{ font: 11px system-ui, sans-serif; fill: {NEUTRAL}; }}
.title {{ font-size: 16px; font-weight: 600; }}
.inside {{ fill: {DARK}; }}
.grid, .leader {{ stroke: {NEUTRAL}; stroke-opacity: .25; }}
.leader {{ stroke-opacity: .7; }}
.track {{ fill: {NEUTRAL}; fill-opacity: .1; }}
.bar .body {{ stroke: {DARK}; stroke-opacity: .3; stroke-width: .75; }}
.bar .critical {{ fill: {DARK}; fill-opacity: .8; }}
.bar.failed .body {{ stroke: {RED}; stroke-opacity: 1; stroke-width: 3; }}
.bar.interrupted .body {{ stroke-dasharray: 4 3; stroke-opacity: 1; stroke-width: 1.5; }}
""".strip()


class Palette:
    """A colour for each node type: mostly the same one in every picture, and never one for two
    types of a picture before all are in use.
    """

    def __init__(self, node_types: Iterable[str]) -> None:
        """Those that come first choose first."""
        self._colours: dict[str, str] = {}
        for node_type in node_types:
            if node_type not in self._colours:
                self._colours[node_type] = self._choose(node_type)

    def __getitem__(self, node_type: str) -> str:
        return self._colours[node_type]

    def hatching(self, node_type: str) -> str:
        """The name of the pattern for it."""
        return f"hatch-{self[node_type][1:]}"

    def _choose(self, node_type: str) -> str:
        first = zlib.crc32(node_type.encode("utf-8", "replace")) % len(COLOURS)
        order = [*COLOURS[first:], *COLOURS[:first]]
        if len(self._colours) >= len(COLOURS):
            return order[0]
        used = set(self._colours.values())
        return next(colour for colour in order if colour not in used)


def hatchings() -> str:
    """The patterns of all colours."""
    return "<defs>{}</defs>".format("".join(map(_hatching, COLOURS)))


def _hatching(colour: str) -> str:
    return (
        f'<pattern id="hatch-{colour[1:]}" width="8" height="8" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="8" height="8" fill="{PAPER}"/>'
        f'<rect width="4" height="8" fill="{colour}"/></pattern>'
    )


def text(x: float, y: float, shown: str, kind: str = "", anchor: str = "") -> str:
    """An element with a text, escaped."""
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(shown)}</text>'


def attribute(value: str) -> str:
    """A value with its quotes, escaped."""
    return quoteattr(clean_label(value))
