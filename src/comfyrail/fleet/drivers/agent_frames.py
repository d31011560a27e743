"""The messages on an agent's line: how streams of bytes share one WebSocket.

Every message of the WebSocket is one frame: a byte for its kind, four for the number of its stream,
and the rest. The first frame of a line is the agent's HELLO, the second the server's WELCOME or
REFUSE. From then on the server opens streams, each of which the agent joins to one connection to
its ComfyUI; both ends send DATA on it no faster than the other gives WINDOW.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Protocol

import msgspec

PROTOCOL = 1
"""The version of what this file says. Both ends must have the same."""

LARGEST_DATA = 32 << 10
"""Bytes in one frame: small, so that streams take turns."""
LARGEST_FRAME = 64 << 10
"""Of any kind: a WebSocket need not take larger messages."""
WINDOW = 1 << 20
"""Bytes that may be under way on one stream in one direction before the receiver asks for more: so
much for each journey there and back, 10 MB/s over a line of 100 ms."""
MOST_STREAMS = 64
"""WINDOW times this is the most that a line can make one end hold."""
PING_SECONDS = 2.0
SILENCE_SECONDS = 6.0
"""A line on which nothing was heard for so long is dead. Both ends send a PING more often. A line
that breaks is noticed and made anew well before the lease of a job on the other end is over."""
GREETING_SECONDS = 10.0
LONGEST_REASON = 500

LABEL_LIMIT = 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HEADER = struct.Struct(">BI")
_CREDIT = struct.Struct(">I")


class Kind(IntEnum):
    HELLO = 1
    WELCOME = 2
    REFUSE = 3
    OPEN = 4
    DATA = 5
    FINISH = 6
    """No more data comes on this stream from this side."""
    RESET = 7
    """The stream is over, in both directions; what was under way is lost."""
    CREDIT = 8
    PING = 9
    PONG = 10
    DISMISS = 11
    """The server removed this worker: the agent shall end and not come back by itself."""


class LineDropped(Exception):
    """The line is over; the text says why."""


class Misuse(LineDropped):
    """The other end broke the rules of this file."""


class Socket(Protocol):
    """One WebSocket, of whichever library. Messages are binary."""

    async def receive_bytes(self) -> bytes:
        """The next message. Raises LineDropped when there is none to come."""
        ...

    async def send_bytes(self, data: bytes) -> None:
        """Send a message and wait while too much is under way. Raises LineDropped."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class Hello(msgspec.Struct, kw_only=True):
    """What an agent says first. Fields that this version does not know are passed over."""

    protocol: int
    name: Annotated[str, msgspec.Meta(max_length=200)]
    version: Annotated[str, msgspec.Meta(max_length=100)] = ""
    instance: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """Of one process of the agent: its next line may take the place of its last one at once."""
    labels: dict[str, str] = {}
    path: Annotated[str, msgspec.Meta(max_length=200, pattern=r"^(/[A-Za-z0-9._~-]+)*$")] = ""
    """Under which the agent's ComfyUI answers, where that is not the root of its host."""


class Welcome(msgspec.Struct, kw_only=True):
    protocol: int
    version: str = ""


class Refusal(msgspec.Struct, kw_only=True):
    """Why the server does not take a line. `code` is for the agent, `message` for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Frame:
    kind: Kind
    stream: int = 0
    payload: bytes = b""

    def encode(self) -> bytes:
        return _HEADER.pack(self.kind, self.stream) + self.payload


def decode_frame(message: bytes) -> Frame:
    """Raises Misuse for what is no frame."""
    if not _HEADER.size <= len(message) <= LARGEST_FRAME:
        raise Misuse("the other end sent a message that is no frame")
    number, stream = _HEADER.unpack_from(message)
    try:
        kind = Kind(number)
    except ValueError as error:
        raise Misuse(f"the other end sent a frame of an unknown kind ({number})") from error
    return Frame(kind, stream, message[_HEADER.size :])


def credit_frame(stream: int, count: int) -> Frame:
    return Frame(Kind.CREDIT, stream, _CREDIT.pack(count))


def read_credit(frame: Frame) -> int:
    """Raises Misuse."""
    if len(frame.payload) != _CREDIT.size:
        raise Misuse("the other end sent a CREDIT that is none")
    return int(_CREDIT.unpack(frame.payload)[0])


def reason_of(frame: Frame) -> str:
    return frame.payload[:LONGEST_REASON].decode(errors="replace")


def name_fault(name: str) -> str | None:
    """What is wrong with an agent's name; None when it is a good one."""
    if _NAME.fullmatch(name):
        return None
    return (
        f"{name[:80]!r} cannot be the name of an agent. A name has 1 to 63 letters (A-Z), digits, "
        "dots, dashes and underscores, and begins with a letter or a digit."
    )


def labels_fault(labels: Mapping[str, str]) -> str | None:
    """What is wrong with an agent's labels; None when they are good ones."""
    if len(labels) > LABEL_LIMIT:
        return f"An agent has {LABEL_LIMIT} labels at most, not {len(labels)}."
    for key, value in labels.items():
        if not _NAME.fullmatch(key):
            return f"{key[:80]!r} cannot be the name of a label; it has the same rules as a name."
        if not 0 < len(value) <= 100 or not value.isprintable():
            return f"The label {key} must have a value of 1 to 100 printable characters."
    return None
