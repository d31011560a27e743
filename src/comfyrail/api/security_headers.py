"""Headers that every reply has [11.3]."""

from functools import lru_cache

from starlette.types import Scope

from comfyrail.api.content_policies import policy_of
from comfyrail.api.cors import Headers

_COMMON_HEADERS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Not `no-referrer`: with it browsers hide the origin of a form that this server itself sent.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_HTTPS_HEADERS: Headers = ((b"strict-transport-security", b"max-age=31536000"),)


def security_headers(scope: Scope) -> Headers:
    return _headers(policy_of(scope["path"]), scope.get("is_https", False))


@lru_cache(maxsize=64)
def _headers(policy: bytes, is_https: bool) -> Headers:
    headers = (*_COMMON_HEADERS, (b"content-security-policy", policy))
    return (*headers, *_HTTPS_HEADERS) if is_https else headers
