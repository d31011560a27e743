"""Leases: the right to compute one key, among processes."""

from typing import Protocol


class LeasesUnavailable(Exception):
    """Nobody can say now who computes what."""


class Lease(Protocol):
    def release(self) -> None:
        """Let go; once is enough, more does no harm. Raises nothing."""
        ...


class LeaseKeeper(Protocol):
    """Gives each lease to one process at a time. A process that dies loses its leases."""

    def acquire(self, key: str) -> Lease | None:
        """None when another has it. Raises LeasesUnavailable; does not wait."""
        ...

    def is_held(self, key: str) -> bool:
        """Whether somebody has it; False where nobody can say."""
        ...

    def close(self) -> None:
        """Let go of all that this process holds."""
        ...
