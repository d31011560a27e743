"""The page of the API: whole, from this server alone, and clean under its own rules [10.6]."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes import Comfyrail

LARGEST_PAGE = 30_000
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def parts(process: Comfyrail) -> dict[str, bytes]:
    found = {}
    for path in ("/docs", "/docs/docs.js", "/docs/docs.css"):
        status, content, _ = process.fetch("GET", path)
        assert status == 200
        found[path] = content
    return found


def test_page_is_small_and_asks_nobody_else(running_server: Comfyrail) -> None:
    found = parts(running_server)
    assert sum(map(len, found.values())) <= LARGEST_PAGE
    for content in found.values():
        assert not re.search(rb"https?://|//[a-z]+\.|@import|eval\(|innerHTML", content)
    page = found["/docs"].decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/docs", "text/html"), ("/docs/docs.js", "text/javascript"), ("/docs/docs.css", "text/css")],
)
def test_parts_have_their_types_and_tags(running_server: Comfyrail, path: str, kind: str) -> None:
    _, _, headers = running_server.fetch("GET", path)
    assert headers["content-type"] == f"{kind}; charset=utf-8"
    assert running_server.fetch("GET", path, If_None_Match=headers["etag"])[0] == 304


def test_page_may_run_its_own_scripts_only(running_server: Comfyrail) -> None:
    policy = running_server.fetch("GET", "/docs")[2]["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_browser_shows_every_tag_and_an_opened_operation(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    assert CHROMIUM is not None
    shown = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            f"--user-data-dir={tmp_path}",
            "--dump-dom",
            f"{running_server.url}/docs#post_v2_workflows_execute",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Loading…" not in shown.stdout
    assert 'data-tag="executions v2"' in shown.stdout
    assert '<span class="path">/v1/workers</span>' in shown.stdout
    assert "curl -s" in shown.stdout
    assert "CONSOLE" not in shown.stderr
    assert "Content Security Policy" not in shown.stderr
