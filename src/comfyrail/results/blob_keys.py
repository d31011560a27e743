"""Names of blobs: two digits of the SHA-256 of their content, a slash, and all of it."""

import re

from comfyrail.errors import OutputNotFound

_KEY = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}")
_SHELF = re.compile(r"[0-9a-f]{2}")


def key_of(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}"


def sha256_of(key: str) -> str:
    return key.rpartition("/")[2]


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def is_shelf(name: str) -> bool:
    """Whether blobs lie in a folder of this name."""
    return _SHELF.fullmatch(name) is not None


def check_key(key: str) -> str:
    """The key. Raises OutputNotFound for what no blob is called, as for one that is not there."""
    if not is_key(key):
        raise blob_gone()
    return key


def blob_gone() -> OutputNotFound:
    return OutputNotFound("The output's file is gone from the blob store.")
