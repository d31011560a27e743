"""Lists of jobs in SQLite: what a text finds, what covers them, what is open and in which order."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import after
from comfyrail.errors import StoreUnavailable
from comfyrail.ids import JobId, TenantId, WorkerId, new_attempt_token, new_output_id
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import NewJob, NewOutput
from comfyrail.jobs.life_cycle import GoneReason
from comfyrail.jobs.outcome import Completed, Failed
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.states import JobState
from comfyrail.results.indexer import Indexer
from comfyrail.store.interface import Assignment, JobFilter, OpenJobPage
from comfyrail.store.sqlite import job_list_operations, readers
from comfyrail.store.sqlite.queries import QUERIES
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.test_store import TENANT, ManualClock, new_job, start

OTHER = TenantId("other")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path, clock)
    yield opened
    await opened.close()


def a_job(clock: ManualClock, text: str = "", **changes: Any) -> NewJob:
    prompt = {"1": {"class_type": "Note", "inputs": {"text": text}}}
    return new_job(clock, prompt=json.dumps(prompt).encode(), **changes)


def a_file(
    name: str = "a.png", kind: str = "image/png", *, is_temporary: bool = False
) -> NewOutput:
    return NewOutput(
        new_output_id(), "9", "images", name, "", is_temporary, kind, 1, "0" * 64, "00/" + "0" * 64
    )


async def finish(store: SqliteStore, job: NewJob, *files: NewOutput) -> JobId:
    """The job has completed with these files, and is in the index."""
    await store.add_job(job)
    attempt = await start(store, job)
    await store.finish_attempt(attempt.token, Completed(files))
    await Indexer(store).catch_up()
    return job.id


async def found(store: SqliteStore, limit: int = 50, **where: Any) -> list[JobId]:
    page = await store.list_jobs(TENANT, JobFilter(**where), None, limit)
    return [job.id for job in page.jobs]


# Texts


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "ended"])
@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("a red-fox, x2", "red - fox"),
        ("a red fox jumps", "FOX ju"),
        ("Über Straße, café", "uber cafe"),
        ("一个女孩在海边跑步, masterpiece", "海边 master"),
        ("바닷가에서 달리는 소녀", "가에서"),
        ("heritage_prompt", "heritage_prompt"),
    ],
    ids=["dash", "beginning", "accents", "chinese", "korean", "line"],
)
async def test_job_is_found_by_its_words_before_its_end_and_after(
    store: SqliteStore, clock: ManualClock, prompt: str, words: str, *, is_open: bool
) -> None:
    wanted, other = a_job(clock, prompt), a_job(clock, "fo re xfox 孩女 서에 else")
    for job in (wanted, other):
        await (store.add_job(job) if is_open else finish(store, job))
    assert await found(store, text=words) == [wanted.id]


async def test_job_that_has_made_nothing_is_found(store: SqliteStore, clock: ManualClock) -> None:
    failed, cancelled = a_job(clock, "a lost fox"), a_job(clock, "a lost fox")
    for job in (failed, cancelled):
        await store.add_job(job)
    attempt = await start(store, failed)
    await store.finish_attempt(attempt.token, Failed(Fault("execution", "X", "no")))
    await store.request_cancel(TENANT, cancelled.id)
    await Indexer(store).catch_up()
    assert await found(store, text="lost fox") == [cancelled.id, failed.id]
    assert await found(store, text="lost fox", states=frozenset({JobState.FAILED})) == [failed.id]


async def test_job_is_found_by_the_name_of_its_file(store: SqliteStore, clock: ManualClock) -> None:
    wanted = await finish(store, a_job(clock), a_file("Über_Straße_1.png"), a_file("b.png"))
    await finish(store, a_job(clock), a_file("other.png"))
    assert await found(store, text="ber_STRASSE") == [wanted]


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "ended"])
async def test_job_is_found_by_its_id_and_by_its_beginning(
    store: SqliteStore, clock: ManualClock, *, is_open: bool
) -> None:
    job = a_job(clock, "a fox")
    await (store.add_job(job) if is_open else finish(store, job))
    for part in (job.id, job.id.upper(), job.id[:8], f" {job.id[:20]} ", job.id[-8:]):
        assert await found(store, text=part) == [job.id], part
    assert await found(store, text=job.id[:7]) == [], "too short"
    assert await found(store, text="f" + job.id[1:]) == []
    stranger = JobFilter(text=job.id)
    assert (await store.list_jobs(OTHER, stranger, None, 5)).jobs == []


async def test_texts_of_other_tenants_find_nothing(store: SqliteStore, clock: ManualClock) -> None:
    await finish(store, a_job(clock, "secret fox", tenant=OTHER), a_file("secret.png"))
    await store.add_job(a_job(clock, "secret fox", tenant=OTHER))
    assert await found(store, text="secret") == []


async def test_search_goes_on_over_pages_newest_first(
    store: SqliteStore, clock: ManualClock
) -> None:
    jobs = [await finish(store, a_job(clock, "fox"), a_file("fox.png")) for _ in range(3)]
    for _ in range(3):
        job = a_job(clock, "fox")
        await store.add_job(job)
        jobs.append(job.id)
    seen: list[JobId] = []
    after_id: JobId | None = None
    for _ in range(3):
        page = await store.list_jobs(TENANT, JobFilter(text="fox"), after_id, 2)
        seen += [job.id for job in page.jobs]
        after_id = page.next_cursor
    assert after_id is None
    assert seen == jobs[::-1]


async def test_search_is_narrowed_by_all_other_filters(
    store: SqliteStore, clock: ManualClock
) -> None:
    early = a_job(clock, "fox", workflow_id="poster@3")
    await finish(store, early)
    clock.move(60)
    late, open_job = (a_job(clock, "fox", workflow_id=f"poster@{number}") for number in (3, 4))
    await finish(store, late)
    await store.add_job(open_job)
    await store.add_job(a_job(clock, "fox", workflow_id="poster2@3"))
    everything = [open_job.id, late.id, early.id]
    assert await found(store, text="fox", workflow="poster") == everything
    assert await found(store, workflow="poster") == everything
    assert await found(store, workflow="poster", limit=2) == everything[:2]
    assert await found(store, text="fox", workflow="poster@3") == [late.id, early.id]
    assert await found(store, workflow="poster@4") == [open_job.id]
    assert await found(store, workflow="post") == []
    assert await found(store, text="fox", workflow="poster", submitted_from=late.submitted_at) == [
        open_job.id,
        late.id,
    ]
    queued = frozenset({JobState.QUEUED})
    assert await found(store, text="fox", workflow="poster", states=queued) == [open_job.id]
    assert await found(store, text="fox", surface="elsewhere") == []


async def test_search_reads_only_so_many_graphs_of_open_jobs(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [a_job(clock, "fox " + "x" * 1000) for _ in range(6)]
    for job in jobs:
        await store.add_job(job)
    newest_first = [job.id for job in reversed(jobs)]
    assert await found(store, text="fox") == newest_first
    monkeypatch.setattr(job_list_operations, "OPEN_JOBS_READ", 4)
    assert await found(store, text="fox") == newest_first[:4]
    monkeypatch.setattr(job_list_operations, "OPEN_BYTES_READ", 2500)
    assert await found(store, text="fox") == newest_first[:2]


async def test_search_for_jobs_that_takes_too_long_is_ended(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await finish(store, a_job(clock, "fox"))
    monkeypatch.setattr(readers, "STEPS_BETWEEN_LOOKS", 1)
    monkeypatch.setattr(store._readers._searches, "_limit", -1.0)
    with pytest.raises(StoreUnavailable) as caught:
        await found(store, text="fox")
    assert caught.value.code == "SEARCH_TOO_LONG"
    monkeypatch.undo()
    assert len(await found(store, text="fox")) == 1


# Covers


@pytest.mark.parametrize(
    ("files", "cover", "count"),
    [
        (
            [a_file("a.txt", "text/plain"), a_file("b.mp4", "video/mp4"), a_file("c.png")],
            "c.png",
            3,
        ),
        ([a_file("t.png", is_temporary=True), a_file("b.png")], "b.png", 1),
        ([a_file("t.png", is_temporary=True), a_file("b.mp4", "video/mp4")], "b.mp4", 1),
        ([a_file("a.txt", "text/plain"), a_file("t.png", is_temporary=True)], "t.png", 1),
        ([a_file("t.png", is_temporary=True), a_file("u.png", is_temporary=True)], "t.png", 2),
        ([a_file("z.png"), a_file("a.png")], "z.png", 2),
    ],
    ids=[
        "image-first",
        "saved-first",
        "saved-film",
        "picture-before-text",
        "only-temporary",
        "order",
    ],
)
async def test_cover_is_the_file_most_worth_showing(
    store: SqliteStore, clock: ManualClock, files: list[NewOutput], cover: str, count: int
) -> None:
    job_id = await finish(
        store, a_job(clock), *(replace(each, id=new_output_id()) for each in files)
    )
    other = await finish(store, a_job(clock), a_file("other.png"))
    bare = await finish(store, a_job(clock))
    covers = await store.covers_of(TENANT, [job_id, other, bare])
    assert {each: (found.output.file.filename, found.files) for each, found in covers.items()} == {
        job_id: (cover, count),
        other: ("other.png", 1),
    }
    assert await store.covers_of(OTHER, [job_id]) == {}


async def test_what_is_gone_covers_nothing(store: SqliteStore, clock: ManualClock) -> None:
    job_id = await finish(store, a_job(clock), a_file("a.png"), a_file("b.png"))
    first = (await store.covers_of(TENANT, [job_id]))[job_id].output
    await store.end_outputs([first], GoneReason.DELETED)
    cover = (await store.covers_of(TENANT, [job_id]))[job_id]
    assert (cover.output.file.filename, cover.files) == ("b.png", 1)
    await store.end_outputs([cover.output], GoneReason.DELETED)
    assert await store.covers_of(TENANT, [job_id]) == {}


# Open jobs


async def begin(store: SqliteStore, job: NewJob) -> None:
    assignment = Assignment(job.id, WorkerId("w"), new_attempt_token())
    assert await store.start_attempts([assignment], "me", 15)


async def all_open(store: SqliteStore, limit: int) -> list[list[JobId]]:
    pages: list[OpenJobPage] = [await store.open_jobs(TENANT, None, limit)]
    while pages[-1].next_cursor is not None:
        pages.append(await store.open_jobs(TENANT, pages[-1].next_cursor, limit))
    return [[each.job.id for each in page.jobs] for page in pages]


async def test_open_jobs_come_in_the_order_in_which_they_will_run(
    store: SqliteStore, clock: ManualClock
) -> None:
    jobs = {
        "low": a_job(clock, priority=1, standing=standing_of(1)),
        "high": a_job(clock, priority=10, standing=standing_of(10)),
        "running": a_job(clock),
        "started_first": a_job(clock),
        "ended": a_job(clock),
        "medium": a_job(clock),
        "next_year": a_job(clock, not_before=after(clock.now(), 365 * 86400.0)),
        "tomorrow": a_job(clock, not_before=after(clock.now(), 86400.0)),
        "stranger": a_job(clock, tenant=OTHER),
    }
    for job in jobs.values():
        await store.add_job(job)
    await begin(store, jobs["started_first"])
    clock.move(1)
    await begin(store, jobs["running"])
    await store.request_cancel(TENANT, jobs["ended"].id)
    names = ["started_first", "running", "high", "medium", "low", "tomorrow", "next_year"]
    expected = [jobs[name].id for name in names]
    assert await all_open(store, 50) == [expected]
    assert await all_open(store, 7) == [expected]
    assert await all_open(store, 3) == [expected[:3], expected[3:6], expected[6:]]
    assert await all_open(store, 1) == [[each] for each in expected]


async def test_open_jobs_have_the_places_that_each_has_alone(
    store: SqliteStore, clock: ManualClock
) -> None:
    jobs = []
    for number in range(24):
        tenant = OTHER if number % 3 == 0 else TENANT
        priority = 1 + number % 10
        jobs.append(a_job(clock, priority=priority, standing=standing_of(priority), tenant=tenant))
        await store.add_job(jobs[-1])
        clock.move(0.03)
    page = await store.open_jobs(TENANT, None, 100)
    assert len(page.jobs) == 16
    for each in page.jobs:
        assert each.place is not None
        assert each.place == await store.queue_place(each.job.id)
        assert each.needs == await store.needs_of(each.job.id)
    positions = [each.place.position for each in page.jobs if each.place]
    assert positions == sorted(positions)


async def test_list_of_open_jobs_goes_on_behind_one_that_has_started_meanwhile(
    store: SqliteStore, clock: ManualClock
) -> None:
    jobs = [a_job(clock) for _ in range(4)]
    for job in jobs:
        await store.add_job(job)
        clock.move(1)
    page = await store.open_jobs(TENANT, None, 2)
    await begin(store, jobs[1])
    following = await store.open_jobs(TENANT, page.next_cursor, 2)
    assert [each.job.id for each in following.jobs] == [jobs[2].id, jobs[3].id]


@pytest.mark.parametrize(
    ("query", "way"),
    [
        ("open_jobs_processing", "(tenant=? AND state=?)"),
        ("open_jobs_queued", "COVERING INDEX jobs_in_lanes (queue_class=? AND tenant=?)"),
        ("open_jobs_held", "INDEX jobs_held (held_until>? AND held_until<?)"),
    ],
)
async def test_open_jobs_are_found_by_an_index(store: SqliteStore, query: str, way: str) -> None:
    values = dict.fromkeys(("tenant", "key", "job_id", "limit"), 1)
    rows = store._connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[query]}", values).fetchall()
    assert way in " ".join(row["detail"] for row in rows)
