"""Small runs of the fault harness."""

from pathlib import Path

from comfyrail.faultlab.figures import Row
from comfyrail.faultlab.run import Plan, run_plan

PROCESS_KINDS = (
    "server-kill",
    "server-pause",
    "server-stop",
    "worker-kill",
    "worker-pause",
    "worker-restart",
)
LINE_KINDS = ("socket-drop", "socket-half-open", "socket-slow")
DISK_KINDS = ("disk-slow", "disk-full", "disk-read-only")
STORE_KINDS = ("local-worker-kill", "clock-jump", "database-locked")


async def run_kinds(folder: Path, *kinds: str, jobs: int = 30, lease: float = 1.0) -> Row:
    """All of these kinds at least once, in one run."""
    plan = Plan(
        "+".join(kinds),
        jobs,
        seed=1,
        interval=0.3,
        lease=lease,
        job_seconds=(0.05, 0.2),
        stall_seconds=45,
    )
    return await run_plan(plan, folder, print)


def assert_nothing_wrong(row: Row, *kinds: str) -> None:
    assert row.wrongs == [], (row.wrongs, row.notes, row.strikes)
    assert {strike.kind for strike in row.strikes} == set(kinds)
    assert row.completed + row.cancelled + sum(row.failed.values()) == row.jobs
    assert row.completed > row.jobs / 2
    # They ended while the harness looked, and not only once it had started the server anew.
    assert not [note for note in row.notes if "nothing went on" in note]
