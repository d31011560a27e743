"""How a prompt's end on its worker ends the attempt."""

from dataclasses import replace

from comfyrail.fleet.comfyui.history import HistoryEntry
from comfyrail.fleet.faults import interrupted, node_failed, unexplained
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.outcome import Cancelled, Completed, Failed


def judge(
    entry: HistoryEntry, outputs: tuple[NewOutput, ...], stop_with: Cancelled | Failed | None
) -> Completed | Cancelled | Failed:
    """`stop_with` is how it was to end when it was stopped; a success that came before that counts
    as one.
    """
    if entry.status == "success":
        return Completed(outputs)
    if stop_with is not None:
        return replace(stop_with, outputs=outputs)
    if entry.failures:
        return Failed(node_failed(entry.failures[0]), outputs)
    return Failed(interrupted() if entry.status == "interrupted" else unexplained(), outputs)
