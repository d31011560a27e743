"""The store's view of answers under idempotency keys."""

from typing import Any

import msgspec

from comfyrail.clock import Clock, after
from comfyrail.errors import Conflict
from comfyrail.ids import TenantId
from comfyrail.store.interface import KeptReply
from comfyrail.store.sqlite.rows import encode
from comfyrail.store.sqlite.transitions import IDEMPOTENCY_SECONDS
from comfyrail.store.sqlite.writer import Transaction, Writer

MOST_REPLIES = 2000
"""Of a tenant; the oldest go first."""

_decode_headers = msgspec.json.Decoder(list[tuple[str, str]]).decode


class ReplyOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    _writer: Writer
    _clock: Clock

    async def claim_reply(self, tenant: TenantId, key: str, owner: str) -> KeptReply | None:
        def claim(tx: Transaction) -> KeptReply | None:
            oldest = after(tx.now, -IDEMPOTENCY_SECONDS)
            row = tx.one("get_reply", tenant=tenant, key=key, oldest=oldest)
            if row is None:
                tx.run("prune_replies", oldest=oldest)
                tx.run("drop_replies", tenant=tenant, most=MOST_REPLIES - 1)
                tx.run("claim_reply", tenant=tenant, key=key, owner=owner, now=tx.now)
                return None
            if row["status"] is None:
                raise Conflict(
                    "A request with this Idempotency-Key is under way. Send it again in a moment.",
                    code="IDEMPOTENCY_KEY_IN_USE",
                    retry_after=1.0,
                )
            headers = _decode_headers(row["headers"])
            return KeptReply(row["fingerprint"], row["status"], headers, row["body"])

        return await self._writer.write(claim)

    async def save_reply(self, tenant: TenantId, key: str, owner: str, reply: KeptReply) -> None:
        values: dict[str, Any] = {
            "fingerprint": reply.fingerprint,
            "status": reply.status,
            "headers": encode(list(reply.headers)),
            "body": reply.body,
        }
        await self._writer.write(
            lambda tx: tx.run("save_reply", tenant=tenant, key=key, owner=owner, **values)
        )

    async def release_reply(self, tenant: TenantId, key: str, owner: str) -> None:
        await self._writer.write(
            lambda tx: tx.run("release_reply", tenant=tenant, key=key, owner=owner)
        )

    async def release_replies(self) -> None:
        """Free the keys of requests that an earlier process has not answered: the lock proves that
        it is gone.
        """
        await self._writer.write(lambda tx: tx.run("release_replies"))
