"""Nothing is lost and nothing is done twice, whatever fails [4.1, 7.4]."""

from pathlib import Path

import pytest

from comfyrail.faultlab.disks import loop_disk_obstacle
from comfyrail.faultlab.faults.registry import ALL_FAULTS
from tests.faults.runs import (
    DISK_KINDS,
    LINE_KINDS,
    PROCESS_KINDS,
    STORE_KINDS,
    assert_nothing_wrong,
    run_kinds,
)


def test_every_kind_of_fault_is_done_below() -> None:
    done = (*PROCESS_KINDS, *LINE_KINDS, *DISK_KINDS, *STORE_KINDS)
    assert sorted(done) == sorted(fault.name for fault in ALL_FAULTS)


async def test_nothing_is_lost_while_processes_and_lines_fail(tmp_path: Path) -> None:
    kinds = (*PROCESS_KINDS, *LINE_KINDS)
    assert_nothing_wrong(await run_kinds(tmp_path, *kinds, jobs=30), *kinds)


async def test_nothing_is_lost_while_disk_clock_database_and_local_workers_fail(
    tmp_path: Path,
) -> None:
    obstacle = loop_disk_obstacle()
    kinds = (*STORE_KINDS, *(DISK_KINDS if obstacle is None else ("disk-full",)))
    assert_nothing_wrong(await run_kinds(tmp_path, *kinds, lease=2.0), *kinds)
    if obstacle is not None:
        pytest.skip(f"NO DISK OF OUR OWN HERE, disk-slow and -read-only not tested: {obstacle}")
