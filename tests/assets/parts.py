"""Pictures, forms and a store for the tests of uploads."""

import io
import random
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from comfyrail.access.principal import Principal
from comfyrail.ids import AssetId, TenantId, WorkerId, new_attempt_token, new_job_id, new_output_id
from comfyrail.jobs.job import Attempt, JobInput, NewJob, NewOutput
from comfyrail.jobs.needs import job_needs
from comfyrail.jobs.outcome import Completed
from comfyrail.jobs.priority import standing_of
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.results.asset_sweeper import AssetSweeper
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.input_files import InputFiles
from comfyrail.results.sweeper import BlobSweeper
from comfyrail.store.assets import Asset
from comfyrail.store.interface import Assignment
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.usecases.asset_binding import FileBinder
from comfyrail.usecases.asset_intake import UploadRules
from comfyrail.usecases.asset_names import FOLDER
from comfyrail.usecases.assets import Assets
from comfyrail.usecases.policies import Policies
from comfyrail.usecases.upload_sessions import UploadSessions
from comfyrail.validation.policy import SecurityPolicy
from tests.network.parts import AS_PUBLIC
from tests.store.test_store import ManualClock

ANN = Principal(TenantId("ann"), user_id="ann", is_limited=True)
BOB = Principal(TenantId("bob"), user_id="bob", is_limited=True)


def png(seed: int = 1, size: tuple[int, int] = (16, 12)) -> bytes:
    """A picture of noise: another one for every seed."""
    noise = random.Random(seed).randbytes(size[0] * size[1] * 3)
    file = io.BytesIO()
    Image.frombytes("RGB", size, noise).save(file, "PNG")
    return file.getvalue()


def picture(kind: str, size: tuple[int, int] = (16, 12)) -> bytes:
    file = io.BytesIO()
    Image.frombytes("RGB", size, b"\x20" * (size[0] * size[1] * 3)).save(file, kind)
    return file.getvalue()


def huge_png(width: int, height: int) -> bytes:
    """A few bytes that would unpack to very many."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(1 << 16))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    )


def pixels(content: bytes) -> bytes:
    with Image.open(io.BytesIO(content)) as image:
        return image.convert("RGB").tobytes()


def form(*parts: tuple[str, str | None, bytes], boundary: str = "edge") -> tuple[bytes, str]:
    """A form's body and its Content-Type; a part without a filename is a field."""
    body = b""
    for name, filename, content in parts:
        said = f'; filename="{filename}"' if filename is not None else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{said}\r\n'.encode()
        body += b"\r\n" + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def load_and_save(image: Any) -> dict[str, Any]:
    return {
        "1": {"class_type": "LoadImage", "inputs": {"image": image}},
        "2": {
            "class_type": "SaveImage",
            "inputs": {"images": ["1", 0], "filename_prefix": "copy"},
        },
    }


async def chunks(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@dataclass(slots=True)
class Kit:
    """Assets on a real store and real files, with a clock that stands still."""

    folder: Path
    clock: ManualClock
    store: SqliteStore
    blobs: DiskBlobStore
    assets: Assets
    uploads: UploadSessions
    inputs: InputFiles
    binder: FileBinder
    sweeper: AssetSweeper
    blob_sweeper: BlobSweeper

    async def give(
        self, name: str, content: bytes, owner: Principal = ANN, **options: Any
    ) -> Asset:
        received = await self.assets.receive(owner, chunks(content), name=name, **options)
        return received.asset

    async def begin(self, *inputs: JobInput, owner: Principal = ANN) -> Attempt:
        """A job that runs."""
        job = NewJob(
            id=new_job_id(),
            tenant=owner.tenant,
            prompt=b"{}",
            node_count=1,
            needs=job_needs((), ()),
            priority=5,
            standing=standing_of(5),
            timeout_seconds=60,
            expected_seconds=1,
            submitted_at=self.clock.now(),
            inputs=inputs,
        )
        await self.store.add_job(job)
        assignment = Assignment(job.id, WorkerId("w"), new_attempt_token())
        (attempt,) = await self.store.start_attempts([assignment], "me", 60)
        return attempt

    async def finish(self, attempt: Attempt, *contents: bytes, filename: str = "made.png") -> None:
        saved = [await self.blobs.save(chunks(content)) for content in contents]
        outputs = tuple(
            NewOutput(
                id=new_output_id(),
                node_id="1",
                kind="images",
                filename=filename,
                subfolder="",
                is_temporary=False,
                content_type="image/png",
                size=blob.size,
                sha256=blob.sha256,
                blob_key=blob.key,
                blake3=blob.blake3,
            )
            for blob in saved
        )
        await self.store.finish_attempt(attempt.token, Completed(outputs))
        self.blobs.settle([blob.key for blob in saved], are_kept=True)

    async def make_output(self, content: bytes, owner: Principal = ANN) -> Attempt:
        attempt = await self.begin(owner=owner)
        await self.finish(attempt, content)
        return attempt

    async def bytes_of(self, asset: Asset) -> bytes:
        return b"".join([chunk async for chunk in (await self.assets.open(asset)).chunks()])

    async def inode_of(self, asset: Asset) -> int:
        async with self.assets.local(asset) as path:
            return path.stat().st_ino

    def blob_files(self) -> set[str]:
        root = self.folder / "blobs"
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

    def input_files(self) -> set[str]:
        root = self.folder / "input"
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}

    async def is_there(self, owner: Principal, asset_id: AssetId) -> bool:
        page = await self.assets.list(owner, None, 500)
        return asset_id in {each.id for each in page.assets}


@asynccontextmanager
async def asset_kit(
    folder: Path, rules: UploadRules | None = None, policy: SecurityPolicy | None = None
) -> AsyncIterator[Kit]:
    clock = ManualClock()
    store = await open_sqlite_store(folder, clock)
    blobs = DiskBlobStore(folder / "blobs")
    outgoing = OutgoingHttp(exceptions=AS_PUBLIC)
    try:
        policies = Policies(policy or SecurityPolicy())
        assets = Assets(store, blobs, clock, policies, outgoing, rules)
        uploads = UploadSessions(folder / "uploads", assets, clock)
        inputs = InputFiles(folder / "input", blobs, clock)
        yield Kit(
            folder,
            clock,
            store,
            blobs,
            assets,
            uploads,
            inputs,
            FileBinder(store, folder / "input"),
            AssetSweeper(store, blobs, inputs, FOLDER, uploads.sweep),
            BlobSweeper(blobs, store),
        )
    finally:
        await outgoing.close()
        await store.close()
