"""Identifiers: distinct types for distinct things, and how new ones are made."""

import os
import time
import uuid
from typing import NewType

JobId = NewType("JobId", str)
WorkerId = NewType("WorkerId", str)
OutputId = NewType("OutputId", str)
TenantId = NewType("TenantId", str)
AttemptToken = NewType("AttemptToken", str)
"""Fencing token of one attempt; also the prompt id under which the worker knows it."""


def new_uuid() -> str:
    """A UUID version 7: unique, and increasing with time so that indexes grow at one end."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 68 & 0xFFF) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    return str(uuid.UUID(int=value))


def new_job_id() -> JobId:
    return JobId(new_uuid())


def new_output_id() -> OutputId:
    return OutputId(new_uuid())


def new_attempt_token() -> AttemptToken:
    return AttemptToken(str(uuid.uuid4()))
