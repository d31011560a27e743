"""Settings and files that ComfyUI's editor keeps for its user: texts of the tenant."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.errors import Conflict, MalformedRequest, PayloadTooLarge
from comfyrail.jobs.quotas import StorageRoom
from comfyrail.store.interface import Document, Store

SETTINGS = "comfyui/settings"
FILES = "comfyui/userdata"
ALL_SETTINGS = "all"
LARGEST_FILE = 32 << 20
LARGEST_SETTINGS = 1 << 20
LONGEST_PATH = 500
FILES_A_READ = 1000
TRIES = 5

RoomOf = Callable[[Principal], Awaitable[StorageRoom | None]]

_decode_settings = msgspec.json.Decoder(dict[str, Any]).decode


class ComfyuiUserdata:
    def __init__(self, store: Store, room_of: RoomOf | None = None) -> None:
        """`room_of`: what a caller may keep of everything."""
        self._store = store
        self._room_of = room_of

    async def settings(self, principal: Principal) -> Mapping[str, Any]:
        found = await self._store.get_document(principal.tenant, SETTINGS, ALL_SETTINGS)
        return {} if found is None else _decode_settings(found.content)

    async def change_settings(self, principal: Principal, changes: Mapping[str, Any]) -> None:
        """Set some of them; the others stay. Two changes at once are both kept."""
        for _ in range(TRIES):
            found = await self._store.get_document(principal.tenant, SETTINGS, ALL_SETTINGS)
            before = {} if found is None else _decode_settings(found.content)
            content = msgspec.json.encode({**before, **changes})
            if len(content) > LARGEST_SETTINGS:
                raise PayloadTooLarge("The settings take more than 1 MiB.")
            try:
                await self._store.put_document(
                    principal.tenant,
                    SETTINGS,
                    ALL_SETTINGS,
                    content,
                    found.version if found else 0,
                    most_bytes=await self._most_bytes(principal),
                )
            except Conflict:
                continue
            return
        raise Conflict("The settings are being changed by others. Try again.")

    async def files(self, principal: Principal, folder: str) -> Sequence[Document]:
        """All below a folder, with their paths, without their content."""
        prefix = f"{check_path(folder)}/" if folder else ""
        found: list[Document] = []
        while page := await self._store.list_documents(
            principal.tenant, FILES, prefix, found[-1].name if found else "", FILES_A_READ
        ):
            found += page
        return found

    async def file(self, principal: Principal, path: str) -> Document | None:
        return await self._store.get_document(principal.tenant, FILES, check_path(path))

    async def save(
        self, principal: Principal, path: str, content: bytes, *, overwrite: bool
    ) -> Document:
        """Raises Conflict where there is a file already that is not to be overwritten."""
        if len(content) > LARGEST_FILE:
            raise PayloadTooLarge(f"A file has {LARGEST_FILE >> 20} MiB at most.")
        name = check_path(path)
        await self._store.put_document(
            principal.tenant,
            FILES,
            name,
            content,
            None if overwrite else 0,
            most_bytes=await self._most_bytes(principal),
        )
        saved = await self._store.get_document(principal.tenant, FILES, name)
        if saved is None:
            raise Conflict(f"'{name}' was deleted while it was saved.")
        return saved

    async def move(
        self, principal: Principal, source: str, target: str, *, overwrite: bool
    ) -> Document | None:
        """The file under its new name; None where there is none of the old one."""
        found = await self.file(principal, source)
        if found is None:
            return None
        if found.name == check_path(target):
            return found
        moved = await self.save(principal, target, found.content, overwrite=overwrite)
        await self._store.delete_document(principal.tenant, FILES, found.name)
        return moved

    async def _most_bytes(self, principal: Principal) -> int | None:
        room = await self._room_of(principal) if self._room_of is not None else None
        return None if room is None else room.limit

    async def delete(self, principal: Principal, path: str) -> bool:
        return await self._store.delete_document(principal.tenant, FILES, check_path(path))


def check_path(path: str) -> str:
    """A plain relative path. Raises MalformedRequest for any other."""
    parts = path.split("/")
    is_plain = all(part.strip(" .") for part in parts) and path.isprintable()
    if not is_plain or "\\" in path or len(path) > LONGEST_PATH:
        raise MalformedRequest(
            f"{path[:80]!r} is no path of a file. Use one like 'workflows/mine.json'.",
            code="INVALID_FILE_NAME",
        )
    return path
