"""Puts together what finds, shares and ages outputs."""

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from comfyrail.bootstrap.kept_secret import kept_secret
from comfyrail.bootstrap.machinery import Loop
from comfyrail.bootstrap.settings import Settings
from comfyrail.clock import Clock
from comfyrail.results.blob_store import BlobStore
from comfyrail.results.indexer import Indexer
from comfyrail.results.life_cycle_keeper import LifeCycleKeeper
from comfyrail.results.links import LinkSigner
from comfyrail.store.sqlite.store import SqliteStore
from comfyrail.usecases.media import OutputMedia
from comfyrail.usecases.outputs import Outputs

SECRET_FILE = "links.secret"  # noqa: S105 - the file's name


@dataclass(frozen=True, slots=True)
class OutputParts:
    outputs: Outputs
    loops: Mapping[str, Loop]
    file_base: str | None
    """Where links to files begin; None: where the client has reached the server."""
    signer: LinkSigner


async def open_outputs(
    settings: Settings, store: SqliteStore, blobs: BlobStore, media: OutputMedia, clock: Clock
) -> OutputParts:
    """Raises ConfigurationError."""
    signer = LinkSigner(await _link_secret(settings))
    keeper = LifeCycleKeeper(store, blobs, clock, settings.retention, settings.output_quota_bytes)
    return OutputParts(
        Outputs(
            store,
            blobs,
            media,
            signer,
            clock,
            settings.retention,
            has_cdn=settings.cdn_url is not None,
        ),
        {"life-cycle": keeper, "indexer": Indexer(store)},
        settings.cdn_url or settings.public_url,
        signer,
    )


async def _link_secret(settings: Settings) -> bytes:
    """One that all replicas have; else one of this data folder's own."""
    if settings.link_secret is not None:
        return settings.link_secret.get_secret_value().encode()
    if settings.jwt_secret is not None:
        key = settings.jwt_secret.get_secret_value().encode()
        return hmac.digest(key, b"comfyrail links", hashlib.sha256)
    return await asyncio.to_thread(kept_secret, settings.data / SECRET_FILE)
