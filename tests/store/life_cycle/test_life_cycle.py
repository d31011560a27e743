"""No order of what can happen loses a job, runs it twice to its end or leaves it behind [7.4]."""

import os
import time

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.store.life_cycle.machine import LifeCycle

SEARCH_SECONDS = float(os.environ.get("LIFE_CYCLE_SEARCH_SECONDS", "0"))
"""Look for faults for as long besides, in ever new orders: the others are always the same."""

ALWAYS = settings(
    max_examples=30,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
SEARCH = settings(
    ALWAYS, max_examples=200, stateful_step_count=60, derandomize=False, print_blob=True
)


# Seconds when nothing is found; to make what is found short takes minutes.
@pytest.mark.timeout(600 + 2 * SEARCH_SECONDS)
def test_no_job_is_lost_doubled_or_stuck() -> None:
    run_state_machine_as_test(LifeCycle, settings=ALWAYS)
    end = time.monotonic() + SEARCH_SECONDS
    while SEARCH_SECONDS and time.monotonic() < end:
        run_state_machine_as_test(LifeCycle, settings=SEARCH)
