"""The store's view of blobs: which of them are referred to."""

import json
from collections.abc import Sequence

from comfyrail.store.sqlite.readers import Readers


class BlobOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    _readers: Readers

    async def referenced_blobs(self, keys: Sequence[str]) -> frozenset[str]:
        """Those of the keys that an output, an asset or a job that has not ended has."""
        wanted = json.dumps(list(keys))
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("referenced_blobs", keys=wanted)
        )
        return frozenset(row["blob_key"] for row in rows)

    async def has_outputs(self) -> bool:
        """Whether any job has ever made something, or anybody given something."""
        return await self._readers.read(lambda snapshot: snapshot.one("any_output")) is not None
