"""What the fleet asks and tells about the cost of work. Answered by whoever keeps the estimates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from comfyrail.jobs.job import Attempt, Usage
from comfyrail.planning.model_plan import DEFAULT_BYTES_PER_SECOND


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

    def rate(self, device: str | None) -> float:
        """US dollars a second of a device."""
        ...

    def load_bytes_per_second(self) -> float:
        """How fast models have been loaded lately."""
        ...


class NoAccounts:
    """Every node weighs the same and nothing costs anything."""

    def open(self, attempt: Attempt, device: str | None) -> Account:
        del attempt, device
        return _NoAccount()

    def rate(self, device: str | None) -> float:
        del device
        return 0.0

    def load_bytes_per_second(self) -> float:
        return DEFAULT_BYTES_PER_SECOND


class _NoAccount:
    def weights(self) -> Mapping[str, float]:
        return {}

    def settle(self, measured: Measured) -> Usage:
        return Usage(0.0, seconds=measured.seconds)
