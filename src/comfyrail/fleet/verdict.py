"""How a prompt's end on its worker ends the attempt."""

from collections.abc import Callable, Collection
from dataclasses import replace

from comfyrail.fleet.classification import classify_end, classify_node_failure
from comfyrail.fleet.comfyui.history import HistoryEntry
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.outcome import Cancelled, Completed, Failed


def _no_models(_node_id: str) -> Collection[str]:
    return ()


def judge(
    entry: HistoryEntry,
    outputs: tuple[NewOutput, ...],
    stop_with: Cancelled | Failed | None,
    models_of: Callable[[str], Collection[str]] = _no_models,
) -> Completed | Cancelled | Failed:
    """`stop_with` is how it was to end when it was stopped; a success that came before that counts
    as one. `models_of`: the models that a node loads, by its id.
    """
    if entry.status == "success":
        return Completed(outputs)
    if stop_with is not None:
        return replace(stop_with, outputs=outputs)
    if entry.failures:
        failure = entry.failures[0]
        failed = classify_node_failure(failure, models_of(failure.node_id))
    else:
        failed = classify_end(entry.status)
    return replace(failed, outputs=outputs)
