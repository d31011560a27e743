"""What the client shows of jobs, of the queue and of what was used."""

from datetime import UTC, datetime

from comfyrail.client import ComfyrailClient
from tests.graphs import picture
from tests.processes import Comfyrail, comfyrail

LATER = "2027-06-01T00:00:00Z"


async def test_client_searches_and_shows_covers(running_server: Comfyrail) -> None:
    graph = picture(71)
    graph["3"]["inputs"]["filename_prefix"] = "badger & co"
    done = running_server.submit(graph)
    running_server.wait_for(done, "completed")
    running_server.submit(picture(72), not_before=LATER)
    async with ComfyrailClient(running_server.url) as client:
        (job,) = await client.executions(text="badger & co")
        assert (job.execution_id, job.title, job.cover, job.outputs) == (done, None, None, None)
        (job,) = await client.executions("completed", text=done[:20], cover=True)
        assert job.outputs == 1
        assert job.cover is not None
        assert job.cover.content_type == "image/png"
        assert await client.executions(workflow_id="no-such-poster") == []
        assert await client.preview(done) is None
        assert (await client.execution(done)).preview == 0


async def test_client_lists_open_jobs_and_days(running_server: Comfyrail) -> None:
    async with ComfyrailClient(running_server.url) as client:
        before = await client.access.usage_of_days(2)
        job_id = running_server.submit(picture(73), not_before=LATER)
        found = {each.id: each for each in await client.queue.executions(200)}
        assert (found[job_id].status, found[job_id].queue.position) == ("queued", None)
        await client.cancel(job_id)
        after = await client.access.usage_of_days(2)
    assert [day.date for day in after.days][-1] == datetime.now(UTC).date().isoformat()
    assert len(after.days) == 2
    assert after.total.submitted == before.total.submitted + 1
    assert after.total.cancelled == before.total.cancelled + 1
    assert after.total.submitted == sum(day.submitted for day in after.days)


def test_command_lists_what_a_search_finds(running_server: Comfyrail) -> None:
    at = ("--server", running_server.url)
    one, other = (running_server.submit(picture(74), not_before=LATER) for _ in range(2))
    listed = comfyrail("jobs", "list", *at, "--text", one).stdout
    assert one in listed
    assert other not in listed
    none = comfyrail("jobs", "list", *at, "--workflow", "no-such-poster")
    assert (none.returncode, none.stdout.strip()) == (0, "No jobs like that.")
