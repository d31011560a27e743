"""What the command line says of attempts that failed."""

from datetime import UTC, datetime
from typing import Any

import pytest

from comfyrail.cli.failures import advice_of, retry_notice
from comfyrail.client import Event, ExecutionFailure

ADVICE = "Make room there, then submit the job again."


def queued(**data: Any) -> Event:
    told = {"reason": "retrying", "attempt": 1, "worker_id": "w1", **data}
    return Event("job", 7, "execution.queued", datetime.now(UTC), told)


def test_failure_that_is_tried_again_asks_nothing_of_anybody() -> None:
    error = {
        "message": f"The disk of its worker is full. {ADVICE}",
        "details": {"suggested_action": ADVICE},
    }
    said = retry_notice(queued(cause="x", error=error, recovery="another_worker", delay=10.4))
    assert said == (
        "Attempt 1 on w1 failed: The disk of its worker is full. It is tried again in 10 s, on "
        "another worker if there is one."
    )


def test_lost_worker_is_told_with_its_cause() -> None:
    said = retry_notice(queued(cause="its process ended (signal 9)", recovery="another_worker"))
    assert said is not None
    assert said.startswith("Attempt 1 on w1 was lost: its process ended (signal 9). It is tried")
    assert "again now" in said


def test_changes_of_a_mended_workflow_are_told() -> None:
    data = {"cause": "x", "error": {"message": "bad"}, "recovery": "mended_workflow", "delay": 9}
    said = retry_notice(queued(**data, changes=["2.steps is 20 now"]))
    assert said is not None
    assert said.endswith("with a mended workflow: 2.steps is 20 now.")


def test_attempt_that_was_merely_given_back_does_not_count() -> None:
    said = retry_notice(queued(cause="the worker is being drained"))
    assert said is not None
    assert "does not count" in said


@pytest.mark.parametrize("data", [{"reason": "due"}, {"reason": None}])
def test_other_events_say_nothing(data: dict[str, Any]) -> None:
    assert retry_notice(queued(**data)) is None
    assert retry_notice(Event("job", 8, "execution.started", datetime.now(UTC), {})) is None


def test_advice_is_given_once() -> None:
    details = {"suggested_action": ADVICE}
    said = ExecutionFailure("resource", "WORKER_DISK_FULL", f"It is full. {ADVICE}", details)
    assert advice_of(said) is None
    assert advice_of(ExecutionFailure("resource", "X", "It is full.", details)) == ADVICE
    assert advice_of(ExecutionFailure("resource", "X", "It is full.", {})) is None
