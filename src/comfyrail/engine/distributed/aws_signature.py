"""Sign requests to AWS: Signature Version 4."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """What a signature covers. `path` is as it is sent, already encoded; so is `query`, sorted."""

    method: str
    host: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


def sign(
    request: SignedRequest, credentials: Credentials, *, region: str, service: str, now: datetime
) -> dict[str, str]:
    """All headers of a request with its signature. `now` is in UTC."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {**request.headers, "Host": request.host, "X-Amz-Date": stamp}
    if credentials.session_token is not None:
        headers["X-Amz-Security-Token"] = credentials.session_token
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        (
            request.method,
            # Every service but S3 encodes the path once more.
            quote(request.path, safe="/" + _UNRESERVED),
            request.query,
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            hashlib.sha256(request.body).hexdigest(),
        )
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = b"AWS4" + credentials.secret_access_key.encode()
    for part in (stamp[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return headers


def encode_segment(text: str) -> str:
    """A part of a path, or of a query."""
    return quote(text, safe=_UNRESERVED)
