"""Acceptance of issue 8, number 2, with fewer events; all of them: `make bench BENCH=webhooks`."""

from pathlib import Path

import pytest

from tests.notifications.flood import HEALTHY, flood

JOBS = 100


@pytest.mark.timeout(240)
async def test_nothing_is_lost_or_out_of_order_when_the_server_is_killed_and_endpoints_fail(
    tmp_path: Path,
) -> None:
    outcome = await flood(tmp_path, JOBS)
    healthy, (flaky,) = outcome.of("healthy"), outcome.of("flaky")
    assert len(healthy) == HEALTHY
    for row in [*healthy, flaky]:
        assert (row.messages, row.is_ordered, row.dead) == (outcome.events, True, 0), row
    # Only what was under way when the server was killed comes twice, under the same id.
    assert sum(row.repeated for row in outcome.rows) <= 64
    assert flaky.calls > outcome.events
    for name in ("refusing", "hanging", "resetting"):
        (row,) = outcome.of(name)
        assert (row.messages, row.dead, row.pending) == (0, outcome.events, 0), row
    # It asked to be told nothing more: what was written before is in the dead letters.
    (gone,) = outcome.of("gone")
    assert gone.calls < outcome.events
    assert gone.dead > 0
    assert gone.pending == 0
