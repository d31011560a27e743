"""Secrets that a server makes for itself and keeps in its data folder."""

import contextlib
import os
import secrets
from pathlib import Path

from comfyrail.access.sessions import SECRET_BYTES
from comfyrail.errors import ConfigurationError


def kept_secret(path: Path) -> bytes:
    """The secret in a file, made when it is first asked for. Blocks. Raises ConfigurationError."""
    try:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
        secret = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"The secret in {path} cannot be read or written: {error.strerror}.",
            code="DATA_FOLDER_UNWRITABLE",
        ) from error
    if len(secret) < SECRET_BYTES:
        path.unlink(missing_ok=True)
        return kept_secret(path)
    return secret
