"""All that ComfyUI's own API needs beside submitting and assets."""

from dataclasses import dataclass

from comfyrail.usecases.comfyui_feed import ComfyuiFeeds
from comfyrail.usecases.comfyui_fleet import ComfyuiFleet
from comfyrail.usecases.comfyui_records import ComfyuiRecords
from comfyrail.usecases.comfyui_userdata import ComfyuiUserdata


@dataclass(frozen=True, slots=True)
class Comfyui:
    records: ComfyuiRecords
    feeds: ComfyuiFeeds
    fleet: ComfyuiFleet
    userdata: ComfyuiUserdata
