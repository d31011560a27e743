"""The event loop of the tests."""

import asyncio
import time

PATIENCE_SECONDS = 2.0


class PatientLoop(asyncio.SelectorEventLoop):
    """Gives the far ends of closed connections the time to notice before it closes.

    What a client has closed, its server sees an instant later; a loop that ends in between would
    blame the next test for it. What nobody closes is still reported.
    """

    def close(self) -> None:
        if not self.is_closed() and not self.is_running():
            end = time.monotonic() + PATIENCE_SECONDS
            while self._has_open_transports() and time.monotonic() < end:
                self.run_until_complete(asyncio.sleep(0.005))
        super().close()

    def _has_open_transports(self) -> bool:
        # The loop's own table, by descriptor.
        transports = getattr(self, "_transports", {})
        return any(getattr(each, "_sock", None) is not None for each in transports.values())
