"""A report as plain data. The shape is documented in docs/how-to/profile-a-workflow.md: fields are
added, never renamed or removed, without another `version`.
"""

from typing import TYPE_CHECKING, Any

from comfyrail.engine.profiling.node_profile import NodeProfile

if TYPE_CHECKING:
    from comfyrail.engine.profiling.report import ProfileReport

VERSION = 1
DIGITS = 9


def as_plain_data(report: "ProfileReport") -> dict[str, Any]:
    return {
        "version": VERSION,
        "execution_id": report.execution_id,
        "outcome": report.outcome,
        "message": report.message,
        "strategy": report.strategy,
        "wall_seconds": _rounded(report.wall_seconds),
        "node_seconds": _rounded(report.node_seconds),
        "parallelism": _rounded(report.parallelism),
        "cpu_seconds": _rounded(report.cpu_seconds),
        "highest_memory_bytes": report.highest_memory_bytes,
        "critical_path": {
            "seconds": _rounded(report.critical_seconds),
            "nodes": list(report.critical_path),
        },
        "counts": dict(report.counts),
        "lanes": list(report.lanes),
        "nodes": [_node(node) for node in report.nodes],
    }


def _node(node: NodeProfile) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "node_type": node.node_type,
        "title": node.title,
        "parent_id": node.parent_id,
        "status": node.status,
        "cache_level": node.cache_level,
        "attempts": node.attempts,
        "ready_at": _rounded(node.ready_at),
        "began": _rounded(node.began),
        "ended": _rounded(node.ended),
        "seconds": _rounded(node.seconds),
        "waited_seconds": _rounded(node.waited_seconds),
        "cpu_seconds": _rounded(node.cpu_seconds),
        "output_bytes": node.output_bytes,
        "peak_memory_bytes": node.peak_memory_bytes,
        "read_bytes": node.read_bytes,
        "written_bytes": node.written_bytes,
        "alone": node.alone,
        "lane": node.lane,
        "on_critical_path": node.on_critical_path,
        "stretches": [
            {"began": _rounded(each.began), "ended": _rounded(each.ended), "lane": each.lane}
            for each in node.stretches
        ],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, DIGITS)
