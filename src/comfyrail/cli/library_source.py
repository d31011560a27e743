"""A workflow that a command names: the one that the library of the server has."""

from typing import Any

from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.cli.library import read_reference
from comfyrail.client import ComfyrailClient, RequestFailed


async def find_workflow(
    client: ComfyrailClient, source: dict[str, Any] | str
) -> tuple[dict[str, Any] | str, dict[str, Any]]:
    """What is run, and its nodes; a name that is in no library ends the command.

    A name gets its version: the one that is looked at is the one that runs.
    """
    if not isinstance(source, str):
        return source, source
    try:
        found = await client.library.show(*read_reference(source))
    except RequestFailed as error:
        if error.body.get("code") != "WORKFLOW_NOT_FOUND":
            raise
        explain_and_exit(
            f"There is no file '{source}', and no workflow of that name on {client.server}.",
            WRONG_USE,
        )
    return f"{found.name}@{found.version}", found.workflow
