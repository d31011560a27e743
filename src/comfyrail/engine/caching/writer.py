"""A thread that writes to the levels, so that whoever computes does not wait for them."""

import threading
from collections import deque
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)

Work = Callable[[], None]


class BackgroundWriter:
    """Does one piece of work after the other, in the order given.

    What waits is bounded by bytes: past that, `submit` refuses. Its thread starts with the first
    piece of work.
    """

    def __init__(self, name: str, max_bytes: int) -> None:
        self._name = name
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Work, int]] = deque()
        self._held_bytes = 0
        self._is_busy = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def submit(self, work: Work, size: int = 0) -> bool:
        """False when there is no room for `size` more bytes, or after `close`.

        Work without a size is always taken. So is work that alone is larger than the room.
        """
        with self._changed:
            is_full = size and self._held_bytes and self._held_bytes + size > self._max_bytes
            if is_full or self._is_closed:
                return False
            self._waiting.append((work, size))
            self._held_bytes += size
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return True

    def flush(self, timeout: float) -> bool:
        """Wait until all work given so far is done; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, timeout)

    def forget_writes(self) -> None:
        """Drop the work that has a size and has not begun."""
        with self._changed:
            kept = [piece for piece in self._waiting if not piece[1]]
            self._held_bytes -= sum(size for _, size in self._waiting)
            self._waiting = deque(kept)
            self._changed.notify_all()

    def close(self, timeout: float) -> None:
        """Finish what waits within the time, drop the rest."""
        self.flush(timeout)
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)

    def _is_idle(self) -> bool:
        return not self._waiting and not self._is_busy

    def _run(self) -> None:
        while (piece := self._next()) is not None:
            work, size = piece
            try:
                work()
            except Exception:  # the next write must not suffer for this one
                log.exception("cache_write_failed")
            with self._changed:
                self._is_busy = False
                self._held_bytes -= size
                self._changed.notify_all()

    def _next(self) -> tuple[Work, int] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                return None
            self._is_busy = True
            return self._waiting.popleft()
