"""Uploads that come in parts: what is there of each, on disk, so that a crash costs one part."""

import contextlib
import os
import shutil
from pathlib import Path

import msgspec

from comfyrail.clock import Instant
from comfyrail.disk import sync_folder, write_synced
from comfyrail.ids import AssetId, TenantId
from comfyrail.store.assets import SameName

RECORD = "session.json"
NEW_RECORD = "session.new"
PART = "part"


class UploadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`offset`: so many bytes are on disk for sure. `is_done`: it has become its asset."""

    id: str
    tenant: TenantId
    name: str
    size: int
    content_type: str | None
    sha256: str | None
    expires_in: float | None
    same_name: SameName
    asset_id: AssetId
    created_at: Instant
    expires_at: Instant
    offset: int = 0
    is_done: bool = False


class UploadParts:
    """A folder for each upload. Every method may block; one process uses the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> dict[str, UploadRecord]:
        """All that earlier processes have left; what cannot be read is removed."""
        found: dict[str, UploadRecord] = {}
        with contextlib.suppress(FileNotFoundError):
            for path in self._folder.iterdir():
                try:
                    record = msgspec.json.decode((path / RECORD).read_bytes(), type=UploadRecord)
                except (OSError, ValueError):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    found[record.id] = record
        return found

    def create(self, record: UploadRecord) -> None:
        folder = self._folder / record.id
        folder.mkdir(parents=True)
        (folder / PART).touch()
        self.save(record)
        sync_folder(self._folder)

    def save(self, record: UploadRecord) -> None:
        folder = self._folder / record.id
        new = folder / NEW_RECORD
        new.unlink(missing_ok=True)
        write_synced(new, msgspec.json.encode(record))
        new.replace(folder / RECORD)
        sync_folder(folder)

    def write(self, record: UploadRecord, position: int, data: bytes) -> None:
        with self.part_of(record).open("r+b") as file:
            file.seek(position)
            file.write(data)

    def commit(self, record: UploadRecord) -> None:
        """What was written up to the record's offset is on disk when this returns."""
        descriptor = os.open(self.part_of(record), os.O_RDWR)
        try:
            os.ftruncate(descriptor, record.offset)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.save(record)

    def finish(self, record: UploadRecord) -> None:
        """It is an asset now: only who it was is remembered."""
        self.save(record)
        self.part_of(record).unlink(missing_ok=True)

    def head(self, record: UploadRecord, size: int) -> bytes:
        with self.part_of(record).open("rb") as file:
            return file.read(size)

    def part_of(self, record: UploadRecord) -> Path:
        return self._folder / record.id / PART

    def remove(self, record: UploadRecord) -> None:
        shutil.rmtree(self._folder / record.id, ignore_errors=True)

    def free_bytes(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self._folder).free
