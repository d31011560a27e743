"""A Chromium, wherever there is one."""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ARGUMENTS = ("--no-sandbox", "--disable-background-networking", "--use-gl=swiftshader")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright's; skips with a loud line where there is none."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        _skip("Playwright is not installed: pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        except Error as error:
            _skip(f"no Chromium was found or it does not start ({error.message.splitlines()[0]})")
        try:
            yield browser
        finally:
            browser.close()


def _skip(why: str) -> None:
    warnings.warn(f"NOTHING WAS TRIED IN A BROWSER: {why}", stacklevel=2)
    pytest.skip(f"NOTHING WAS TRIED IN A BROWSER: {why}")
