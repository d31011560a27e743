"""What pages in a browser may do here: our own may act, those of other sites may not."""

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import Scope

from comfyrail.api.request_head import RequestHead
from comfyrail.errors import Forbidden, ForbiddenOrigin

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OPAQUE = "null"
"""The origin of a page that has none, or does not say it."""


def is_own(head: RequestHead, *, is_https: bool) -> bool:
    """Whether its Origin is this server, as the browser knows it."""
    if head.origin is None:
        return False
    scheme, _, name = head.origin.lower().partition("://")
    return name == head.host.lower() and not (is_https and scheme != "https")


def is_from_own_page(head: RequestHead, *, is_https: bool) -> bool:
    if head.origin is None or head.origin == OPAQUE:
        return head.fetch_site == "same-origin"
    return is_own(head, is_https=is_https)


def is_of_another_site(head: RequestHead, *, is_https: bool) -> bool:
    """Whether a page elsewhere has made a browser ask this. Programs say no Origin."""
    if head.origin is None:
        return head.fetch_site in {"cross-site", "same-site"}
    return not is_own(head, is_https=is_https)


def refuse_other_sites(scope: Scope, head: RequestHead) -> None:
    """Raise Forbidden where a browser was made to use its session by a page of another site: all
    that changes something, and sockets, which no browser keeps from other pages.
    """
    is_safe = scope["type"] == "http" and scope["method"] in SAFE_METHODS
    if not is_safe and not is_from_own_page(head, is_https=scope["is_https"]):
        raise Forbidden(
            "With a session, this can be done from pages of this server only. Programs send an API "
            "key or a token as 'Authorization: Bearer …' instead.",
            code="CROSS_SITE_REQUEST",
        )


def refuse_unlike_loopback(host: str) -> None:
    """Access is off, so a Host that is no loopback name is DNS rebinding. Raise ForbiddenOrigin."""
    if not is_loopback(host):
        raise ForbiddenOrigin(
            f"This server answers on loopback addresses only, not as {host!r}.",
            code="FORBIDDEN_HOST",
        )


def foreign_origin(origin: str | None) -> ForbiddenOrigin:
    return ForbiddenOrigin(f"Requests from pages of {origin!r} are not allowed.")


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether a Host, with or without a port, is this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
