"""What a kill costs: submissions that were acknowledged, a long queue, the job of a dead worker."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from comfyrail.faultlab.acknowledged import measure_acknowledged
from comfyrail.faultlab.restart import measure_restart
from comfyrail.faultlab.site import Layout, Site, open_site
from comfyrail.faultlab.worker_death import measure_worker_deaths

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEASE = 1.5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    layout = Layout(remote_workers=3)
    async with open_site(tmp_path_factory.mktemp("site"), layout, LEASE) as opened:
        yield opened


async def test_every_acknowledged_submission_is_there_after_a_kill(site: Site) -> None:
    row = await measure_acknowledged(site, 80, rate=80, kills=1, seed=1, say=print)
    assert row.missing == 0
    assert row.is_right
    assert row.acknowledged > 0
    assert row.unanswered > 0, "the server was never away"
    assert row.kept_unanswered <= row.unanswered
    assert row.acknowledged + row.unanswered == 80


async def test_long_queue_runs_on_after_a_kill(site: Site) -> None:
    row = await measure_restart(site, queued=80, run_before=40, say=print)
    assert row.queued == 80
    assert row.before_per_second > 0
    assert row.first_end_seconds is not None
    assert row.first_end_seconds > 0
    assert row.listening_seconds < 30


async def test_job_of_a_dead_worker_waits_for_the_lease_and_the_others_for_nothing(
    site: Site,
) -> None:
    row = await measure_worker_deaths(site, deaths=1, quiet=1.0, seed=1, say=print)
    assert row.victims >= 1
    assert row.failed == 0
    assert row.victim_delay_p50 is not None
    assert row.victim_delay_p50 > 0
    # The next worker may be busy, and this machine too.
    assert row.victim_delay_p50 < 10 * LEASE
    assert row.others > 0
