"""Driver `agent`: agents that dial in and come back, each with a ComfyUI behind it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from comfyrail.fleet.drivers.agent import AgentLines
from comfyrail.fleet.drivers.interface import WorkerHost
from tests.fleet.drivers.agent_parts import agent, agents_welcome
from tests.fleet.drivers.foreign_worker import foreign_worker
from tests.fleet.drivers.setting import Setting, host_context


def why_skipped() -> str | None:
    return None


@asynccontextmanager
async def open_setting(folder: Path) -> AsyncIterator[Setting]:
    lines = AgentLines()
    async with contextlib.AsyncExitStack() as rooms:
        context = await rooms.enter_async_context(host_context(folder, agents=lines))
        server = await rooms.enter_async_context(agents_welcome(lines))
        for name in ("one", "two"):
            comfy = await rooms.enter_async_context(foreign_worker())
            await rooms.enter_async_context(agent(server, comfy.url, name=name))

        async def kill(_host: WorkerHost, _url: str) -> None:
            """Cut its line; the agent dials again after a moment."""
            line = lines.line("one")
            assert line is not None
            line.drop("the cable was pulled")
            await asyncio.sleep(0)

        yield Setting(
            context=context,
            config={"name": "one", "grace_seconds": 0},
            other_config={"name": "two", "grace_seconds": 0},
            kill=kill,
            released_lives_on=True,
            has_logs=False,
            bad_configs=[
                ("name", {}),
                ("name", {"name": "../two"}),
                ("grace_seconds", {"name": "one", "grace_seconds": -1}),
                ("grace_seconds", {"name": "one", "grace_seconds": "long"}),
            ],
        )
