"""`comfyrail agent`: make a ComfyUI on this machine a worker of a server that cannot reach it."""

import asyncio
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.cli.signals import stop_on_signals
from comfyrail.cli.terminal import errors, plain
from comfyrail.errors import ConfigurationError
from comfyrail.fleet.agent_dialer import (
    AgentDialer,
    AgentOptions,
    check_identity,
    comfy_address,
    is_exposed,
)


@dataclass(frozen=True, slots=True)
class AgentWishes:
    """What was said on the command line."""

    server: str
    comfyui: str
    name: str | None = None
    token: str | None = None
    labels: Sequence[str] = ()


def run_agent(wishes: AgentWishes) -> None:
    """Dial until a signal comes or the server removes the worker. Raises ConfigurationError."""
    options = _options(wishes)
    if is_exposed(options.server):
        _say("Note: the token crosses the network unprotected. Use https:// or wss://.")
    sys.exit(asyncio.run(_dial(options)))


async def _dial(options: AgentOptions) -> int:
    with stop_on_signals() as stopper:
        try:
            await AgentDialer(options, _say).run()
        except asyncio.CancelledError:
            if stopper.exit_code is None:
                raise
            _say("The agent stops.")
            return 0 if stopper.exit_code == 143 else stopper.exit_code
    return 0


def _options(wishes: AgentWishes) -> AgentOptions:
    if not wishes.token:
        explain_and_exit(
            "There is no token. Set COMFYRAIL_AGENT_TOKEN to the server's agent_token.", WRONG_USE
        )
    labels = dict(_label(text) for text in wishes.labels)
    name = wishes.name or _machine_name()
    try:
        check_identity(name, labels)
        comfyui = comfy_address(wishes.comfyui)
        is_exposed(wishes.server)
    except ConfigurationError as error:
        explain_and_exit(error.message, WRONG_USE)
    return AgentOptions(wishes.server, comfyui, name, wishes.token, labels)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        explain_and_exit(f"A label is given as KEY=VALUE, not {text!r}.", WRONG_USE)
    return key.strip(), value.strip()


def _machine_name() -> str:
    """The name of this machine, as far as it can be an agent's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-._")[:63] or "agent"


def _say(sentence: str) -> None:
    errors.print(plain(sentence), soft_wrap=True)
