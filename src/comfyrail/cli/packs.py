"""Which packs of nodes a worker could not load."""

import aiohttp
import msgspec

ASK_SECONDS = 3.0
LARGEST_REPLY = 1 << 20


class FailedPack(msgspec.Struct, frozen=True):
    name: str
    path: str
    reason: str


class _Reply(msgspec.Struct, frozen=True):
    failures: list[FailedPack]


async def pack_failures(endpoint: str) -> list[FailedPack]:
    """Ask a worker; none where it does not answer, or is a ComfyUI, which does not say."""
    timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{endpoint.rstrip('/')}/comfyrail/packs") as reply,
        ):
            if reply.status != 200:
                return []
            content = await reply.content.read(LARGEST_REPLY)
        return msgspec.json.decode(content, type=_Reply).failures
    except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, ValueError):
        return []
