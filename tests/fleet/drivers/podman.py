"""A container engine for tests: podman, serving the Docker Engine's API in a folder of its own.

It is started once and ended by `shut_down` (see conftest.py). Its only image is almost empty: the
host's own programs are mounted into the containers.
"""

import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.processes import wait_until

IMAGE = "localhost/comfyrail-test:1"
SETTINGS = """
[containers]
default_ulimits = [{limits}]
[engine]
events_logger = "file"
"""
LINKS = ("bin", "lib", "lib64", "sbin")


def why_no_engine() -> str | None:
    missing = [name for name in ("podman", "runc") if _find(name) is None]
    if missing:
        return f"NO CONTAINER ENGINE: install {' and '.join(missing)} to run these tests"
    if os.geteuid() != 0:
        return "NO CONTAINER ENGINE: these tests run podman as root"
    return None


@dataclass(frozen=True)
class Engine:
    url: str
    folder: Path
    process: "subprocess.Popen[bytes]"

    def podman(self, *words: str) -> str:
        """Run podman on the engine's own storage, behind the back of whoever uses its API."""
        result = subprocess.run(
            [*_command(self.folder), *words],
            env=_environment(self.folder),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()


_engines: list[Engine] = []


def engine() -> Engine:
    if not _engines:
        _engines.append(_start(Path(tempfile.mkdtemp(prefix="comfyrail-podman-"))))
    return _engines[0]


def shut_down() -> None:
    """End the engine and all its containers, and remove its folder."""
    while _engines:
        ended = _engines.pop()
        ended.podman("rm", "--all", "--force", "--time", "0")
        ended.process.terminate()
        ended.process.wait(20)
        ended.podman("system", "reset", "--force")
        shutil.rmtree(ended.folder, ignore_errors=True)


def mounts_of_this_machine() -> list[str]:
    """Volumes by which a container of the empty image can run this Python."""
    prefix = str(Path(sys.base_prefix).resolve())
    folders = ["/usr", *(f"/{name}" for name in LINKS if _is_folder(name))]
    if not prefix.startswith("/usr"):
        folders.append(prefix)
    return [f"{folder}:{folder}:ro" for folder in folders]


def python_of_this_machine() -> str:
    return str(Path(sys.executable).resolve())


def _start(folder: Path) -> Engine:
    (folder / "containers.conf").write_text(SETTINGS.format(limits=_modest_limits()))
    (folder / "image.tar").write_bytes(_empty_image())
    socket = folder / "engine.sock"
    environment = _environment(folder)
    command = _command(folder)
    importing = [*command, "import", "--quiet", str(folder / "image.tar"), IMAGE]
    result = subprocess.run(importing, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "system", "service", "--time=0", f"unix://{socket}"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    wait_until(socket.exists)
    return Engine(f"unix://{socket}", folder, process)


def _command(folder: Path) -> list[str]:
    words = [_find("podman") or "podman", "--root", str(folder / "root")]
    words += ["--runroot", str(folder / "run"), "--tmpdir", str(folder / "tmp")]
    words += ["--runtime", _find("runc") or "runc", "--cgroup-manager=cgroupfs"]
    return [*words, "--storage-driver=vfs"]


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}


def _modest_limits() -> str:
    """Less than this process has: podman's own defaults are more than it may be able to give."""
    kinds = {"nofile": (resource.RLIMIT_NOFILE, 1024), "nproc": (resource.RLIMIT_NPROC, 4096)}
    found = {
        name: most
        if (own := resource.getrlimit(kind)[1]) == resource.RLIM_INFINITY
        else min(own, most)
        for name, (kind, most) in kinds.items()
    }
    return ", ".join(f'"{name}={value}:{value}"' for name, value in found.items())


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _is_folder(name: str) -> bool:
    path = Path("/") / name
    return path.is_dir() and not path.is_symlink()


def _empty_image() -> bytes:
    """A root folder with nothing in it but the links that the host's has."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in LINKS:
            path = Path("/") / name
            if path.is_symlink():
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, str(path.readlink())
                archive.addfile(link)
        for name in ("tmp", "worker"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(folder)
    return content.getvalue()
