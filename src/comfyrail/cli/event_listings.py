"""What `comfyrail events` does."""

import sys
from collections.abc import Sequence

import msgspec

from comfyrail.cli.exits import call_server
from comfyrail.cli.terminal import line, say
from comfyrail.client import ComfyrailClient, FeedEvent

LONGEST_DATA = 160


def follow_events(
    server: str,
    *,
    types: Sequence[str] | None,
    job: str | None,
    workflow: str | None,
    after: int | None,
    is_json: bool,
) -> None:
    """Until it is interrupted, or the server stays away."""

    async def ask() -> None:
        async with ComfyrailClient(server) as client:
            async for event in client.all_events(
                after, types=types, execution_id=job, workflow_id=workflow
            ):
                if is_json:
                    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
                    sys.stdout.buffer.flush()
                else:
                    say(_sentence(event))

    call_server(ask())


def _sentence(event: FeedEvent) -> str:
    when = event.timestamp.astimezone().strftime("%H:%M:%S") if event.timestamp else ""
    of = event.execution_id or ""
    data = line(msgspec.json.encode(event.data).decode())
    shown = data if len(data) <= LONGEST_DATA else data[: LONGEST_DATA - 1] + "…"
    return f"{event.id}  {when}  {event.type}  {of}  {shown}"
