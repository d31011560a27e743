"""Opens the places where blobs are kept, as the settings name them."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import structlog

from comfyrail.bootstrap.settings import Settings
from comfyrail.errors import ConfigurationError
from comfyrail.network.urls import without_secrets
from comfyrail.results.blob_store import BlobStore
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.object_location import open_location
from comfyrail.results.tiered_blobs import TieredBlobStore

log = structlog.get_logger(__name__)

BLOB_FOLDER = "blobs"
CACHE_FOLDER = "blobs-cache"
MAIN = "blob"
TIERS = ("archive", "glacier")
"""Of the life cycle, those that may be elsewhere; a colder one without a URL is where the one
before it is.
"""


def watched_folders(settings: Settings) -> list[Path]:
    """Disks that must have room: the data folder, and every folder that has blobs."""
    folders = [_folder_of(url) for url in _urls(settings).values()]
    main = [] if settings.blob_url else [settings.data / BLOB_FOLDER]
    return [settings.data, *main, *(folder for folder in folders if folder is not None)]


async def open_blobs(
    settings: Settings, stack: AsyncExitStack, refused: Callable[[], None]
) -> BlobStore:
    """The blob store; the stack closes it. Raises ConfigurationError where a place cannot be used.

    `refused` is called when a disk does not take something.
    """
    urls = _urls(settings)
    if MAIN in urls:
        await asyncio.to_thread(_warn_of_blobs_left, settings)
    remote = sum(_folder_of(url) is None for url in urls.values())
    cache_bytes = settings.blob_cache_bytes // max(1, remote)

    async def open_one(name: str) -> BlobStore:
        store = await _open(settings, name, urls[name], cache_bytes, refused)
        stack.push_async_callback(store.close)
        return store

    folder = settings.data / BLOB_FOLDER
    main = await open_one(MAIN) if MAIN in urls else DiskBlobStore(folder, refused)
    tiers: dict[str, BlobStore] = {}
    current = main
    for name in TIERS:
        current = await open_one(name) if name in urls else current
        if current is not main:
            tiers[name] = current
    return TieredBlobStore(main, tiers) if tiers else main


def _warn_of_blobs_left(settings: Settings) -> None:
    """What was made before the blobs moved elsewhere is not found there by itself."""
    left = settings.data / BLOB_FOLDER
    if next(left.glob("??/*"), None) is not None:
        log.warning(
            "blobs_left_on_disk",
            folder=str(left),
            advice="They are looked for in blob_url only. Copy them there; see 'Move there' in "
            "docs/how-to/keep-outputs-in-object-storage.md.",
        )


def describe_blobs(settings: Settings) -> str:
    """Where blobs are, for people."""
    urls = _urls(settings)
    main = urls.pop(MAIN, None)
    first = without_secrets(main) if main else str((settings.data / BLOB_FOLDER).absolute())
    others = (f"{name}: {without_secrets(url)}" for name, url in urls.items())
    return "; ".join([first, *others])


def _urls(settings: Settings) -> dict[str, str]:
    given = {
        MAIN: settings.blob_url,
        "archive": settings.archive_url,
        "glacier": settings.glacier_url,
    }
    return {name: url for name, url in given.items() if url}


def _folder_of(url: str) -> Path | None:
    """Of a file: URL."""
    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


async def _open(
    settings: Settings, name: str, url: str, cache_bytes: int, refused: Callable[[], None]
) -> BlobStore:
    what = f"{name}_url (COMFYRAIL_{name.upper()}_URL)"
    folder = _folder_of(url)
    if folder is not None:
        if not folder.is_absolute() or urlsplit(url).netloc:
            raise ConfigurationError(
                f"{what} is not like file:///folder: it has the whole path of a folder.",
                code="BLOB_URL_INVALID",
            )
        return DiskBlobStore(folder, refused)
    location = open_location(url, what)
    # Only here: it needs obstore, which is an extra.
    from comfyrail.results.object_blobs import ObjectBlobStore, probe  # noqa: PLC0415

    await probe(location, what)
    return ObjectBlobStore(
        location,
        settings.data / CACHE_FOLDER / name,
        cache_bytes,
        refused,
        least_free=2 * settings.min_free_bytes,
    )
