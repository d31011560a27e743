"""ComfyUI's own tests of execution, run against `comfyrail worker --comfyui`.

They start `python main.py` with flags and talk to it. Here `main.py` is a launcher of the worker,
in a folder that is the checkout in all else.
"""

import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ports import free_port
from tests.comfyui_peer.comfyrail_python import comfyrail_peer_python
from tests.comfyui_peer.install import Peer, installed_peer

pytestmark = pytest.mark.comfyui

TESTS = 232
LIMIT_SECONDS = 900.0

LAUNCHER = """\
import sys
from comfyrail.cli.main import main

sys.argv = ["comfyrail", "worker", "--comfyui", {checkout!r}, *sys.argv[1:]]
sys.argv += ["--temp-directory", {temp!r}]
main()
"""


@pytest.fixture
def peer() -> Peer:
    found = installed_peer()
    if found is None:
        pytest.skip("no ComfyUI is installed for tests: run `make test-comfyui`")
    return found


def make_launching_folder(peer: Peer, folder: Path) -> Path:
    """The checkout, as links, with another main.py."""
    folder.mkdir()
    for entry in peer.checkout.iterdir():
        if entry.name not in {"main.py", "__pycache__", "temp"}:
            (folder / entry.name).symlink_to(entry)
    launcher = LAUNCHER.format(checkout=str(peer.checkout), temp=str(folder))
    (folder / "main.py").write_text(launcher)
    return folder


def failures_in(report: Path) -> Iterator[str]:
    for case in ET.parse(report).getroot().iter("testcase"):
        for fault in (*case.findall("failure"), *case.findall("error")):
            lines = (fault.text or "").strip().splitlines() or [""]
            said = "\n    ".join([*str(fault.get("message")).splitlines()[:3], lines[-1]])
            yield f"{case.get('classname')}::{case.get('name')}\n    {said}"


@pytest.mark.timeout(LIMIT_SECONDS + 60)
def test_comfyuis_own_execution_tests_pass(peer: Peer, tmp_path: Path) -> None:
    python = comfyrail_peer_python(peer)
    folder = make_launching_folder(peer, tmp_path / "checkout")
    report = tmp_path / "report.xml"
    outcome = subprocess.run(
        [
            *(str(python), "-m", "pytest", "tests/execution", "-q", f"--junit-xml={report}"),
            *("--port", str(free_port()), "--output_dir", str(tmp_path / "output")),
            *("-p", "no:cacheprovider", "--skip-timing-checks", "--timeout", "120"),
        ],
        cwd=folder,
        env=peer.environment() | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert report.exists(), outcome.stdout[-6000:]
    failures = list(failures_in(report))
    assert not failures, f"{len(failures)} failed:\n" + "\n".join(failures)
    suite = next(ET.parse(report).getroot().iter("testsuite"))
    assert (suite.get("tests"), suite.get("skipped")) == (str(TESTS), "0"), outcome.stdout[-3000:]
