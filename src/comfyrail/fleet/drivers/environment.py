"""What a program that a driver starts on this machine gets to see of the server's environment."""

import os
from collections.abc import Iterable

OWN_PREFIX = "COMFYRAIL_"
SECRET_NAMES = ("COMFYRAIL_SECRET_", "COMFYRAIL_AGENT_TOKEN", "COMFYRAIL_API_KEY")
"""Beginnings of the names of those whose values nobody else may have under any name."""


def environment_for_workers(
    secrets: Iterable[str] = (), without: Iterable[str] = ()
) -> dict[str, str]:
    """The server's variables without what is the server's alone: its settings, and its secrets
    under whatever name. Nodes of others run in workers, and must not see them.

    `secrets` are values; `without` names further variables that the program must not inherit.
    """
    hidden = {value for name, value in os.environ.items() if name.startswith(SECRET_NAMES)}
    hidden = {value for value in hidden.union(secrets) if value}
    left_out = frozenset(without)
    return {
        name: value
        for name, value in os.environ.items()
        if name not in left_out and not name.startswith(OWN_PREFIX) and value not in hidden
    }
