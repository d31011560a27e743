"""The page goes wherever the package goes: in a wheel, and in an sdist that needs no Node."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = "comfyrail/api/page_files/"
UNWANTED = ("node_modules", ".openapi.json", "__pycache__", ".page_files-")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this checkout."""
    target = tmp_path_factory.mktemp("built")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    subprocess.run([*build, "-d", str(target)], cwd=ROOT, check=True, capture_output=True)
    return target


def test_wheel_has_the_page_and_nothing_it_was_made_of(built: Path) -> None:
    files = files_of_wheel(built)
    index = files[f"{PAGE}index.html"].decode()
    parts = re.findall(r'(?:src|href)="/page/([^"]+)"', index)
    assert len(parts) >= 2
    assert {PAGE + part for part in parts} <= set(files)
    assert {name.split("/")[0].split("-")[0] for name in files} == {"comfyrail"}
    assert unwanted(files) == []


def test_sdist_has_the_page_and_its_sources(built: Path) -> None:
    files = files_of_sdist(built)
    wanted = {
        f"src/{PAGE}index.html",
        "web/package-lock.json",
        "web/src/main.tsx",
        "hatch_build.py",
    }
    assert wanted <= set(files)
    assert unwanted(files) == []


def test_sdist_is_installed_without_node(built: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "bin"
    nothing.mkdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run(
        [*pip, "--wheel-dir", str(tmp_path), str(next(built.glob("*.tar.gz")))],
        env={**os.environ, "PATH": str(nothing)},
        check=True,
        capture_output=True,
    )
    made = {name: each for name, each in files_of_wheel(tmp_path).items() if PAGE in name}
    brought = files_of_sdist(built)
    assert made
    assert {f"src/{name}": each for name, each in made.items()} == {
        name: each for name, each in brought.items() if PAGE in name
    }


def files_of_wheel(folder: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files_of_sdist(folder: Path) -> dict[str, bytes]:
    """By path below the archive's one folder."""
    found: dict[str, bytes] = {}
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        for each in archive:
            content = archive.extractfile(each)
            found[each.name.partition("/")[2]] = b"" if content is None else content.read()
    return found


def unwanted(files: dict[str, bytes]) -> list[str]:
    return [name for name in files if any(part in name for part in UNWANTED)]
