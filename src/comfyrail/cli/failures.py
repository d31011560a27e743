"""What is said of attempts that failed, and of how they are tried again."""

from collections.abc import Mapping
from typing import Any

from comfyrail.client import Event, ExecutionFailure

HOW = {
    "another_worker": "on another worker if there is one",
    "less_memory": "with a smaller need of memory, on a larger worker if there is one",
    "more_time": "with more time",
    "mended_workflow": "with a mended workflow",
    "again": "once more, on another worker if there is one",
}
"""By the remedy that the server names."""


def retry_notice(event: Event) -> str | None:
    """One sentence or two for an event that says that a job is tried again; None for any other."""
    data = event.data
    if event.type != "execution.queued" or data.get("reason") != "retrying" or "cause" not in data:
        return None
    where = f"Attempt {data.get('attempt')} on {data.get('worker_id')}"
    error = data.get("error")
    if not data.get("recovery"):
        return f"{where} was given back ({data.get('cause')}). It does not count."
    if isinstance(error, Mapping):
        happened = f"{where} failed: {without_advice(str(error.get('message')), error)}"
    else:
        happened = f"{where} was lost: {str(data.get('cause')).rstrip('.')}."
    return f"{happened} {_again(data)}"


def advice_of(failure: ExecutionFailure) -> str | None:
    """What can be done about it, where its message does not say that."""
    advice = failure.details.get("suggested_action")
    if not isinstance(advice, str) or advice in failure.message:
        return None
    return advice


def without_advice(message: str, error: Mapping[str, Any]) -> str:
    """While it is tried again nobody need do anything."""
    details = error.get("details")
    advice = details.get("suggested_action") if isinstance(details, Mapping) else None
    plain = message.replace(advice, "") if isinstance(advice, str) else message
    return plain.strip().rstrip(".") + "."


def _again(data: Mapping[str, Any]) -> str:
    delay = data.get("delay")
    when = f"in {delay:.0f} s" if isinstance(delay, int | float) and delay >= 1 else "now"
    changes = data.get("changes")
    changed = f": {'; '.join(map(str, changes))}" if isinstance(changes, list) and changes else ""
    return f"It is tried again {when}, {HOW.get(str(data.get('recovery')), 'once more')}{changed}."
