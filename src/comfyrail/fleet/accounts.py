"""What the fleet asks and tells about the cost of work. Answered by whoever keeps the estimates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from comfyrail.jobs.job import Attempt, Usage


@dataclass(frozen=True, slots=True)
class Measured:
    """How an attempt went. `node_seconds` has the nodes that ran, `cached` those that need not.

    `is_whole`: the job is complete and was watched from its start, so that it teaches something.
    """

    seconds: float
    node_seconds: Mapping[str, float]
    cached: frozenset[str]
    is_whole: bool


class Account(Protocol):
    """One attempt on one worker."""

    def weights(self) -> Mapping[str, float]:
        """The share of each node in the work, by id; empty where nobody knows."""
        ...

    def settle(self, measured: Measured) -> Usage:
        """What it took, to be written with its end."""
        ...


class Accounts(Protocol):
    def open(self, attempt: Attempt, device: str | None) -> Account: ...


class NoAccounts:
    """Every node weighs the same and nothing costs anything."""

    def open(self, attempt: Attempt, device: str | None) -> Account:
        del attempt, device
        return _NoAccount()


class _NoAccount:
    def weights(self) -> Mapping[str, float]:
        return {}

    def settle(self, measured: Measured) -> Usage:
        del measured
        return Usage(0.0)
