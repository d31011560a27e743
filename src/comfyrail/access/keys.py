"""API keys as text: `crk_<id>_<secret>`.

The secret has 256 random bits: nobody finds it from its SHA-256 by trying, so that it needs no slow
hash as passwords do, and every request can be checked quickly.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

PREFIX = "crk_"
ID_LENGTH = 12
SECRET_BYTES = 32
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_KEY = re.compile(r"crk_([a-z2-7]{12})_([A-Za-z0-9_-]{43})")
_NOBODYS_DIGEST = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class KeyText:
    """An API key as its owner has it."""

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        return f"{PREFIX}{self.id}_{self.secret}"

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.secret.encode("ascii")).digest()


def new_key() -> KeyText:
    key_id = "".join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH))
    return KeyText(key_id, secrets.token_urlsafe(SECRET_BYTES))


def read_key(text: str) -> KeyText | None:
    """None for what is no key at all."""
    found = _KEY.fullmatch(text)
    return None if found is None else KeyText(found[1], found[2])


def is_secret_of(key: KeyText, digest: bytes | None) -> bool:
    """Takes as long for a key that there is not (None)."""
    is_same = hmac.compare_digest(key.digest, digest or _NOBODYS_DIGEST)
    return is_same and digest is not None
