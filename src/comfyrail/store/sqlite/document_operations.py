"""The store's view of documents: small texts of a tenant by area and name."""

import sqlite3
from collections.abc import Sequence

from comfyrail.clock import Instant
from comfyrail.errors import Conflict, PayloadTooLarge
from comfyrail.ids import TenantId
from comfyrail.store.interface import Document
from comfyrail.store.sqlite.readers import Readers
from comfyrail.store.sqlite.usage_counts import check_bytes
from comfyrail.store.sqlite.writer import Transaction, Writer

MOST_BYTES = 256 << 20
"""Of all documents of a tenant."""
MOST_DOCUMENTS = 20_000


class DocumentOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    _writer: Writer
    _readers: Readers

    async def get_document(self, tenant: TenantId, area: str, name: str) -> Document | None:
        row = await self._readers.read(
            lambda snapshot: snapshot.one("get_document", tenant=tenant, area=area, name=name)
        )
        return None if row is None else _document(row, len(row["content"]), row["content"])

    async def list_documents(
        self, tenant: TenantId, area: str, prefix: str = "", after: str = "", limit: int = 1000
    ) -> Sequence[Document]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all(
                "list_documents", tenant=tenant, area=area, prefix=prefix, after=after, limit=limit
            )
        )
        return [_document(row, row["size"]) for row in rows]

    async def put_document(
        self,
        tenant: TenantId,
        area: str,
        name: str,
        content: bytes,
        version: int | None = None,
        *,
        most_bytes: int | None = None,
    ) -> int:
        def put(tx: Transaction) -> int:
            there = tx.one("get_document", tenant=tenant, area=area, name=name)
            current = there["version"] if there else 0
            if version is not None and version != current:
                raise Conflict(
                    f"'{name}' has been changed meanwhile: it is in version {current} now, not "
                    f"{version}. Read it again.",
                    code="DOCUMENT_CHANGED",
                    details={"version": current},
                )
            growth = len(content) - (len(there["content"]) if there else 0)
            _check_room(tx, tenant, growth)
            check_bytes(tx, tenant, most_bytes, growth)
            row = tx.one(
                "put_document", tenant=tenant, area=area, name=name, content=content, now=tx.now
            )
            return int(row["version"]) if row else 0

        return await self._writer.write(put)

    async def delete_document(self, tenant: TenantId, area: str, name: str) -> bool:
        def delete(tx: Transaction) -> bool:
            return tx.one("delete_document", tenant=tenant, area=area, name=name) is not None

        return await self._writer.write(delete)


def _check_room(tx: Transaction, tenant: TenantId, growth: int) -> None:
    kept = tx.one("size_of_documents", tenant=tenant)
    if kept is None or growth <= 0:
        return
    if kept["size"] + growth > MOST_BYTES or kept["documents"] >= MOST_DOCUMENTS:
        raise PayloadTooLarge(
            f"You have {kept['documents']} documents of {kept['size'] >> 20} MiB already. "
            "Delete some first.",
            code="TOO_MANY_DOCUMENTS",
        )


def _document(row: sqlite3.Row, size: int, content: bytes = b"") -> Document:
    return Document(
        row["name"],
        row["version"],
        size,
        Instant(row["created_at"]),
        Instant(row["modified_at"]),
        content,
    )
