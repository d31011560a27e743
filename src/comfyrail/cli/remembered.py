"""What the server of a data folder remembers, read while it runs or not."""

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from comfyrail.errors import StoreUnavailable, WorkerProtocolError
from comfyrail.fleet.comfyui.decoding import decode_reply
from comfyrail.fleet.description import decode_description
from comfyrail.planning.records import ExecutionRecord
from comfyrail.store.interface import WorkerRecord
from comfyrail.store.sqlite.database import DATABASE_NAME, connect
from comfyrail.store.sqlite.readers import Snapshot
from comfyrail.store.sqlite.rows import read_worker
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info


@dataclass(frozen=True, slots=True)
class Remembered:
    """Workers with their catalogs, and records of past executions."""

    workers: tuple[WorkerCapabilities, ...] = ()
    records: tuple[ExecutionRecord, ...] = ()


def read_remembered(folder: Path) -> Remembered:
    """Nothing where there is no database. Raises StoreUnavailable for one that cannot be read."""
    if not (folder / DATABASE_NAME).is_file():
        return Remembered()
    try:
        with closing(connect(folder, read_only=True)) as connection:
            snapshot = Snapshot(connection)
            catalogs = {
                row["fingerprint"]: parse_object_info(
                    decode_reply(zlib.decompress(row["object_info"]))
                )
                for row in snapshot.all("list_catalogs")
            }
            workers = [read_worker(row) for row in snapshot.all("list_workers")]
            contents = [row["record"] for row in snapshot.all("list_records", after=0)]
    except (WorkerProtocolError, sqlite3.Error, zlib.error, LookupError) as error:
        raise StoreUnavailable(
            f"What {folder} remembers cannot be read ({error}): start a server of this version on "
            "it first, or give another folder with --data."
        ) from error
    decoded = (ExecutionRecord.decode(content) for content in contents)
    return Remembered(
        _capabilities(workers, catalogs),
        tuple(record for record in decoded if record is not None),
    )


def _capabilities(
    workers: Sequence[WorkerRecord], catalogs: Mapping[str, NodeCatalog]
) -> tuple[WorkerCapabilities, ...]:
    found = []
    pools = {worker.pool for worker in workers if not worker.is_likeness}
    for worker in workers:
        if worker.is_likeness and worker.pool in pools:
            continue
        catalog = catalogs.get(worker.catalog_fingerprint or "")
        if catalog:
            known = decode_description(worker.description)
            found.append(
                WorkerCapabilities(
                    id=worker.id,
                    catalog=catalog,
                    device=known.device,
                    video_memory=known.video_memory,
                    memory=known.memory,
                    models=known.models,
                )
            )
    return tuple(found)
