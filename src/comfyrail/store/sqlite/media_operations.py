"""The store's view of what files are, and of what was made of them to look at."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

import msgspec

from comfyrail.store.media import (
    KnownMedia,
    LookedAt,
    MediaFacts,
    MediaFile,
    Variant,
    WaitingMedia,
)
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import encode
from comfyrail.store.sqlite.writer import Transaction, Writer

_read_facts = msgspec.json.Decoder(MediaFacts).decode
_read_variants = msgspec.json.Decoder(
    list[tuple[str, str, str, int, int | None, int | None]]
).decode


class MediaOperations:
    """Part of SqliteStore. See comfyrail.store.media.MediaStore."""

    _writer: Writer
    _readers: Readers

    async def media_of(self, files: Sequence[MediaFile]) -> Mapping[MediaFile, KnownMedia]:
        wanted = json.dumps(list(set(files)))
        rows = await self._readers.read(lambda snapshot: snapshot.all("media_of", files=wanted))
        return {_file(row): _media(row) for row in rows}

    async def waiting_media(self, newest: int, oldest: int) -> Sequence[WaitingMedia]:
        def read(snapshot: Snapshot) -> list[sqlite3.Row]:
            by_turns = zip_longest(
                snapshot.all("newest_waiting_media", limit=newest),
                snapshot.all("oldest_waiting_media", limit=oldest),
            )
            return [row for row in chain.from_iterable(by_turns) if row is not None]

        rows = {_file(row): row for row in await self._readers.read(read)}
        return [WaitingMedia(file, row["attempts"]) for file, row in rows.items()]

    async def save_media(self, looked_at: Sequence[LookedAt]) -> Sequence[MediaFile]:
        def save(tx: Transaction) -> list[MediaFile]:
            return [each.file for each in looked_at if not _save(tx, each)]

        return await self._writer.write(save)

    async def count_media_attempt(self, file: MediaFile) -> None:
        await self._writer.write(lambda tx: tx.run("count_media_attempt", **file._asdict()))

    async def forget_media(self, after: str, limit: int) -> tuple[str | None, Sequence[str]]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("page_of_media", after=after, limit=limit)
        )
        unneeded = json.dumps([row["blob_key"] for row in rows if not row["is_needed"]])

        def forget(tx: Transaction) -> list[str]:
            # Asked again: somebody may have made or given the same file meanwhile.
            left_over = tx.all("variants_of_unneeded_media", keys=unneeded)
            tx.run("delete_unneeded_media", keys=unneeded)
            return [row["variant_key"] for row in left_over]

        left_over = await self._writer.write(forget) if unneeded != "[]" else []
        return (rows[-1]["blob_key"] if len(rows) == limit else None), left_over


def _save(tx: Transaction, looked_at: LookedAt) -> bool:
    """Whether the file is still one to look at."""
    found = tx.one(
        "end_media",
        **looked_at.file._asdict(),
        state="ready" if looked_at.facts.error is None else "failed",
        facts=encode(looked_at.facts),
    )
    if found is None:
        return False
    for variant in looked_at.variants:
        tx.run(
            "insert_variant",
            blob_key=looked_at.file.blob_key,
            taken_for=looked_at.file.content_type,
            name=variant.name,
            variant_key=variant.blob_key,
            content_type=variant.content_type,
            width=variant.width,
            height=variant.height,
            size=variant.size,
        )
    return True


def _file(row: sqlite3.Row) -> MediaFile:
    return MediaFile(row["blob_key"], row["content_type"])


def _media(row: sqlite3.Row) -> KnownMedia:
    variants = (
        Variant(name, key, content_type, size, width, height)
        for name, key, content_type, size, width, height in _read_variants(row["variants"])
    )
    return KnownMedia(
        row["state"],
        None if row["facts"] is None else _read_facts(row["facts"]),
        {variant.name: variant for variant in variants},
    )
