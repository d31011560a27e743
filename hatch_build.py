"""Puts the page into what is built: a wheel has it, and so has an sdist."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts"))

import build_page  # noqa: E402 (it lies beside this file, not on the path)


class PageHook(BuildHookInterface[Any]):
    """An editable install leaves the page to `make page`."""

    def dependencies(self) -> list[str]:
        is_there = (build_page.BUILT / "index.html").is_file()
        return [] if is_there or build_page.has_node() else [build_page.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        if version == "editable":
            return
        if not (build_page.BUILT / "index.html").is_file() or (ROOT / ".git").exists():
            build_page.build_page()
