"""Driver `static`: an existing ComfyUI or `comfyrail worker`, known by its URL, never ended."""

import asyncio
from urllib.parse import urlsplit, urlunsplit

from comfyrail.errors import WorkerRefused


class StaticHost:
    driver = "static"

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    async def start(self) -> str:
        return self._endpoint

    async def wait_ended(self) -> str:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")

    async def stop(self) -> None:
        """It is not ours to end."""


def normal_endpoint(url: str) -> str:
    """The URL in one spelling. Raises WorkerRefused when it is not an HTTP address."""
    parts = None
    try:
        parts = urlsplit(url.strip() if "://" in url else f"http://{url.strip()}")
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_usable = False
    if parts is None or not is_usable or parts.username or parts.query or parts.fragment:
        raise WorkerRefused(
            f"{url!r} is not the address of a worker. Give it like http://127.0.0.1:8188.",
            code="INVALID_WORKER_URL",
        )
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", ""))
