"""All kinds of faults by name."""

from collections.abc import Sequence

from comfyrail.errors import ConfigurationError
from comfyrail.faultlab.faults.disk_faults import DiskFull, DiskReadOnly, DiskSlow
from comfyrail.faultlab.faults.fault import Fault
from comfyrail.faultlab.faults.line_faults import SocketDrop, SocketHalfOpen, SocketSlow
from comfyrail.faultlab.faults.server_faults import ServerKill, ServerPause, ServerStop
from comfyrail.faultlab.faults.store_faults import ClockJump, DatabaseLocked
from comfyrail.faultlab.faults.worker_faults import (
    LocalWorkerKill,
    WorkerKill,
    WorkerPause,
    WorkerRestart,
)

MIXED = "mixed"
"""All kinds that the machine allows, at random."""

ALL_FAULTS: tuple[Fault, ...] = (
    ServerKill(),
    ServerPause(),
    ServerStop(),
    WorkerKill(),
    WorkerPause(),
    WorkerRestart(),
    LocalWorkerKill(),
    SocketDrop(),
    SocketHalfOpen(),
    SocketSlow(),
    DiskSlow(),
    DiskFull(),
    DiskReadOnly(),
    ClockJump(),
    DatabaseLocked(),
)
_BY_NAME = {fault.name: fault for fault in ALL_FAULTS}
KIND_NAMES = (*_BY_NAME, MIXED)


def faults_named(kind: str) -> Sequence[Fault]:
    """The faults of one row of the table. Raises ConfigurationError for a name that is none.

    Several names joined by `+` are done in one run, at random.
    """
    if kind == MIXED:
        return ALL_FAULTS
    names = kind.split("+")
    unknown = [name for name in names if name not in _BY_NAME]
    if unknown:
        raise ConfigurationError(
            f"There is no kind of fault called {unknown[0]!r}. Known are: {', '.join(KIND_NAMES)}."
        )
    return [_BY_NAME[name] for name in names]
