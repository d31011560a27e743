import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from tests.workflow_formats.templates import (
    NEWEST_PACKAGES,
    SAMPLE_PACKAGES,
    Unreachable,
    templates,
)

DATA = Path(__file__).parent / "data"

TITLES_OF_THE_EDITOR = {"ByteDanceSeedreamNode": "ByteDance Seedream 4"}
"""The editor takes titles from its own language file, which was behind the worker's name here."""


@pytest.fixture(scope="session")
def catalog() -> NodeCatalog:
    """The node types of a ComfyUI 0.7.0, as the editor that made the samples had them."""
    known = parse_object_info(json.loads((DATA / "object_info.json").read_bytes()))
    renamed = {
        name: replace(known.types[name], display_name=title)
        for name, title in TITLES_OF_THE_EDITOR.items()
    }
    return NodeCatalog({**known.types, **renamed})


@pytest.fixture(scope="session")
def exported() -> dict[str, Any]:
    """Workflows in the API format as ComfyUI's editor exported them, by the template's name."""
    return {path.stem: json.loads(path.read_bytes()) for path in (DATA / "exported").glob("*.json")}


def _templates(packages: dict[str, str]) -> dict[str, Any]:
    try:
        return templates(packages)
    except Unreachable as error:
        pytest.skip(f"NOT TESTED: ComfyUI's templates cannot be fetched from PyPI. {error}")


@pytest.fixture(scope="session")
def sample_templates() -> dict[str, Any]:
    return _templates(SAMPLE_PACKAGES)


@pytest.fixture(scope="session")
def newest_templates() -> dict[str, Any]:
    return _templates(NEWEST_PACKAGES)
