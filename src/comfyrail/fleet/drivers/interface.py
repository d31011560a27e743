"""What a driver must offer. A new driver is one file here and one line in `registry.py`.

Every driver passes tests/fleet/drivers/test_every_driver.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from comfyrail.clock import Clock
from comfyrail.ids import WorkerId


class WorkerHost(Protocol):
    """The place where one worker lives.

    What a host makes is found again by the worker's id: `start` in a new process of the server
    returns to the worker that an earlier process started, where it still runs.
    """

    driver: str
    shares_inputs: bool
    """Whether the worker reads the server's own input folder: nothing need be uploaded then."""

    @property
    def place(self) -> str | None:
        """Where the worker is in the end, in one spelling (as `normal_endpoint` makes), so that
        the same server given twice, by whichever drivers, is noticed; None: nobody else has it.
        """
        ...

    async def start(self) -> str:
        """Make sure that the worker exists; return a URL under which this server reaches it.

        Called again after `wait_ended` returned: it may then be another URL. Raises
        WorkerUnreachable for what may pass (with `retry_after` where the other side says it), and
        DriverRefused for what only a person can mend: a changed host key, a wrong credential, an
        image or a program that is not there.
        """
        ...

    async def wait_ended(self) -> str:
        """Return, with the cause, when the worker is known to have ended; maybe never."""
        ...

    async def stop(self) -> None:
        """End the worker if it is ours to end, also one that an earlier process had started."""
        ...

    async def release(self) -> None:
        """The server stops: let go. What can outlive the server stays and is found again."""
        ...

    async def logs(self, lines: int) -> str:
        """The last lines of the worker's log. Raises WorkerError where there is none to be had."""
        ...


def can_remove_outputs(host: WorkerHost) -> bool:
    """Whether `remove_outputs` would do something. Only some hosts have these two."""
    return bool(getattr(host, "can_remove_outputs", False))


async def remove_outputs(host: WorkerHost, folder: str) -> bool:
    """Remove a folder (`run-…`) below the worker's outputs; False where the host cannot. Raises
    WorkerError where it did not work.
    """
    remove = getattr(host, "remove_outputs", None)
    return bool(await remove(folder)) if remove is not None else False


def ends_with_server(host: WorkerHost) -> bool:
    """Whether the worker cannot outlive the server, so that its jobs are let finish before that
    stops. A host of such a worker has an attribute of this name.
    """
    return bool(getattr(host, "ends_with_server", False))


@dataclass(frozen=True, slots=True)
class HostContext:
    """What the server gives every driver."""

    data: Path
    """The server's data folder. A worker's own files go to `worker_folder`."""
    http: aiohttp.ClientSession
    clock: Clock
    engine_config: Path | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Credentials by name (`novita_api_key`, …): from the environment, never from a record."""
    agents: Any = None
    """The server's end of agents' lines (comfyrail.fleet.drivers.agent.AgentLines)."""

    @property
    def input_folder(self) -> Path:
        return (self.data / "input").absolute()

    @property
    def cache_folder(self) -> Path:
        return (self.data / "cache").absolute()

    def worker_folder(self, worker_id: WorkerId) -> Path:
        return (self.data / "workers" / worker_id).absolute()


class Driver(Protocol):
    """Makes hosts from settings that a person wrote."""

    name: str

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings in full and in one spelling. Raises WorkerRefused naming the field that is
        wrong and what it may be; unknown fields too.
        """
        ...

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> WorkerHost:
        """The host of one worker, from settings that `check` has returned."""
        ...
