"""Puts together what keeps the files of users."""

from dataclasses import dataclass

from comfyrail.bootstrap.settings import Settings
from comfyrail.clock import Clock
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.results.asset_sweeper import AssetSweeper
from comfyrail.results.blob_store import BlobStore
from comfyrail.results.input_files import InputFiles
from comfyrail.store.sqlite.store import SqliteStore
from comfyrail.store.storage_watch import StorageWatch
from comfyrail.usecases.asset_intake import UploadRules
from comfyrail.usecases.asset_names import FOLDER
from comfyrail.usecases.assets import Assets, RoomOf
from comfyrail.usecases.policies import Policies
from comfyrail.usecases.upload_sessions import UploadSessions

INPUT_FOLDER = "input"
UPLOAD_FOLDER = "uploads"


@dataclass(frozen=True, slots=True)
class AssetParts:
    assets: Assets
    uploads: UploadSessions
    input_files: InputFiles
    sweeper: AssetSweeper


def open_assets(
    settings: Settings,
    store: SqliteStore,
    blobs: BlobStore,
    storage: StorageWatch,
    policies: Policies,
    outgoing: OutgoingHttp,
    clock: Clock,
    room_of: RoomOf,
) -> AssetParts:
    rules = UploadRules(
        settings.max_upload_bytes, settings.allowed_upload_types, settings.asset_retention_seconds
    )
    refuse = storage.refuse_new_work
    assets = Assets(
        store, blobs, clock, policies, outgoing, rules, refuse_new_work=refuse, room_of=room_of
    )
    folder = settings.data / UPLOAD_FOLDER
    uploads = UploadSessions(folder, assets, clock, refuse_new_work=refuse)
    input_files = InputFiles(settings.data / INPUT_FOLDER, blobs, clock)
    sweeper = AssetSweeper(store, blobs, input_files, FOLDER, uploads.sweep)
    return AssetParts(assets, uploads, input_files, sweeper)
