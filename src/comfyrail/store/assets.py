"""Files that users have given, as the store keeps track of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from comfyrail.clock import Instant
from comfyrail.ids import AssetId, JobId, TenantId
from comfyrail.jobs.job import Output

SameName = Literal["keep_both", "rename", "replace"]
"""What becomes of a file whose name is taken: the name means the newest; it gets another, unless
it has the same bytes; the others go.
"""


@dataclass(frozen=True, slots=True)
class Asset:
    id: AssetId
    tenant: TenantId
    name: str
    """`photo.png` or `sub/photo.png`."""
    content_type: str
    size: int
    sha256: str
    blake3: str
    blob_key: str
    created_at: Instant
    expires_at: Instant | None


@dataclass(frozen=True, slots=True)
class AssetPage:
    assets: Sequence[Asset]
    next_cursor: AssetId | None


@dataclass(frozen=True, slots=True)
class AddedAsset:
    """`is_new` False: one with the same name and the same bytes was there. `freed` are the blobs of
    those that it has replaced.
    """

    asset: Asset
    is_new: bool = True
    freed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class KnownContent:
    """Bytes that an asset or an output of the tenant has."""

    content_type: str
    size: int
    sha256: str
    blake3: str
    blob_key: str


class AssetStore(Protocol):
    async def add_asset(
        self,
        asset: Asset,
        same_name: SameName = "keep_both",
        *,
        is_known_content: bool = False,
        most_bytes: int | None = None,
    ) -> AddedAsset:
        """Remember it; one with this id that is there already stays as it is.

        `is_known_content`: its bytes were not saved for it. Raises NotFound where nothing of the
        tenant refers to them any more. `most_bytes`: what the tenant may keep; raises
        TooManyRequests where it would be more.
        """
        ...

    async def get_asset(self, tenant: TenantId, asset_id: AssetId) -> Asset:
        """Raise AssetNotFound for unknown ones, expired ones and those of other tenants alike."""
        ...

    async def list_assets(
        self, tenant: TenantId, after: AssetId | None, limit: int, name: str | None = None
    ) -> AssetPage:
        """Newest first; all, or those of this name."""
        ...

    async def find_asset_by_name(self, tenant: TenantId, name: str) -> Asset | None:
        """The newest of this name."""
        ...

    async def list_asset_names(self, tenant: TenantId, limit: int) -> Sequence[str]: ...

    async def find_assets_by_content(self, tenant: TenantId, start: str) -> Sequence[Asset]:
        """Those whose SHA-256 begins like this, newest first."""
        ...

    async def find_content(self, tenant: TenantId, blake3: str) -> KnownContent | None: ...

    async def find_output_by_content(
        self, tenant: TenantId, start: str, filename: str
    ) -> Output | None:
        """One whose SHA-256 begins like this; one of this name before others."""
        ...

    async def find_named_output(
        self,
        tenant: TenantId,
        job_id: JobId,
        filename: str,
        subfolder: str | None = None,
        *,
        is_temporary: bool = False,
    ) -> Output | None:
        """An output of a job by its name; `subfolder` None: in any."""
        ...

    async def delete_asset(self, tenant: TenantId, asset_id: AssetId) -> str:
        """Forget it; the key of its blob. Raises AssetNotFound, or Conflict while a job that has
        not ended uses it.
        """
        ...

    async def remove_expired_assets(self, limit: int) -> Sequence[str]:
        """Forget assets whose time has come, but for those that jobs use; their blobs."""
        ...

    async def needed_inputs(self, names: Sequence[str]) -> frozenset[str]:
        """Those of the names in the input folder that jobs need which have not ended."""
        ...

    async def kept_contents(self, starts: Sequence[str]) -> frozenset[str]:
        """Those of these beginnings of a SHA-256 that some asset has."""
        ...
