"""A report as rows of text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from comfyrail.engine.profiling.amounts import UNKNOWN, shown_bytes, shown_seconds
from comfyrail.engine.profiling.node_profile import NodeProfile

if TYPE_CHECKING:
    from comfyrail.engine.profiling.report import ProfileReport

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """Texts as they are in the workflow: whoever shows them must mind what they contain."""

    columns: Row
    rows: Sequence[Row]
    totals: Row
    summary: Sequence[tuple[str, str]]
    """What is said of the execution as a whole: a name and a figure each."""


COLUMNS = (
    "Node",
    "Type",
    "Status",
    "Time",
    "Share",
    "Waited",
    "CPU",
    "Output",
    "Peak",
    "Read",
    "Written",
    "Where",
)
ON_PATH = "*"


def tabulate(report: "ProfileReport", most_rows: int | None) -> ProfileTable:
    nodes = sorted(report.nodes, key=lambda node: -node.seconds)
    shown = nodes if most_rows is None or len(nodes) <= most_rows else nodes[: most_rows - 1]
    rows = [_row(node, report.node_seconds) for node in shown]
    if len(shown) < len(nodes):
        rows.append(_rest(nodes[len(shown) :], report.node_seconds))
    return ProfileTable(COLUMNS, rows, _totals(report), _summary(report))


def _row(node: NodeProfile, all_seconds: float) -> Row:
    title = f" {node.title}" if node.title and node.title != node.node_type else ""
    mark = ON_PATH if node.on_critical_path else ""
    ran = node.began is not None
    return (
        f"{node.node_id}{mark}{title}",
        node.node_type,
        _status(node),
        shown_seconds(node.seconds) if ran else UNKNOWN,
        _share(node.seconds, all_seconds) if ran else UNKNOWN,
        shown_seconds(node.waited_seconds) if ran else UNKNOWN,
        shown_seconds(node.cpu_seconds),
        shown_bytes(node.output_bytes),
        shown_bytes(node.peak_memory_bytes),
        shown_bytes(node.read_bytes),
        shown_bytes(node.written_bytes),
        node.lane or UNKNOWN,
    )


def _status(node: NodeProfile) -> str:
    if node.cache_level is not None:
        return f"{node.status} ({node.cache_level})"
    return f"{node.status} ({node.attempts} tries)" if node.attempts > 1 else node.status


def _rest(nodes: Sequence[NodeProfile], all_seconds: float) -> Row:
    seconds = sum(node.seconds for node in nodes)
    figures = (shown_seconds(seconds), _share(seconds, all_seconds))
    return (f"… {len(nodes)} more", "", "", *figures, *[""] * (len(COLUMNS) - 5))


def _totals(report: "ProfileReport") -> Row:
    ran = [node for node in report.nodes if node.began is not None]
    counts = [f"{count} {status}" for status, count in report.counts.items() if count]
    return (
        "All",
        "",
        ", ".join(counts),
        shown_seconds(report.node_seconds),
        "",
        shown_seconds(sum(node.waited_seconds for node in ran)),
        shown_seconds(sum(node.cpu_seconds or 0.0 for node in ran)),
        shown_bytes(sum(node.output_bytes or 0 for node in ran)),
        "",
        shown_bytes(sum(node.read_bytes or 0 for node in ran)),
        shown_bytes(sum(node.written_bytes or 0 for node in ran)),
        "",
    )


def _summary(report: "ProfileReport") -> list[tuple[str, str]]:
    said = [
        ("Outcome", report.outcome if report.message is None else f"failed: {report.message}"),
        ("Wall time", shown_seconds(report.wall_seconds)),
    ]
    if report.node_seconds:
        path = f"{shown_seconds(report.critical_seconds)}, {len(report.critical_path)} nodes"
        said += [
            ("Time of all nodes", shown_seconds(report.node_seconds)),
            ("Parallelism", f"{report.parallelism:.2f}"),
            ("Critical path", f"{path} (marked {ON_PATH})"),
        ]
    return [
        *said,
        ("CPU time of the process", shown_seconds(report.cpu_seconds)),
        ("Most memory so far", shown_bytes(report.highest_memory_bytes)),
    ]


def _share(seconds: float, all_seconds: float) -> str:
    return f"{100 * seconds / all_seconds:.1f} %" if all_seconds else UNKNOWN
