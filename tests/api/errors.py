"""What every error of the API looks like."""

from typing import Any

FIELDS = {"category", "code", "message", "details", "retry_after", "timestamp", "request_id"}


def assert_error(body: Any, code: str) -> dict[str, Any]:
    """The one shape of all errors [7.1]."""
    error = body["error"]
    assert isinstance(error, dict)
    assert set(error) == FIELDS
    assert error["code"] == code, error
    assert error["message"]
    assert error["request_id"]
    return error
