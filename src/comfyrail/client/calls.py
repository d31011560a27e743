"""How the parts of the client reach the server."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import aiohttp

Reply = TypeVar("Reply")


class Ask(Protocol):
    """Send a request and read its JSON as a type."""

    async def __call__(
        self,
        method: str,
        path: str,
        kind: type[Reply],
        body: Mapping[str, Any] | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Reply: ...


class Call(Protocol):
    """Send a request and leave the reply to the caller."""

    def __call__(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = ...,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]: ...
