"""ComfyUI's published workflow templates, fetched from PyPI once, kept outside the repository."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

SAMPLE_PACKAGES = {
    "comfyui-workflow-templates-media-api": "0.3.34",
    "comfyui-workflow-templates-media-image": "0.3.47",
    "comfyui-workflow-templates-media-other": "0.3.63",
    "comfyui-workflow-templates-media-video": "0.3.22",
}
"""What the samples under data/exported were exported from."""
NEWEST_PACKAGES = {"comfyui-workflow-templates-json": "0.1.123"}
SECONDS_TO_DOWNLOAD = 600


class Unreachable(Exception):
    """PyPI did not give the templates."""


def templates(packages: dict[str, str]) -> dict[str, Any]:
    """Parsed files by their names. Raises Unreachable."""
    folder = _fetched(packages)
    return {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}


def _fetched(packages: dict[str, str]) -> Path:
    """The folder with all JSON files of the packages; made whole or not at all."""
    requirements = sorted(f"{name}=={version}" for name, version in packages.items())
    key = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:8]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "comfyrail"
    folder = cache / f"templates-{key}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"templates-{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel runs wait for the one that downloads
        if not folder.is_dir():
            _fetch(requirements, folder)
    return folder


def _fetch(requirements: list[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="templates-") as name:
        made = Path(name) / "made"
        made.mkdir()
        for wheel in _download(requirements, Path(name) / "wheels"):
            with zipfile.ZipFile(wheel) as archive:
                for each in _template_names(archive):
                    with (
                        archive.open(each) as source,
                        (made / PurePosixPath(each).name).open("wb") as target,
                    ):
                        shutil.copyfileobj(source, target)
        made.rename(folder)


def _download(requirements: list[str], folder: Path) -> list[Path]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    try:
        ended = subprocess.run(
            [*command, str(folder), *requirements],
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_DOWNLOAD,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"pip download took more than {SECONDS_TO_DOWNLOAD} s") from error
    if ended.returncode != 0:
        raise Unreachable(f"pip download {' '.join(requirements)}: {ended.stderr[-500:]}")
    return sorted(folder.glob("*.whl"))


def _template_names(archive: zipfile.ZipFile) -> Iterator[str]:
    """Workflows only: the packages have an index in many languages beside them."""
    for name in archive.namelist():
        path = PurePosixPath(name)
        is_other = path.name.startswith(("index", "fuse_options"))
        if path.suffix == ".json" and path.parent.name == "templates" and not is_other:
            yield name
