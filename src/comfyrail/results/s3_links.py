"""URLs of S3 with a signature, by which the storage also says what the file is called.

obstore signs URLs without that. Such a URL is signed anew here, where the secret key is known: it
is not on machines that get their credentials from the cloud itself.
"""

import hashlib
import hmac
import os
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

SIGNATURE = "X-Amz-Signature"


def with_names(url: str, *, content_type: str, disposition: str) -> str | None:
    """The same for a reply with these headers; None where it cannot be signed."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    access_key, _, scope = query.get("X-Amz-Credential", "").partition("/")
    secret = os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not secret or access_key != os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    query.pop(SIGNATURE, None)
    query["response-content-type"] = content_type
    query["response-content-disposition"] = disposition
    canonical = "&".join(
        f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(query.items())
    )
    request = "\n".join(
        ["GET", parts.path, canonical, f"host:{parts.netloc}\n", "host", "UNSIGNED-PAYLOAD"]
    )
    text = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            query["X-Amz-Date"],
            scope,
            hashlib.sha256(request.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return urlunsplit(parts._replace(query=f"{canonical}&{SIGNATURE}={signature}"))


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
