"""Driver `agent`: a ComfyUI behind NAT, whose agent has dialed out to this server [5.7].

`comfyrail agent` on that machine holds one WebSocket to this server and carries connections over it
to its ComfyUI and to nothing else. For the rest of the server it is a worker with a URL.
"""

from collections.abc import Mapping
from typing import Any

from comfyrail.errors import DriverRefused, WorkerError
from comfyrail.fleet.drivers.agent_endpoint import agent_app
from comfyrail.fleet.drivers.agent_frames import name_fault
from comfyrail.fleet.drivers.agent_lines import AgentLines
from comfyrail.fleet.drivers.interface import Driver, HostContext
from comfyrail.fleet.drivers.settings import (
    DriverSettings,
    plain_settings,
    read_settings,
    wrong_setting,
)
from comfyrail.ids import WorkerId

__all__ = ["DRIVER", "AgentDriver", "AgentHost", "AgentLines", "agent_app"]

CONNECT_SECONDS = 30.0


class AgentSettings(DriverSettings, frozen=True):
    name: str
    grace_seconds: float = 30.0
    """How long the line may be gone before the worker counts as ended."""


class AgentHost:
    driver = "agent"
    shares_inputs = False

    def __init__(self, settings: AgentSettings, lines: AgentLines) -> None:
        self._settings = settings
        self._lines = lines

    @property
    def place(self) -> str | None:
        return f"agent://{self._settings.name}"

    async def start(self) -> str:
        return await self._lines.wait_connected(self._settings.name, CONNECT_SECONDS)

    async def wait_ended(self) -> str:
        return await self._lines.wait_gone(self._settings.name, self._settings.grace_seconds)

    async def stop(self) -> None:
        """Neither the ComfyUI nor its agent is ours to end: nobody gets through to it any more,
        until it is started again. Whoever removes the worker calls `AgentLines.dismiss` too.
        """
        await self._lines.close_port(self._settings.name)

    async def release(self) -> None:
        """The agent finds the next server by itself."""

    async def logs(self, lines: int) -> str:
        del lines
        raise WorkerError(
            f"The log of {self._settings.name} is on the machine of its agent: look there.",
            code="NO_LOG",
        )


class AgentDriver:
    name = "agent"

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = read_settings(AgentSettings, config, self.name)
        fault = name_fault(settings.name)
        if fault is not None:
            raise wrong_setting(self.name, "name", fault)
        if not 0 <= settings.grace_seconds <= 3600:
            raise wrong_setting(self.name, "grace_seconds", "It is 0 to 3600 seconds.")
        return plain_settings(settings)

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> AgentHost:
        del worker_id
        if not isinstance(context.agents, AgentLines):
            raise DriverRefused(
                "This server takes no agents: set agent_token, and agent_host and agent_port "
                "where agents shall come in.",
                code="NO_AGENTS",
            )
        return AgentHost(read_settings(AgentSettings, config, self.name), context.agents)


DRIVER: Driver = AgentDriver()
