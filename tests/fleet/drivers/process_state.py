"""What the system says of processes."""

from pathlib import Path


def is_running(pid: int) -> bool:
    """One that has ended, and that nobody has asked for its end, does not."""
    try:
        return _state(pid)[0] != "Z"
    except FileNotFoundError:
        return False


def parent_of(pid: int) -> int:
    return int(_state(pid)[1])


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in listed.split()]


def _state(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
