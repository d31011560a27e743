"""Headers of requests and replies, as the OpenAPI describes them."""

from typing import Any

from comfyrail.api.idempotency import LONGEST_KEY
from comfyrail.api.versions import NAMES

JSON = dict[str, Any]


def _text(description: str, **schema: Any) -> JSON:
    return {"description": description, "schema": {"type": "string", **schema}}


def _number(description: str) -> JSON:
    return {"description": description, "schema": {"type": "integer"}}


REQUEST_HEADERS: dict[str, JSON] = {
    "Idempotency-Key": {
        **_text(
            "Your name for this request: the same one twice is done once, and answered twice.",
            minLength=1,
            maxLength=LONGEST_KEY,
        ),
        "example": "order-4711",
    },
    "X-Request-ID": {
        **_text("Your id of the request, used in place of a new one where it is harmless."),
        "example": "af1d3123c9954fb38c36a8fa8c51b7fb",
    },
    "Prefer": {
        **_text(
            "`wait=N` waits for the end of the job, for N seconds at most (RFC 7240); "
            "`respond-async` does not."
        ),
        "example": "wait=30",
    },
    "If-None-Match": {
        **_text("ETags that you have: 304 where nothing has changed since."),
        "example": '"9-5b0cdb32"',
    },
    "Last-Event-ID": {
        **_text("The number of the last event that you have.", pattern="^[0-9]{1,15}$"),
        "example": "7",
    },
    "Range": {**_text("The part of the file that you want."), "example": "bytes=0-99"},
}


def version_header(version: str) -> JSON:
    names = [name for name, meant in NAMES.items() if meant == version]
    return {
        **_text("The version that you mean. It must be that of the path.", enum=names),
        "example": version,
    }


REPLY_HEADERS: dict[str, JSON] = {
    "X-Request-ID": _text("Under which the server's log names this request."),
    "X-API-Version": _text("The version that answers.", enum=sorted(set(NAMES.values()))),
    "Deprecation": _text("Since when there is a better route, in seconds since 1970 (RFC 9745)."),
    "Link": _text("The route of the next version, or the next page."),
    "Retry-After": _number("Seconds after which to try again."),
    "ETag": _text("Names this state of things: send it back as If-None-Match."),
    "Location": _text("Where the new thing is."),
    "Preference-Applied": _text("Which preference was heeded."),
    "Idempotent-Replayed": _text("The answer is that of an earlier request.", enum=["true"]),
    "WWW-Authenticate": _text("How to say who you are."),
    "X-RateLimit-Limit": _number("Requests of this kind a minute that your tier has."),
    "X-RateLimit-Remaining": _number("How many of them are left."),
    "X-RateLimit-Reset": _number("When there are more."),
}
RATE_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")


def reply_headers(*names: str) -> JSON:
    """References to some of them."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}
