"""A report as a picture: a lane for each thread, a bar for each node [12.9].

It is plain SVG without scripts. The size of it does not grow with the number of nodes beyond what
can be seen.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from comfyrail.engine.monitoring.labels import clean_label
from comfyrail.engine.profiling.amounts import shown_seconds
from comfyrail.engine.profiling.gantt_bars import (
    chips_height,
    draw_chips,
    draw_lane,
    lane_height,
    lay_out_lanes,
)
from comfyrail.engine.profiling.gantt_layout import lay_out_chips, shorten, text_width
from comfyrail.engine.profiling.gantt_style import (
    LEFT,
    PLOT,
    RIGHT,
    STYLE,
    WIDTH,
    Palette,
    hatchings,
    text,
)

if TYPE_CHECKING:
    from comfyrail.engine.profiling.report import ProfileReport

TOP = 84.0
CHIP_ROWS = 4
MOST_TYPES = 12
TYPE_WIDTH = 200.0
TITLE_WIDTH = 700.0
FEWEST_TICKS = 5
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def draw(report: "ProfileReport", title: str) -> str:
    """The text of an SVG file."""
    types = _types_by_time(report)
    palette = Palette(types)
    shown_title = clean_label(title) or "Profile"
    parts = list(_heading(report, shown_title))
    y = TOP
    lanes = lay_out_lanes(report)
    if lanes:
        bottom = TOP + sum(map(lane_height, lanes))
        parts += _axis(report.wall_seconds, bottom)
    for lane in lanes:
        parts += draw_lane(lane, y, palette)
        y += lane_height(lane)
    hidden = len(report.lanes) - len(lanes)
    if hidden > 0:
        parts.append(text(LEFT, y + 4, f"and {hidden} more lanes"))
        y += 20
    cached = [node for node in report.nodes if node.status == "cached"]
    chips = lay_out_chips(cached, PLOT, CHIP_ROWS)
    if chips:
        parts += draw_chips(chips, len(cached), y, palette)
        y += chips_height(chips)
    legend, y = _legend(report, types, palette, y + 8)
    height = math.ceil(y + 12)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{height}" '
        f'viewBox="0 0 {WIDTH:.0f} {height}" role="img">'
    )
    head = [opening, f"<title>{escape(shown_title)}</title>", f"<style>{STYLE}</style>"]
    begin = '<?xml version="1.0" encoding="UTF-8"?>'
    return "\n".join([begin, *head, hatchings(), *parts, *legend, "</svg>", ""])


def _types_by_time(report: "ProfileReport") -> list[str]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for node in report.nodes:
        seconds[node.node_type] += node.seconds
    return sorted(seconds, key=lambda name: (-seconds[name], name))


def _heading(report: "ProfileReport", title: str) -> Iterator[str]:
    yield text(16, 26, shorten(title, TITLE_WIDTH), "title")
    counts = ", ".join(f"{count} {status}" for status, count in report.counts.items() if count)
    figures = [
        f"{shown_seconds(report.wall_seconds)} {report.strategy}",
        f"{len(report.nodes)} nodes: {counts or 'none'}",
    ]
    if report.node_seconds:
        figures.append(f"parallelism {report.parallelism:.2f}")
        figures.append(f"critical path {shown_seconds(report.critical_seconds)} (underlined)")
    yield text(16, 46, " · ".join(figures))


def _axis(seconds: float, bottom: float) -> Iterator[str]:
    step = _nice_step(seconds / FEWEST_TICKS)
    if not step:
        return
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    for number in range(int(seconds / step) + 1):
        x = LEFT + PLOT * number * step / seconds
        ends = f'y1="{TOP - 8:.1f}" y2="{bottom - 6:.1f}"'
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" {ends}/>'
        yield text(x, TOP - 13, f"{number * step / size:.6g} {unit}", anchor="middle")


def _nice_step(most: float) -> float:
    """1, 2 or 5 times a power of ten; 0 where there is none."""
    if most <= 0 or not math.isfinite(most):
        return 0.0
    power = 10.0 ** math.floor(math.log10(most))
    return max(power * factor for factor in (1, 2, 5) if power * factor <= most * 1.001)


def _legend(
    report: "ProfileReport", types: Sequence[str], palette: Palette, top: float
) -> tuple[list[str], float]:
    """The node types that took longest, and where the picture ends."""
    counts = Counter(node.node_type for node in report.nodes)
    seconds: defaultdict[str, float] = defaultdict(float)
    for node in report.nodes:
        seconds[node.node_type] += node.seconds
    parts: list[str] = []
    x, y = LEFT, top
    for name in types[:MOST_TYPES]:
        times = f" \N{MULTIPLICATION SIGN}{counts[name]}" if counts[name] > 1 else ""
        took = f" {shown_seconds(seconds[name])}" if seconds[name] else ""
        said = f"{shorten(clean_label(name), TYPE_WIDTH)}{times}{took}"
        wide = text_width(said) + 36
        if x + wide > WIDTH - RIGHT:
            x, y = LEFT, y + 20
        square = f'x="{x:.1f}" y="{y:.1f}" width="11" height="11" rx="2" fill="{palette[name]}"'
        parts += [f"<rect {square}/>", text(x + 16, y + 10, said)]
        x += wide
    if len(types) > MOST_TYPES:
        parts.append(text(LEFT, y + 30, f"and {len(types) - MOST_TYPES} more node types"))
        y += 20
    return parts, y + 16
