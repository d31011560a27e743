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


def same_place(endpoint: str, other: str) -> bool:
    """Whether two addresses are spellings of one: this machine has several names."""
    return _without_alias(endpoint) == _without_alias(other)


def _without_alias(endpoint: str) -> tuple[str, str, int | None, str]:
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    alias = host in {"localhost", "0.0.0.0", "::1"}  # noqa: S104 - compared, not bound
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return parts.scheme, "127.0.0.1" if alias else host, port, parts.path
