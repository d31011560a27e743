"""The harness finds what must not be: each kind of damage, done by hand."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from comfyrail.faultlab.data_folder import (
    age_blobs,
    missing_blobs,
    orphaned_blobs,
    read_jobs,
)
from comfyrail.faultlab.inspection import Findings, judge
from comfyrail.faultlab.ledger import Ledger
from comfyrail.faultlab.planned_jobs import PlannedJob, plan_jobs
from tests.graphs import picture
from tests.processes import Comfyrail

COLOURS = (0x102030, 0x405060)


@pytest.fixture
def data(running_server: Comfyrail, tmp_path: Path) -> Path:
    """A copy of a real data folder with two completed jobs, and none of other tests."""
    ids = [running_server.submit(picture(colour)) for colour in COLOURS]
    for job_id in ids:
        running_server.wait_for(job_id, "completed")
    with (
        closing(sqlite3.connect(running_server.data / "comfyrail.db")) as source,
        closing(sqlite3.connect(tmp_path / "comfyrail.db")) as copy,
    ):
        source.backup(copy)
        copy.execute("PRAGMA foreign_keys = ON")
        copy.execute("DELETE FROM jobs WHERE id NOT IN (?, ?)", ids)
        copy.commit()
        kept = [row[0] for row in copy.execute("SELECT blob_key FROM outputs")]
    for key in kept:
        (tmp_path / "blobs" / key).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(running_server.data / "blobs" / key, tmp_path / "blobs" / key)
    return tmp_path


@pytest.fixture
def ledger(data: Path, tmp_path: Path) -> Ledger:
    """In which both jobs are."""
    made = Ledger(tmp_path / "ledger.jsonl")
    with made:
        for job, job_id in zip(some_jobs(2), read_jobs(data), strict=True):
            made.acknowledge(job, job_id).ended_at = 1.0
    return made


def some_jobs(count: int) -> list[PlannedJob]:
    return plan_jobs(count, 0, (0.1, 0.1))


def change(data: Path, statement: str, *values: object) -> None:
    """As no server would do it: what the database itself would refuse is switched off."""
    with closing(sqlite3.connect(data / "comfyrail.db")) as database:
        database.execute("PRAGMA ignore_check_constraints = ON")
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'"):
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("DROP INDEX attempts_one_completed")
        database.execute(statement, values)
        database.commit()


def judged(data: Path, ledger: Ledger, explained: frozenset[str] = frozenset()) -> Findings:
    findings = Findings()
    judge(findings, ledger, read_jobs(data), explained)
    # These jobs have one output each, those of a run have two.
    findings.missing.clear()
    return findings


def test_untouched_data_is_right(data: Path, ledger: Ledger) -> None:
    assert judged(data, ledger).wrongs == []
    assert missing_blobs(data, read_jobs(data)) == []
    assert orphaned_blobs(data) == []
    assert [job.completions for job in read_jobs(data).values()] == [1, 1]


def test_accepted_job_that_is_gone_is_lost(data: Path, ledger: Ledger) -> None:
    job_id = next(iter(read_jobs(data)))
    change(data, "DELETE FROM jobs WHERE id = ?", job_id)
    for table in ("events", "attempts", "outputs"):
        with closing(sqlite3.connect(data / "comfyrail.db")) as database:
            database.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))
            database.commit()
    assert judged(data, ledger).lost == [f"{job_id} was accepted and is not in the database"]


def test_ended_job_that_is_queued_again_is_lost(data: Path, ledger: Ledger) -> None:
    change(data, "UPDATE jobs SET state = 'queued', completed_at = NULL")
    findings = judged(data, ledger)
    assert len(findings.lost) == 2
    assert len(findings.gaps) == 2, "they have final events and are not final"


def test_job_that_nobody_submitted_is_doubled(data: Path, ledger: Ledger) -> None:
    entry = ledger.entries.popitem()[1]
    assert judged(data, ledger).doubled == [f"{entry.job_id} is there and nobody has it"]


SECOND_EVENT = """
    INSERT INTO events (tenant, job_id, number, type, at, data)
    SELECT tenant, job_id, number + 1, type, at, data FROM events WHERE type = 'execution.completed'
"""
SECOND_ATTEMPT = """
    INSERT INTO attempts (job_id, number, worker_id, token, prompt_id, state,
        lease_expires_at, started_at, ended_at)
    SELECT job_id, 2, worker_id, token || '2', prompt_id, state, 0, 0, 0 FROM attempts
"""


@pytest.mark.parametrize("statement", [SECOND_EVENT, SECOND_ATTEMPT], ids=["event", "attempt"])
def test_second_completion_is_doubled(data: Path, ledger: Ledger, statement: str) -> None:
    change(data, statement)
    assert [each.endswith("was completed 2 times") for each in judged(data, ledger).doubled] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events WHERE number = 2",
        "DELETE FROM events WHERE type = 'execution.completed'",
        "UPDATE events SET type = 'execution.failed' WHERE type = 'execution.completed'",
    ],
    ids=["gap", "no end", "wrong end"],
)
def test_wrong_events_are_gaps(data: Path, ledger: Ledger, statement: str) -> None:
    change(data, statement)
    assert len({each.split(":")[0] for each in judged(data, ledger).gaps}) == 2


def test_failure_needs_a_fault_that_explains_it(data: Path, ledger: Ledger) -> None:
    change(data, "UPDATE jobs SET state = 'failed', fault = CAST('{\"code\":\"ODD\"}' AS BLOB)")
    findings = judged(data, ledger)
    assert findings.failed == {"ODD": 2}
    assert len(findings.unexplained) == 2
    assert judged(data, ledger, frozenset({"ODD"})).unexplained == []


def test_cancellation_needs_a_client_that_asked(data: Path, ledger: Ledger) -> None:
    change(data, "UPDATE jobs SET state = 'cancelled'")
    asked = [entry.job.cancel_after is not None for entry in ledger.entries.values()]
    assert len(judged(data, ledger).unexplained) == asked.count(False) > 0


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_output_without_its_bytes_is_missing(data: Path, damage: Callable[[Path], object]) -> None:
    jobs = read_jobs(data)
    damaged = next(iter(jobs.values()))
    damage(data / "blobs" / damaged.outputs[0][0])
    assert [each.split(":")[0] for each in missing_blobs(data, jobs)] == [damaged.job_id]


def test_file_that_nothing_refers_to_is_an_orphan(data: Path) -> None:
    names = ["ab/" + "ab" * 32, "incoming/half"]
    for name in names:
        (data / "blobs" / name).parent.mkdir(exist_ok=True)
        (data / "blobs" / name).write_bytes(b"x")
    assert orphaned_blobs(data) == names


def test_blobs_are_made_older_and_nothing_else(data: Path) -> None:
    before = {path: path.stat().st_mtime for path in (data / "blobs").rglob("*") if path.is_file()}
    age_blobs(data, 1000)
    assert {path: round(path.stat().st_mtime - then) for path, then in before.items()} == (
        dict.fromkeys(before, -1000)
    )
    assert missing_blobs(data, read_jobs(data)) == []


def test_key_with_two_jobs_is_a_contradiction(tmp_path: Path) -> None:
    (job,) = some_jobs(1)
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        ledger.acknowledge(job, "one")
        ledger.acknowledge(job, "one")
        assert ledger.contradictions == []
        ledger.acknowledge(job, "two")
    assert ledger.contradictions == [f"{job.key} is one and two"]
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 3
