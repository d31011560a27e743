"""The official TypeScript SDK and a Node that can run it, fetched once into a cache folder."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

PACKAGE = "@comfyorg/sdk@0.1.9"
NODE = "node@22"
"""From npm too: the SDK wants 22 or newer, and the machine may have an older one."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "comfyrail"


@cache
def installed() -> Path | str:
    """The folder with both, or why there is none."""
    folder = CACHE / f"typescript-sdk-{PACKAGE.rpartition('@')[2]}"
    if (folder / "complete").exists():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    try:
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", PACKAGE, NODE],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "npm install took too long"
    if done.returncode:
        return f"npm install failed: {done.stderr[-300:]}"
    if not node_of(folder).exists():
        return "npm has no Node for this machine"
    (folder / "complete").touch()
    return folder


def node_of(folder: Path) -> Path:
    return folder / "node_modules" / ".bin" / "node"
