"""Memory stays flat while a large file passes through: in, to the store, out again."""

import hashlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.results.blob_server import CHUNK
from tests.results.parts import Bucket

MOST_GROWTH = 50 << 20
ROOM_NEEDED = 6 << 30


@dataclass(frozen=True, slots=True)
class BlobServer:
    pid: int
    port: int

    def save(self, size: int) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        connection.request("POST", f"/save?size={size}")
        reply = json.loads(connection.getresponse().read())
        connection.close()
        assert reply["size"] == size
        return str(reply["key"])

    def download(self, key: str) -> str:
        """The SHA-256 of what comes."""
        found = hashlib.sha256()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        connection.request("GET", f"/blob/{key}")
        reply = connection.getresponse()
        while piece := reply.read(1 << 20):
            found.update(piece)
        connection.close()
        return found.hexdigest()

    def memory(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) << 10

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@contextmanager
def blob_server(data: Path, **environment: str) -> Iterator[BlobServer]:
    command = [sys.executable, "-m", "tests.results.blob_server", str(data)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, **environment}
    ) as process:
        assert process.stdout is not None
        try:
            yield BlobServer(process.pid, int(process.stdout.readline()))
        finally:
            process.kill()


def growth_while_passing(server: BlobServer, size: int) -> int:
    """How much more memory the server had at any time than when it was at rest."""
    server.download(server.save(8 * CHUNK))
    before = server.memory("VmRSS")
    server.forget_peak()
    key = server.save(size)
    assert server.download(key) == key.rpartition("/")[2]
    return server.memory("VmHWM") - before


def largest_size(folder: Path) -> int:
    free = shutil.disk_usage(folder).free
    if free >= ROOM_NEEDED:
        return 2 << 30
    warnings.warn(f"ONLY 256 MiB ARE TRIED: the disk has only {free >> 20} MiB free", stacklevel=2)
    return 256 << 20


@pytest.mark.filterwarnings("default:ONLY 256 MiB")
def test_memory_stays_flat_while_2_gigabytes_pass_through_the_disk(tmp_path: Path) -> None:
    try:
        with blob_server(tmp_path / "data") as server:
            assert growth_while_passing(server, largest_size(tmp_path)) < MOST_GROWTH
    finally:
        shutil.rmtree(tmp_path / "data", ignore_errors=True)


def test_memory_stays_flat_while_256_megabytes_pass_through_s3(
    tmp_path: Path, bucket: Bucket
) -> None:
    with blob_server(tmp_path / "data", COMFYRAIL_BLOB_URL=bucket.url) as server:
        assert growth_while_passing(server, 256 << 20) < MOST_GROWTH
