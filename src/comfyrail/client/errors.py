"""What a call can end with instead of an answer.

Exception
├── InvalidAddress     the server's address is none that HTTP can use
├── InvalidRequest     what was to be sent cannot be written as JSON
├── ServerUnreachable  nothing answers there
├── UnexpectedReply    something answers there, but not as a Comfyrail server does
└── RequestFailed      the server said no
"""

from collections.abc import Mapping
from typing import Any


class InvalidAddress(Exception):
    """The server's address is none that HTTP can use."""


class InvalidRequest(Exception):
    """What was to be sent cannot be written as JSON, such as text with half a character."""


class ServerUnreachable(Exception):
    """Nothing answers at the server's address."""


class UnexpectedReply(Exception):
    """Something answers at the server's address, but not as a Comfyrail server does."""


class RequestFailed(Exception):
    """The server said no; `body` is its error as the API reference describes it."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("message") or f"The server answered {status}."))
        self.status = status
        self.body = dict(body)

    @property
    def findings(self) -> list[dict[str, Any]]:
        details = self.body.get("details")
        found = details.get("findings") if isinstance(details, dict) else None
        return [each for each in found or () if isinstance(each, dict)]
