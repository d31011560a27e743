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
AttemptToken = NewType("AttemptToken", str)
"""Fencing token of one attempt; also the prompt id under which the worker knows it."""


_lock = threading.Lock()
_last = 0
_TIME_STEP = 1 << 74  # of the 74 random bits two stay 0 at first: room to count up


def new_uuid() -> str:
    """A UUID version 7, each larger than the one before: the order of ids is that of making."""
    global _last  # noqa: PLW0603 - the one memory that makes them increase
    moment = (time.time_ns() // 1_000_000) * _TIME_STEP
    with _lock:
        _last = max(moment + int.from_bytes(os.urandom(9), "big"), _last + 1)
        value = _last
    high, low = value >> 62, value & (1 << 62) - 1
    milliseconds, sequence = high >> 12, high & 0xFFF
    return str(uuid.UUID(int=milliseconds << 80 | 0x7 << 76 | sequence << 64 | 0b10 << 62 | low))


def new_job_id() -> JobId:
    return JobId(new_uuid())


def new_output_id() -> OutputId:
    return OutputId(new_uuid())


def new_attempt_token() -> AttemptToken:
    return AttemptToken(str(uuid.uuid4()))
