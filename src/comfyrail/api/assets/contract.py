"""The bodies of uploads and assets."""

from datetime import datetime
from typing import Literal

import msgspec

from comfyrail.api.contract import moment
from comfyrail.store.assets import Asset, SameName
from comfyrail.store.media import KnownMedia, MediaFacts
from comfyrail.usecases.asset_names import canonical_name
from comfyrail.usecases.upload_sessions import CHUNK_BYTES, UploadSession

ASSETS = "/v1/assets"
ASSET = "/v1/assets/{asset_id}"
CONTENT = "/v1/assets/{asset_id}/content"
UPLOADS = "/v1/uploads"
SESSIONS = "/v1/uploads/sessions"
SESSION = "/v1/uploads/sessions/{upload_id}"


class OutputSource(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    execution_id: str
    output_id: str


class UploadRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A file by one of `url`, `base64` (also a data: URL), `output` or `blake3`."""

    url: str | None = None
    base64: str | None = None
    output: OutputSource | None = None
    blake3: str | None = None
    """Of bytes that one of your files or outputs has."""
    name: str | None = None
    content_type: str | None = None
    expires_in: float | None = None
    same_name: SameName = "keep_both"


class SessionRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A file that will come in parts."""

    name: str
    size: int
    content_type: str | None = None
    sha256: str | None = None
    expires_in: float | None = None
    same_name: SameName = "keep_both"


class AssetBody(msgspec.Struct, kw_only=True):
    asset_id: str
    name: str
    input_name: str
    """What to write into a workflow where exactly these bytes are meant."""
    content_type: str
    size: int
    sha256: str
    blake3: str
    created_at: datetime
    expires_at: datetime | None
    url: str
    media: MediaFacts | None
    """What is known of the file; null while nobody has looked at it, and in lists."""
    variants: dict[str, str]
    """Where smaller versions are, by name."""


class AssetList(msgspec.Struct, kw_only=True):
    assets: list[AssetBody]
    next_cursor: str | None


class UploadReply(msgspec.Struct, kw_only=True):
    """In the order in which the files came."""

    assets: list[AssetBody]


class SessionBody(msgspec.Struct, kw_only=True):
    upload_id: str
    status: Literal["open", "done"]
    name: str
    size: int
    offset: int
    """The next part begins here."""
    chunk_size: int
    """A part may have so many bytes."""
    expires_at: datetime
    asset: AssetBody | None
    """The file, once the last byte is there."""


def asset_body(asset: Asset, media: KnownMedia | None = None) -> AssetBody:
    url = ASSET.format(asset_id=asset.id)
    return AssetBody(
        asset_id=asset.id,
        name=asset.name,
        input_name=canonical_name(asset.sha256, asset.name),
        content_type=asset.content_type,
        size=asset.size,
        sha256=asset.sha256,
        blake3=asset.blake3,
        created_at=moment(asset.created_at),
        expires_at=None if asset.expires_at is None else moment(asset.expires_at),
        url=CONTENT.format(asset_id=asset.id),
        media=None if media is None else media.facts,
        variants={name: f"{url}/variants/{name}" for name in (media.variants if media else ())},
    )


def session_body(session: UploadSession) -> SessionBody:
    record = session.record
    return SessionBody(
        upload_id=record.id,
        status="done" if record.is_done else "open",
        name=record.name,
        size=record.size,
        offset=record.offset,
        chunk_size=CHUNK_BYTES,
        expires_at=moment(record.expires_at),
        asset=None if session.asset is None else asset_body(session.asset),
    )
