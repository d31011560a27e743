"""A Python that has both ComfyUI's packages and this Comfyrail: what `worker --comfyui` needs.

It is a virtual environment of its own beside the peer's: it sees the peer's packages and the
sources of this repository through a path file, so that nothing is installed into the peer and
nothing is installed twice.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from .install import (
    STEP_LIMIT_SECONDS,
    Peer,
    PeerInstallError,
    cache_directory,
    locked,
)

SOURCES = Path(__file__).resolve().parents[2] / "src"

# What Comfyrail needs and ComfyUI has not, and what ComfyUI's own tests need: the whole closure,
# installed with --no-deps, because pip may not touch the peer's packages to suit these.
PACKAGES = (
    "annotated-doc==0.0.6",
    "anyio==4.16.0",
    "click==8.5.1",
    "fastapi==0.162.4",
    "h11==0.16.0",
    "httptools==0.9.0",
    "iniconfig==2.3.1",
    "markdown-it-py==4.3.0",
    "mdurl==0.1.2",
    "msgspec==0.22.0",
    "pluggy==1.7.0",
    "Pygments==2.21.0",
    "prometheus-client==0.26.0",
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "rich==15.0.0",
    "shellingham==1.5.4",
    "sse-starlette==3.7.0",
    "starlette==1.10.0",
    "structlog==26.1.0",
    "typer==0.29.0",
    "uvicorn==0.54.0",
    "uvloop==0.23.0",
    "watchfiles==1.3.0",
    "websocket-client==1.9.2",
    "websockets==17.4",
)


def comfyrail_peer_python(peer: Peer) -> Path:
    """Return the Python, made when it is asked for the first time (about 20 s).

    Raises ``PeerInstallError`` when that fails.
    """
    root = _directory(peer)
    python = root / "venv" / "bin" / "python"
    if (root / "completed").exists():
        return python
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "install.lock", lambda _: None):
        if not (root / "completed").exists():
            _make(root, peer)
    return python


def _directory(peer: Peer) -> Path:
    described = "\n".join((str(peer.python), str(SOURCES), *PACKAGES))
    key = hashlib.sha256(described.encode()).hexdigest()[:8]
    home = cache_directory()
    return home.parent / f"{home.name}-comfyrail-{key}"


def _make(root: Path, peer: Peer) -> None:
    environment = root / "venv"
    shutil.rmtree(environment, ignore_errors=True)
    base = (peer.python.resolve(), "-I", "-m", "venv", environment)
    _run("making the environment", [str(word) for word in base], peer)
    install = ("-I", "-m", "pip", "install", "--no-deps", "--no-input", "-q", *PACKAGES)
    _run("installing Comfyrail's packages", [str(environment / "bin" / "python"), *install], peer)
    seen = [SOURCES, *(peer.python.parents[1] / "lib").glob("python3*/site-packages")]
    packages = next((environment / "lib").glob("python3*/site-packages"))
    (packages / "comfyrail_peer.pth").write_text("\n".join(map(str, seen)), encoding="utf-8")
    (root / "completed").touch()


def _run(step: str, command: list[str], peer: Peer) -> None:
    result = subprocess.run(
        command,
        env=peer.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=STEP_LIMIT_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        raise PeerInstallError(
            step, "check that pip reaches PyPI, then run this again", result.stdout
        )
