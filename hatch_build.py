"""Puts the page into what is built: a wheel has it, and so has an sdist."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts"))

import build_page  # noqa: E402 (it lies beside this file, not on the path)


class PageHook(BuildHookInterface[Any]):
    """An editable install leaves the page to `make page`. An sdist brings it along, so that whoever
    installs that needs no Node.
    """

    def dependencies(self) -> list[str]:
        return [build_page.NODE_PACKAGE] if is_to_build() and not build_page.has_node() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del build_data
        if version != "editable" and is_to_build():
            build_page.build_page()


def is_to_build() -> bool:
    is_sdist = (ROOT / "PKG-INFO").is_file()
    has_page = (build_page.BUILT / "index.html").is_file()
    return not (is_sdist and has_page) and not build_page.is_built()
