"""Pages of other sites that may use the API with a key or a token of their own [11.3]."""

from collections.abc import Collection, Sequence

from starlette.responses import Response
from starlette.types import Scope

from comfyrail.api.origins import is_own
from comfyrail.api.request_head import RequestHead

ANY = "*"
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
REQUEST_HEADERS = (
    "Authorization, Content-Type, Idempotency-Key, X-API-Key, Last-Event-ID, Prefer, Range, "
    "If-None-Match, If-Match, X-API-Version, X-Request-ID"
)
REPLY_HEADERS = (
    "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, "
    "Retry-After, Location, ETag, X-Request-ID, Idempotent-Replayed, Content-Disposition, "
    "Content-Range, Upload-Offset, X-API-Version, Preference-Applied, Deprecation, Link"
)
PREFLIGHT_SECONDS = 600

Headers = Sequence[tuple[bytes, bytes]]


class Cors:
    """Sessions are never part of it: no reply says that credentials are allowed."""

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._takes_any = ANY in origins
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def allows(self, origin: str | None) -> bool:
        return origin is not None and (self._takes_any or origin.lower() in self._origins)

    def names(self, origin: str | None) -> bool:
        """Whether it is one of those that were listed by name."""
        return origin is not None and origin != ANY and origin.lower() in self._origins

    def headers(self, origin: str | None) -> Headers:
        """What a reply says to the page that asked."""
        if not self._origins:
            return ()
        headers: list[tuple[bytes, bytes]] = [(b"vary", b"Origin")]
        if origin is not None and self.allows(origin):
            headers += [
                (b"access-control-allow-origin", self._answer(origin)),
                (b"access-control-expose-headers", REPLY_HEADERS.encode()),
            ]
        return headers

    def preflight(self, scope: Scope, head: RequestHead) -> Response | None:
        """The answer to a browser that asks first; None for other requests and other origins."""
        if scope["type"] != "http" or scope["method"] != "OPTIONS" or not head.preflight:
            return None
        if not self.allows(head.origin) or is_own(head, is_https=scope["is_https"]):
            return None
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Methods": METHODS,
                "Access-Control-Allow-Headers": REQUEST_HEADERS,
                "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
            },
        )

    def _answer(self, origin: str) -> bytes:
        return ANY.encode() if self._takes_any else origin.encode("latin-1")
