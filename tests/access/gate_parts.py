"""What tests of the gate need: a clock by hand, tokens, keys, and a server with access on."""

import itertools
import json
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from comfyrail.clock import Instant
from tests.processes import Comfyrail, server

SECRET = "a secret of at least 32 bytes for tests"
LISTED_ORIGIN = "https://app.example.com"
"""Its pages may use the server."""
_numbers = itertools.count(1)
_addresses = itertools.count(1)


class HandClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.start = time.time()

    def now(self) -> Instant:
        return Instant(round((self.start + self.seconds - 1_000.0) * 1000))

    def monotonic(self) -> float:
        return self.seconds


def new_user(prefix: str = "user") -> str:
    """Somebody who has asked nothing yet."""
    return f"{prefix}-{next(_numbers)}"


def new_address() -> str:
    """Of somebody behind the proxy who has done nothing yet."""
    number = next(_addresses)
    return f"203.0.{number // 250}.{number % 250 + 1}"


def claims(**changes: Any) -> dict[str, Any]:
    """Of a token that counts; what is None is left out."""
    made = {"user_id": "ann", "tier": "pro", "exp": time.time() + 600, **changes}
    return {name: value for name, value in made.items() if value is not None}


def token(key: Any = SECRET, algorithm: str = "HS256", /, **changes: Any) -> str:
    headers = {"kid": changes.pop("kid")} if "kid" in changes else None
    return jwt.encode(claims(**changes), key, algorithm, headers)


def new_private_key(kind: str) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "RSA": lambda: rsa.generate_private_key(65537, 2048),
        "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "Ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    return makers[kind]()


def public_jwk(private: Any, kind: str, **more: Any) -> dict[str, Any]:
    algorithm = {"RSA": "RS256", "P-256": "ES256", "P-384": "ES384", "Ed25519": "EdDSA"}[kind]
    to_jwk = get_default_algorithms()[algorithm].to_jwk
    described = to_jwk(private.public_key(), as_dict=True)
    assert isinstance(described, dict)
    return {**{name: value for name, value in described.items() if name != "key_ops"}, **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def gated_server(data: Path, *arguments: str, **environment: str) -> Comfyrail:
    """Requests come through a proxy on this machine, which says from where."""
    settings = {
        "COMFYRAIL_ACCESS": "on",
        "COMFYRAIL_JWT_SECRET": SECRET,
        "COMFYRAIL_TRUSTED_PROXIES": "127.0.0.1, 198.51.100.9",
        **environment,
    }
    workers = int(settings.pop("workers", "0"))
    return server(data, *arguments, workers=workers, **settings)


def bearer(user: str | None = None, **changes: Any) -> dict[str, str]:
    """Headers of somebody new, or of a user."""
    return {"Authorization": f"Bearer {token(user_id=user or new_user(), **changes)}"}


def admin_key(process: Comfyrail) -> str:
    return (process.data / "admin.key").read_text().strip()


def ask(
    process: Comfyrail, method: str, path: str, body: bytes | None = None, /, **headers: str
) -> tuple[HTTPResponse, bytes]:
    """Without following anything, with headers as they are; `_` stands for `-`."""
    connection = HTTPConnection(urlsplit(process.url).netloc, timeout=20)
    try:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, sent)
        reply = connection.getresponse()
        return reply, reply.read()
    finally:
        connection.close()


def code_of(content: bytes) -> str:
    return str(json.loads(content)["error"]["code"])
