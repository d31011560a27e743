"""Files that come with a workflow: each becomes an asset, and the workflow names that one.

Under the name alone a later upload of the same name could come in between; so the workflow gets the
name under which an asset is found by its content. The assets lie in a folder of their own, and go
after a day unless a job needs them: they must not stand before what the caller has uploaded itself.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.errors import InvalidWorkflow, MalformedRequest
from comfyrail.ids import AssetId
from comfyrail.store.assets import Asset
from comfyrail.usecases.asset_names import canonical_name, check_name
from comfyrail.usecases.assets import Assets, read_file
from comfyrail.workflow.editor.strict_json import read_json

FOLDER = "given/"
KEPT_SECONDS = 86_400.0
MOST_FILES = 100
SMALL_TEXT = 1 << 16
NEVER_FILES = frozenset({"class_type", "type", "title"})
"""Keys of a workflow whose texts are no file names."""


class GivenFiles:
    """Every method takes the name that the workflow has for the file, and returns the one under
    which the server has it.
    """

    def __init__(self, assets: Assets) -> None:
        self._assets = assets

    async def from_base64(self, principal: Principal, name: str, text: str) -> str:
        """Base64, or a `data:` URL."""
        received = await self._assets.from_base64(
            principal, text, name=_last(name), expires_in=KEPT_SECONDS, folder=FOLDER
        )
        return _name_of(received.asset)

    async def from_file(self, principal: Principal, name: str, path: Path) -> str:
        """A file of the server that the caller may read."""
        received = await self._assets.receive(
            principal, read_file(path), name=_last(name), expires_in=KEPT_SECONDS, folder=FOLDER
        )
        return _name_of(received.asset)

    async def from_asset(self, principal: Principal, asset_id: AssetId) -> str:
        principal.check_may(Permission.ASSETS_READ)
        return _name_of(await self._assets.get(principal, asset_id))


def _last(name: str) -> str:
    return PurePosixPath(check_name(name)).name


def _name_of(asset: Asset) -> str:
    return canonical_name(asset.sha256, asset.name)


async def renamed(workflow: bytes, names: Mapping[str, str]) -> bytes:
    """The workflow with every text that is one of these names replaced. One that cannot be read is
    returned as it is: whoever checks it says what is wrong.
    """
    if not names:
        return workflow
    if len(workflow) <= SMALL_TEXT:
        return _renamed(workflow, names)
    return await asyncio.to_thread(_renamed, workflow, names)


def _renamed(workflow: bytes, names: Mapping[str, str]) -> bytes:
    try:
        return msgspec.json.encode(_replaced(read_json(workflow), names))
    except (InvalidWorkflow, RecursionError):
        return workflow


def _replaced(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_replaced(each, names) for each in value]
    if isinstance(value, dict):
        return {
            key: each if key in NEVER_FILES else _replaced(each, names)
            for key, each in value.items()
        }
    return value


def check_count(files: int) -> None:
    if files > MOST_FILES:
        raise MalformedRequest(f"{files} files came with the workflow; {MOST_FILES} at most.")
