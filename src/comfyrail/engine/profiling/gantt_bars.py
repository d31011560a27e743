"""The lanes of the picture with their bars, and the nodes that did not run."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from comfyrail.engine.monitoring.labels import clean_label
from comfyrail.engine.profiling.amounts import shown_bytes, shown_seconds
from comfyrail.engine.profiling.gantt_layout import PADDING, Bar, Chip, Lane, lay_out_lane
from comfyrail.engine.profiling.gantt_style import (
    BAR_HEIGHT,
    BASELINE,
    LEFT,
    PLOT,
    Palette,
    attribute,
    text,
)
from comfyrail.engine.profiling.node_profile import NodeProfile

if TYPE_CHECKING:
    from comfyrail.engine.profiling.report import ProfileReport

LABEL_HEIGHT = 15.0
LANE_GAP = 12.0
CHIP_GAP = 4.0
PATH_HEIGHT = 3.0
MOST_LANES = 40
MOST_NAMED = 12
"""Nodes that the tooltip of a bar names."""


def lay_out_lanes(report: "ProfileReport") -> list[Lane]:
    scale = PLOT / report.wall_seconds if report.wall_seconds else 0.0
    bars: defaultdict[str, list[Bar]] = defaultdict(list)
    for node in report.nodes:
        for each in node.stretches:
            bars[each.lane].append(Bar(each.began * scale, each.ended * scale, [node]))
    return [lay_out_lane(lane, bars[lane], PLOT) for lane in report.lanes[:MOST_LANES]]


def lane_height(lane: Lane) -> float:
    return BAR_HEIGHT + lane.label_rows * LABEL_HEIGHT + LANE_GAP


def draw_lane(lane: Lane, y: float, palette: Palette) -> Iterator[str]:
    yield text(LEFT - 12, y + BASELINE, lane.name, anchor="end")
    yield f'<rect class="track" x="{LEFT}" y="{y:.1f}" width="{PLOT}" height="{BAR_HEIGHT}"/>'
    for label in lane.labels:
        x, bottom = LEFT + label.anchor, y + BAR_HEIGHT + (label.row + 1) * LABEL_HEIGHT
        yield f'<path class="leader" d="M{x:.1f} {y + BAR_HEIGHT:.1f}V{bottom - 3:.1f}"/>'
        yield text(LEFT + label.x, bottom - 3, label.text)
    for bar in lane.bars:
        yield from _draw_bar(bar, y, palette)


def chips_height(chips: Sequence[Chip]) -> float:
    return (chips[-1].row + 1) * (BAR_HEIGHT + CHIP_GAP) + LANE_GAP if chips else 0.0


def draw_chips(chips: Sequence[Chip], count: int, top: float, palette: Palette) -> Iterator[str]:
    """Nodes whose results were known, hatched; they have no place in time."""
    yield text(LEFT - 12, top + BASELINE, f"cached ({count})", anchor="end")
    for chip in chips:
        x, y = LEFT + chip.x, top + chip.row * (BAR_HEIGHT + CHIP_GAP)
        if chip.node is None:
            yield text(x, y + BASELINE, chip.text)
            continue
        pattern = palette.hatching(chip.node.node_type)
        yield f'<g class="bar cached" data-node={attribute(chip.node.node_id)} data-count="1">'
        yield f"<title>{escape(_described(chip.node))}</title>"
        yield _body(x, y, chip.width, f"url(#{pattern})")
        yield text(x + PADDING, y + BASELINE, chip.text, "inside")
        yield "</g>"


def _draw_bar(bar: Bar, y: float, palette: Palette) -> Iterator[str]:
    longest = max(bar.nodes, key=lambda node: node.seconds)
    x = LEFT + bar.began
    marks = [s for s in ("failed", "interrupted") if any(node.status == s for node in bar.nodes)]
    named = f" data-node={attribute(longest.node_id)}" if len(bar.nodes) == 1 else ""
    yield f'<g class="{" ".join(["bar", *marks])}"{named} data-count="{len(bar.nodes)}">'
    yield f"<title>{escape(_tooltip(bar.nodes))}</title>"
    yield _body(x, y, bar.width, palette[longest.node_type])
    if any(node.on_critical_path for node in bar.nodes):
        yield (
            f'<rect class="critical" x="{x:.2f}" y="{y + BAR_HEIGHT - PATH_HEIGHT:.1f}" '
            f'width="{bar.width:.2f}" height="{PATH_HEIGHT}"/>'
        )
    if bar.has_label_inside:
        yield text(x + PADDING, y + BASELINE - 1, bar.label, "inside")
    yield "</g>"


def _body(x: float, y: float, width: float, fill: str) -> str:
    return (
        f'<rect class="body" x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{BAR_HEIGHT}" '
        f'rx="2" fill="{fill}"/>'
    )


def _tooltip(nodes: Sequence[NodeProfile]) -> str:
    if len(nodes) == 1:
        return _described(nodes[0])
    named = [clean_label(f"{node.node_id} {node.node_type}") for node in nodes[:MOST_NAMED]]
    more = [f"and {len(nodes) - MOST_NAMED} more"] if len(nodes) > MOST_NAMED else []
    took = shown_seconds(sum(node.seconds for node in nodes))
    return "\n".join([f"{len(nodes)} nodes, {took}", *named, *more])


def _described(node: NodeProfile) -> str:
    lines = [clean_label(f"{node.node_id} {node.node_type}")]
    if node.title and node.title != node.node_type:
        lines.append(clean_label(node.title))
    if node.parent_id is not None:
        lines.append(clean_label(f"put in by {node.parent_id}"))
    if node.status == "cached":
        where = f" in {clean_label(node.cache_level)}" if node.cache_level else ""
        return "\n".join([*lines, f"cached{where}"])
    return "\n".join(
        [
            *lines,
            f"{node.status}, {shown_seconds(node.seconds)}",
            f"waited {shown_seconds(node.waited_seconds)}",
            f"CPU {shown_seconds(node.cpu_seconds)}",
            f"output {shown_bytes(node.output_bytes)}",
        ]
    )
