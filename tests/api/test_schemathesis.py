"""Thousands of odd requests to every route: no fault of the server, no reply but those that the
OpenAPI has, and what its schemas forbid is refused [10.6].
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import server

ROOT = Path(__file__).parents[2]
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")

ALL_JOBS = r"^(/api)?/(v1/(queue|workers)|queue|interrupt|free)"
"""Routes that stop what others wait for: they have a server of their own."""


@pytest.mark.timeout(170)
@pytest.mark.parametrize("selection", ["--exclude-path-regex", "--include-path-regex"])
def test_no_request_finds_a_gap(tmp_path: Path, selection: str) -> None:
    with server(tmp_path / "data") as process:
        process.wait_ready()
        found = subprocess.run(
            [
                sys.executable,
                "-m",
                "schemathesis.cli",
                "--config-file",
                str(CONFIGURATION),
                "run",
                f"{process.url}/openapi.json",
                selection,
                ALL_JOBS,
                "--phases=examples,coverage,fuzzing",
                "--max-examples=2",
                "--generation-deterministic",
                "--continue-on-failure",
                "--no-shrink",
                "--workers=1",
                "--request-timeout=30",
                "--warnings=off",
                "--no-color",
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SCHEMATHESIS_HOOKS": "tests.api.schemathesis_hooks",
            },
            capture_output=True,
            text=True,
            timeout=160,
            check=False,
        )
        said = found.stdout + found.stderr
        assert found.returncode == 0, said[said.find("= ERRORS") :][:6000] + said[-2500:]
        assert "request_failed" not in process.log
