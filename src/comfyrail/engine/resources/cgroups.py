"""What the control groups of this process allow it: containers and services are limited so.

Both versions of Linux's control groups are read. A limit of a group holds for all groups below it,
so the smallest on the way up counts. Where there are none, or they cannot be read, there is no
limit.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SYSTEM_ROOT = Path("/")


def memory_limit_bytes(root: Path = SYSTEM_ROOT) -> int | None:
    """The most memory that this process may have, or None."""
    limits = [
        int(text)
        for group in _groups_of(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := _read(group / name).strip()).isdecimal()
    ]
    return min(limits, default=None)


def cpu_limit_cores(root: Path = SYSTEM_ROOT) -> float | None:
    """How many cores' time this process may use, or None."""
    limits = [
        quota / period
        for group in _groups_of(root, "cpu")
        for quota, period in (_quota_v1(group), _quota_v2(group))
        if quota > 0 and period > 0
    ]
    return min(limits, default=None)


def _quota_v1(group: Path) -> tuple[int, int]:
    return _number(_read(group / "cpu.cfs_quota_us")), _number(_read(group / "cpu.cfs_period_us"))


def _quota_v2(group: Path) -> tuple[int, int]:
    quota, _, period = _read(group / "cpu.max").partition(" ")
    return _number(quota), _number(period)


def _number(text: str) -> int:
    """0 for what is none: `max`, -1, nothing."""
    return int(text) if text.strip().isdecimal() else 0


def _groups_of(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's group and of those above it, as far as they are seen."""
    own = _own_groups(root)
    for point, seen, controllers in _mounts(root):
        # Version 2 has one hierarchy for all controllers; it has no name here.
        name = controller if controller in controllers else ""
        if (name or not controllers) and name in own:
            yield from _way_up(root / point, seen, own[name])


def _way_up(mounted: Path, seen: PurePosixPath, group: PurePosixPath) -> Iterator[Path]:
    """From the group up to the one that is seen where the hierarchy is mounted."""
    # In a container the group may be named as on the host, where the mount shows only its own.
    inside = group.relative_to(seen) if group.is_relative_to(seen) else PurePosixPath()
    for level in (inside, *inside.parents):
        yield mounted / level


def _own_groups(root: Path) -> dict[str, PurePosixPath]:
    """The group of this process by controller; version 2's has the name ''."""
    found: dict[str, PurePosixPath] = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        for controller in controllers.split(","):
            found[controller] = PurePosixPath(group)
    return found


def _mounts(root: Path) -> Iterator[tuple[str, PurePosixPath, list[str]]]:
    """Where hierarchies are mounted below the root, the group seen there, their controllers."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        mount, system = before.split(), after.split()
        if len(mount) < 5 or len(system) < 3 or system[0] not in {"cgroup", "cgroup2"}:
            continue
        controllers = system[2].split(",") if system[0] == "cgroup" else []
        yield mount[4].lstrip("/"), PurePosixPath(mount[3]), controllers


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
