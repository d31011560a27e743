"""Where blobs are in object storage: a bucket of S3, Google Cloud Storage or Azure, by URL.

Credentials, region and endpoint come from the environment, as the storage's own programs have them
(AWS_…, GOOGLE_…, AZURE_…).
"""

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from comfyrail.errors import ConfigurationError

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Bucket = S3Store | GCSStore | AzureStore

CONNECT_SECONDS = 5
REQUEST_SECONDS = 30
TRIES = 2
TRYING_SECONDS = 15
SCHEMES = ("s3", "gs", "az")
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3")

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


@dataclass(frozen=True, slots=True)
class ObjectLocation:
    """A bucket, and the folder in it that is ours; with a slash at its end, or empty."""

    bucket: "Bucket"
    folder: str
    url: str
    """Without anything that is secret, for people."""
    is_s3: bool = False

    def path_of(self, name: str) -> str:
        return self.folder + name

    def name_of(self, path: str) -> str:
        return path.removeprefix(self.folder)


def open_location(url: str, what: str) -> ObjectLocation:
    """Does not connect. Raises ConfigurationError; `what` is the setting that has the URL."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not _BUCKET.fullmatch(parts.netloc):
        raise ConfigurationError(
            f"{what} is not the URL of a bucket. Write it like s3://bucket/folder, "
            "gs://bucket/folder or az://container/folder, or file:///folder for a disk; "
            "credentials belong into the environment.",
            code="BLOB_URL_INVALID",
        )
    folder = parts.path.strip("/")
    if parts.query or parts.fragment or ".." in PurePosixPath(folder).parts:
        raise ConfigurationError(
            f"{what} has more than a bucket and a folder in it.", code="BLOB_URL_INVALID"
        )
    _check_endpoint(what)
    try:
        bucket = _open_bucket(parts.scheme, parts.netloc)
    except ImportError as error:
        raise ConfigurationError(
            f"{what} needs a package that is not installed: pip install 'comfyrail[s3]'",
            code="EXTRA_MISSING",
        ) from error
    except Exception as error:  # of several kinds, by the storage
        raise ConfigurationError(
            f"{what} cannot be used: {told(error)}", code="BLOB_STORE_UNREACHABLE"
        ) from error
    return ObjectLocation(bucket, f"{folder}/" if folder else "", url, parts.scheme == "s3")


def _check_endpoint(what: str) -> None:
    """The library ends badly over an address without a scheme."""
    for name in ENDPOINTS:
        given = os.environ.get(name)
        if given and urlsplit(given).scheme not in {"http", "https"}:
            raise ConfigurationError(
                f"{what}: {name} begins with http:// or https://, unlike {given[:80]!r}.",
                code="BLOB_URL_INVALID",
            )


def _open_bucket(scheme: str, name: str) -> "Bucket":
    # Only here: it is an extra, and those with disks need not have it.
    from obstore.store import AzureStore, GCSStore, S3Store  # noqa: PLC0415

    options: dict[str, Any] = {
        "client_options": {
            "allow_http": True,
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(seconds=REQUEST_SECONDS),
        },
        "retry_config": {
            "max_retries": TRIES,
            "retry_timeout": timedelta(seconds=TRYING_SECONDS),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    }
    match scheme:
        case "s3":
            return S3Store(name, **options)
        case "gs":
            return GCSStore(name, **options)
        case _:
            return AzureStore(name, **options)


def told(error: BaseException) -> str:
    """What the storage says, in a line, without what may be secret in URLs."""
    line = str(error).strip().partition("\n")[0]
    return re.sub(r"\?[^\s\"')]+", "?…", line)[:300] or type(error).__name__
