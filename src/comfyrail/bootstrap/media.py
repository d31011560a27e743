"""Puts together what looks into files and converts them."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from comfyrail.bootstrap.settings import Settings
from comfyrail.results.blob_store import BlobStore
from comfyrail.results.image_converter import ImageConverter
from comfyrail.results.media.processes import MediaProcesses
from comfyrail.results.media_keeper import MediaKeeper
from comfyrail.store.sqlite.store import SqliteStore
from comfyrail.usecases.media import OutputMedia

FOLDER = "media"
NICENESS = 10
"""Nobody waits for thumbnails as jobs wait for the processor."""


@dataclass(frozen=True, slots=True)
class MediaParts:
    media: OutputMedia
    converter: ImageConverter
    keeper: MediaKeeper | None
    """None: nobody looks at files."""


def open_media(
    settings: Settings, stack: AsyncExitStack, store: SqliteStore, blobs: BlobStore
) -> MediaParts:
    """Conversions have processes of their own: a job waits for them."""
    folder, count = settings.data / FOLDER, settings.media_processes
    converting = MediaProcesses(folder / "converting", count)
    stack.push_async_callback(converting.close)
    is_on = settings.media == "on"
    keeper = None
    if is_on:
        looking = MediaProcesses(folder / "looking", count, niceness=NICENESS)
        stack.push_async_callback(looking.close)
        keeper = MediaKeeper(store, store.signals, blobs, looking, count)
    media = OutputMedia(store, blobs, is_on=is_on)
    return MediaParts(media, ImageConverter(converting, blobs), keeper)
