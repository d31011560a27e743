"""Identifiers: distinct types for distinct things, and how new ones are made."""

import os
import threading
import time
import uuid
from typing import NewType

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)
OutputId = NewType("OutputId", str)
TenantId = NewType("TenantId", str)
BatchId = NewType("BatchId", str)
AssetId = NewType("AssetId", str)
AttemptToken = NewType("AttemptToken", str)
"""Fencing token of one attempt; also the prompt id under which the worker knows it."""


class _Chance:
    """Random bytes of the system, fetched many at once.

    Every call of the system lets other threads go first, which on a busy server costs far more than
    the bytes do. After a fork the child begins anew: no two processes give out the same bytes.
    """

    BATCH = 4096

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._bytes = b""
        self._next = 0

    def take(self, count: int) -> bytes:
        with self._lock:
            if self._next + count > len(self._bytes):
                self._bytes = os.urandom(self.BATCH)
                self._next = 0
            self._next += count
            return self._bytes[self._next - count : self._next]


_chance = _Chance()
_lock = threading.Lock()
_last = 0
_TIME_STEP = 1 << 74  # of the 74 random bits two stay 0 at first: room to count up


def new_uuid() -> str:
    """A UUID version 7, each larger than the one before: the order of ids is that of making."""
    global _last  # noqa: PLW0603 - the one memory that makes them increase
    moment = (time.time_ns() // 1_000_000) * _TIME_STEP
    with _lock:
        _last = max(moment + int.from_bytes(_chance.take(9), "big"), _last + 1)
        value = _last
    high, low = value >> 62, value & (1 << 62) - 1
    milliseconds, sequence = high >> 12, high & 0xFFF
    return str(uuid.UUID(int=milliseconds << 80 | 0x7 << 76 | sequence << 64 | 0b10 << 62 | low))


def first_id_at(milliseconds: int) -> str:
    """The smallest id that can have been made at this time (since the epoch)."""
    return str(uuid.UUID(int=milliseconds << 80 | 0x7 << 76 | 0b10 << 62))


def new_job_id() -> JobId:
    return JobId(new_uuid())


def new_output_id() -> OutputId:
    return OutputId(new_uuid())


def new_asset_id() -> AssetId:
    return AssetId(new_uuid())


def new_attempt_token() -> AttemptToken:
    return AttemptToken(str(uuid.UUID(bytes=_chance.take(16), version=4)))


def new_request_id() -> str:
    return _chance.take(16).hex()
