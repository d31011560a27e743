"""The store as a history: ids of callers, what is shown, files by name."""

from dataclasses import replace

import pytest

from comfyrail.clock import Instant
from comfyrail.errors import Conflict
from comfyrail.ids import JobId, OutputId, TenantId, new_job_id
from comfyrail.jobs.job import NewJob, NewOutput, Origin
from comfyrail.jobs.outcome import Completed
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import HistoryQuery, Store
from tests.store.test_store import TENANT, ManualClock, clock, new_job, start, store

__all__ = ["clock", "store"]

OTHERS = TenantId("others")
ENDED = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})
ALL = frozenset(JobState)


def prompt(clock: ManualClock, alias: str | None = None, workflow: str = "w") -> NewJob:
    data = f'{{"workflow_id":"{workflow}"}}'.encode()
    origin = Origin("comfyui", "client", data, alias=alias)
    return replace(new_job(clock, origin=origin), extra_data=b'{"a":1}')


def file(name: str, folder: str = "") -> NewOutput:
    return NewOutput(
        OutputId(new_job_id()), "3", "images", name, folder, False, "image/png", 1, "h", "key"
    )


async def complete(store: Store, clock: ManualClock, job: NewJob, *files: NewOutput) -> JobId:
    await store.add_job(job)
    attempt = await start(store, job)
    clock.move(1)
    await store.finish_attempt(attempt.token, Completed(files))
    return job.id


async def test_an_id_of_the_callers_own_finds_its_job_and_is_taken_once(
    store: Store, clock: ManualClock
) -> None:
    job = prompt(clock, "mine")
    await store.add_job(job)
    found = await store.find_by_alias(TENANT, "comfyui", "mine")

    assert found is not None
    assert (found.id, found.alias) == (job.id, "mine")
    with pytest.raises(Conflict) as refused:
        await store.add_job(prompt(clock, "mine"))
    assert refused.value.code == "JOB_ID_IN_USE"
    assert await store.find_by_alias(TENANT, "other", "mine") is None
    assert await store.find_by_alias(OTHERS, "comfyui", "mine") is None
    await store.add_job(replace(prompt(clock, "mine"), tenant=OTHERS))
    await store.add_job(prompt(clock))
    await store.add_job(prompt(clock))


async def test_what_was_submitted_is_given_back_to_its_tenant_only(
    store: Store, clock: ManualClock
) -> None:
    made = file("a.png")
    job_id = await complete(store, clock, prompt(clock), made)

    found = (await store.submitted(TENANT, [job_id, JobId("unknown")]))[job_id]

    assert found.extra_data == b'{"a":1}'
    assert found.origin == b'{"workflow_id":"w"}'
    assert [output.file.id for output in found.outputs] == [made.id]
    assert await store.submitted(OTHERS, [job_id]) == {}


async def test_a_history_is_sorted_chosen_and_cut_and_leaves_out_what_is_hidden(
    store: Store, clock: ManualClock
) -> None:
    ended = [await complete(store, clock, prompt(clock, workflow=name)) for name in ("a", "b", "a")]
    waiting = prompt(clock)
    await store.add_job(waiting)

    async def ids(query: HistoryQuery) -> tuple[list[JobId], int]:
        page = await store.history(TENANT, query)
        return [job.id for job in page.jobs], page.total

    assert await ids(HistoryQuery(ENDED, 2)) == ([ended[2], ended[1]], 3)
    assert await ids(HistoryQuery(ENDED, 2, 2)) == ([ended[0]], 3)
    assert await ids(HistoryQuery(ENDED, 9, 1, is_ascending=True)) == (ended[1:], 3)
    assert await ids(HistoryQuery(ALL, 9)) == ([waiting.id, *ended[::-1]], 4)
    assert await ids(HistoryQuery(ENDED, 9, workflow_id="a")) == ([ended[2], ended[0]], 2)
    assert (await ids(HistoryQuery(ENDED, 9, by_duration=True)))[1] == 3
    assert (await store.history(OTHERS, HistoryQuery(ALL, 9))).total == 0

    await store.hide_jobs(TENANT, [ended[1], waiting.id])
    await store.hide_jobs(OTHERS, [ended[2]])
    assert await ids(HistoryQuery(ALL, 9)) == ([waiting.id, ended[2], ended[0]], 3)
    await store.hide_ended_jobs(TENANT, ended[0])
    assert await ids(HistoryQuery(ENDED, 9)) == ([ended[2]], 1)
    assert (await store.get_job(TENANT, ended[0])).is_hidden
    assert await store.count_open_jobs(TENANT) == 1
    assert await store.count_open_jobs(OTHERS) == 0


async def test_the_newest_file_of_a_name_is_found_in_its_folder(
    store: Store, clock: ManualClock
) -> None:
    clock.move(1)
    await complete(store, clock, prompt(clock), file("a.png"), file("a.png", "deep"))
    clock.move(1)
    newer = file("a.png")
    await complete(store, clock, prompt(clock), newer)

    found = await store.newest_output(TENANT, "a.png", "", is_temporary=False)

    assert found is not None
    assert found.file.id == newer.id
    assert found.created_at > Instant(0)
    assert await store.newest_output(TENANT, "a.png", "deep", is_temporary=False) is not None
    assert await store.newest_output(TENANT, "a.png", "", is_temporary=True) is None
    assert await store.newest_output(OTHERS, "a.png", "", is_temporary=False) is None
