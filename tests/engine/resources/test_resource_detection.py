"""What the machine has, and what its control groups leave of it."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from comfyrail.engine import allocation
from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.resources.cgroups import cpu_limit_cores, memory_limit_bytes
from comfyrail.engine.resources.detect import (
    detect_capacity,
    usable_cores,
    usable_memory_bytes,
)

MOUNT = "30 23 0:26 {seen} {point} rw,nosuid shared:4 - {kind} {kind} rw,{options}\n"
GIBIBYTE = 1 << 30


def system(root: Path, cgroup: str, mounts: str, **limits: str) -> Path:
    """A root folder in which a process's control groups are as given."""
    files = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mounts} | limits
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def version_2(root: Path, cgroup: str = "0::/\n", seen: str = "/", **limits: str) -> Path:
    mounts = MOUNT.format(seen=seen, point="/sys/fs/cgroup", kind="cgroup2", options="nsdelegate")
    inside = {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    return system(root, cgroup, mounts, **inside)


def version_1(root: Path, cgroup: str, seen: str = "/", **limits: str) -> Path:
    kinds = {"memory": "memory", "cpu,cpuacct": "cpu,cpuacct"}
    mounts = "".join(
        MOUNT.format(seen=seen, point=f"/sys/fs/cgroup/{name}", kind="cgroup", options=options)
        for name, options in kinds.items()
    )
    inside = {f"sys/fs/cgroup/{name}": text for name, text in limits.items()}
    return system(root, cgroup, mounts, **inside)


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(tmp_path) is None
    assert cpu_limit_cores(tmp_path) is None


def test_a_container_of_version_2_is_limited_at_its_mount(tmp_path: Path) -> None:
    files = {"memory.max": f"{GIBIBYTE}\n", "cpu.max": "150000 100000\n"}
    root = version_2(tmp_path, **files)
    assert memory_limit_bytes(root) == GIBIBYTE
    assert cpu_limit_cores(root) == 1.5


def test_the_smallest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    files = {
        "a/memory.max": f"{GIBIBYTE}\n",
        "a/b/memory.max": "max\n",
        "a/b/cpu.max": "max 100000\n",
        "a/cpu.max": "50000 100000\n",
        "memory.max": f"{4 * GIBIBYTE}\n",
        "other/memory.max": "1\n",
    }
    root = version_2(tmp_path, "0::/a/b\n", **files)
    assert memory_limit_bytes(root) == GIBIBYTE
    assert cpu_limit_cores(root) == 0.5


def test_a_group_named_as_on_the_host_is_found_where_it_is_mounted(tmp_path: Path) -> None:
    files = {"memory.max": f"{GIBIBYTE}\n"}
    root = version_2(tmp_path / "1", "0::/docker/abc\n", seen="/docker/abc", **files)
    assert memory_limit_bytes(root) == GIBIBYTE
    root = version_2(tmp_path / "2", "0::/docker/abc\n", seen="/else", **files)
    assert memory_limit_bytes(root) == GIBIBYTE


def test_limits_of_version_1_are_read(tmp_path: Path) -> None:
    files = {
        "memory/job/memory.limit_in_bytes": f"{GIBIBYTE}\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n",
        "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
    }
    root = version_1(tmp_path, "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n", **files)
    assert memory_limit_bytes(root) == GIBIBYTE
    assert cpu_limit_cores(root) == 3


def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    root = system(tmp_path, "\nnonsense\n::\n", "\n- - -\ncgroup2\n1 2 3 4 5 - cgroup2 x y\n")
    assert memory_limit_bytes(root) is None
    assert cpu_limit_cores(root) is None


def test_this_machine_has_at_least_what_runs_this_test(tmp_path: Path) -> None:
    found = detect_capacity(tmp_path / "not" / "there yet")
    assert 1 <= found.cpu_cores <= (os.cpu_count() or 1)
    assert found.memory_mb > 64
    assert found.disk_space_mb > 0
    assert found.network_bandwidth_mbps > 0


def test_limits_are_the_capacity_where_they_are_less(tmp_path: Path) -> None:
    files = {"memory.max": f"{64 << 20}\n", "cpu.max": "10000 100000\n"}
    root = version_2(tmp_path, **files)
    found = detect_capacity(tmp_path, root)
    assert found.memory_mb == 64
    assert found.cpu_cores == 1
    assert usable_memory_bytes(version_2(tmp_path, **{"memory.max": f"{1 << 62}"})) < 1 << 62
    files = {"cpu.max": "9900000 100000\n"}
    assert usable_cores(version_2(tmp_path, **files)) == len(os.sched_getaffinity(0))


def fake_torch(**cuda: Any) -> SimpleNamespace:
    return SimpleNamespace(cuda=SimpleNamespace(**cuda))


def test_gpus_are_those_that_torch_sees_if_it_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory = [24 * GIBIBYTE, 8 * GIBIBYTE]
    torch = fake_torch(
        is_available=lambda: True,
        device_count=lambda: len(memory),
        get_device_properties=lambda device: SimpleNamespace(total_memory=memory[device]),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert detect_capacity(tmp_path).gpus == (24 * 1024, 8 * 1024)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(is_available=lambda: False))
    assert detect_capacity(tmp_path).gpus == ()
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    assert detect_capacity(tmp_path).gpus == ()
    monkeypatch.delitem(sys.modules, "torch")
    assert detect_capacity(tmp_path).gpus == ()
    assert "torch" not in sys.modules


def test_an_array_may_take_half_of_what_the_process_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocation, "usable_memory_bytes", lambda: 8000)
    allocation._largest_array.cache_clear()
    try:
        check_room_for((1000,))
        with pytest.raises(MemoryError, match="half of the memory"):
            check_room_for((1001,))
    finally:
        allocation._largest_array.cache_clear()
