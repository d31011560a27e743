"""A body must keep coming: one that trickles in holds a connection and a request for nothing."""

import asyncio
import time

from starlette.types import Message, Receive

from comfyrail.errors import RequestTimeout

PATIENCE_SECONDS = 30.0
SLOWEST_BYTES_A_SECOND = 8192


class TimedBody:
    """It has 30 seconds, and longer only as far as it comes at 8 KiB a second or more."""

    def __init__(self, receive: Receive, patience: float) -> None:
        self._receive = receive
        self._patience = patience
        self._begun = time.monotonic()
        self._received = 0
        self._is_over = False
        self.is_too_slow = False

    async def receive(self) -> Message:
        """Raise RequestTimeout."""
        if self._is_over:
            return await self._receive()
        allowed = self._patience + self._received / SLOWEST_BYTES_A_SECOND
        try:
            async with asyncio.timeout(self._begun + allowed - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            self.is_too_slow = True
            raise RequestTimeout(
                f"The body of the request did not come: after {allowed:.0f} s there were "
                f"{self._received} bytes of it. Send it again over a better connection."
            ) from None
        self._received += len(message.get("body", b""))
        self._is_over = not message.get("more_body", False)
        return message
