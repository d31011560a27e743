"""Driver `static`: an existing ComfyUI or `comfyrail worker`, known by its URL, never ended."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from comfyrail.errors import WorkerError, WorkerRefused
from comfyrail.fleet.drivers.foreign_log import ask_for_log
from comfyrail.fleet.drivers.interface import HostContext
from comfyrail.fleet.drivers.settings import DriverSettings, plain_settings, read_settings
from comfyrail.ids import WorkerId
from comfyrail.network.urls import without_secrets


class StaticSettings(DriverSettings, kw_only=True, frozen=True):
    url: str
    """Where the server reaches it: http://127.0.0.1:8188."""


class StaticDriver:
    name = "static"

    def check(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = read_settings(StaticSettings, config, self.name)
        url = normal_endpoint(settings.url)
        return plain_settings(msgspec.structs.replace(settings, url=url))

    def host(
        self, worker_id: WorkerId, config: Mapping[str, Any], context: HostContext
    ) -> "StaticHost":
        del worker_id  # it has nothing of ours by which to find it again
        return StaticHost(read_settings(StaticSettings, config, self.name).url, context.http)


class StaticHost:
    driver = "static"
    shares_inputs = False

    def __init__(self, endpoint: str, http: aiohttp.ClientSession | None = None) -> None:
        """Without `http` its log cannot be asked for."""
        self._endpoint = endpoint
        self._http = http

    @property
    def place(self) -> str | None:
        return self._endpoint

    async def start(self) -> str:
        return self._endpoint

    async def wait_ended(self) -> str:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("unreachable")

    async def stop(self) -> None:
        """It is not ours to end."""

    async def release(self) -> None:
        """It was never held."""

    async def logs(self, lines: int) -> str:
        if self._http is None:
            raise WorkerError("This worker's log can only be seen where it runs.")
        return await ask_for_log(self._http, self._endpoint, lines)


def normal_endpoint(url: str) -> str:
    """The URL in one spelling. Raises WorkerRefused when it is not an HTTP address."""
    text = url.strip()
    parts = None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        has_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        # Line breaks and the like are no longer in `parts`: they are left out without a word.
        is_usable = has_address and text.isprintable()
    except ValueError:
        is_usable = False
    if parts is None or not is_usable or parts.username or parts.query or parts.fragment:
        raise WorkerRefused(
            f"{without_secrets(url)[:200]!r} is not the address (url) of a worker. Give it like http://127.0.0.1:8188.",
            code="INVALID_WORKER_URL",
            details={"field": "url"},
        )
    return urlunsplit((parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", ""))
