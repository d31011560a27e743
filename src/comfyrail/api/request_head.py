"""What the gate needs of a request's headers, read in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import Scope

_SINGLE_HEADERS = {
    b"host": "host",
    b"origin": "origin",
    b"x-request-id": "request_id",
    b"sec-fetch-site": "fetch_site",
    b"accept": "accept",
    b"cookie": "cookie",
    b"x-forwarded-proto": "forwarded_proto",
    b"access-control-request-method": "preflight",
    b"content-length": "content_length",
    b"transfer-encoding": "transfer_encoding",
}
_LIST_HEADERS = {
    b"authorization": "authorization",
    b"x-api-key": "api_key",
    b"x-forwarded-for": "forwarded_for",
}


@dataclass(slots=True)
class RequestHead:
    """Headers as text; "" where there is none. Of one that came twice the last counts, except of
    those that are lists.
    """

    host: str = ""
    origin: str | None = None
    request_id: str = ""
    fetch_site: str = ""
    accept: str = ""
    cookie: str = ""
    forwarded_proto: str = ""
    preflight: str = ""
    content_length: str = ""
    transfer_encoding: str = ""
    authorization: Sequence[str] = ()
    api_key: Sequence[str] = ()
    forwarded_for: Sequence[str] = ()

    @property
    def wants_page(self) -> bool:
        """Whether a person looks at the answer, in a browser."""
        return self.accept.startswith("text/html")

    @property
    def has_body(self) -> bool:
        return bool(self.transfer_encoding) or self.content_length not in {"", "0"}


def read_head(scope: Scope) -> RequestHead:
    head = RequestHead()
    for name, value in scope["headers"]:
        if name in _SINGLE_HEADERS:
            setattr(head, _SINGLE_HEADERS[name], value.decode("latin-1"))
        elif name in _LIST_HEADERS:
            before: Sequence[str] = getattr(head, _LIST_HEADERS[name])
            setattr(head, _LIST_HEADERS[name], [*before, value.decode("latin-1")])
    return head
