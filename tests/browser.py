"""A Chromium, wherever there is one."""

import fcntl
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ("--no-sandbox", "--disable-background-networking", "--use-gl=swiftshader")
INSTALL_SECONDS = 600


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright's; skips with a loud line where there is none."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        _skip("Playwright is not installed: pip install playwright")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=find_chromium(playwright.chromium.executable_path),
                args=list(ARGUMENTS),
            )
        except Error as error:
            _skip(f"no Chromium was found or it does not start ({error.message.splitlines()[0]})")
        try:
            yield browser
        finally:
            browser.close()


@lru_cache(maxsize=1)
def find_chromium(playwrights_own: str) -> str | None:
    """One on the PATH, else Playwright's own download, else Debian's package where we are root and
    may install it. None: let Playwright say what is missing.
    """
    found = _on_path()
    if found is not None or Path(playwrights_own).exists():
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    with (Path(tempfile.gettempdir()) / "comfyrail-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # parallel runs wait for the one that installs
        if _on_path() is None:
            for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
                subprocess.run(
                    ["apt-get", "-q", *command],
                    check=False,
                    capture_output=True,
                    timeout=INSTALL_SECONDS,
                    env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                )
    return _on_path()


def _on_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


def _skip(why: str) -> None:
    warnings.warn(f"NOTHING WAS TRIED IN A BROWSER: {why}", stacklevel=2)
    pytest.skip(f"NOTHING WAS TRIED IN A BROWSER: {why}")
