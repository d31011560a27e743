"""Asking a worker what became of a prompt."""

from typing import Literal

from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.history import HistoryEntry

Whereabouts = Literal["queued", "running", "absent", "doubtful"]
"""Doubtful: the worker denies a prompt that it has just spoken of; once is not believed."""


class Inquiry:
    def __init__(self, client: ComfyClient, prompt_id: str) -> None:
        self._client = client
        self._prompt_id = prompt_id
        self._heard_in: int | None = None
        self._is_doubted = False

    def note_heard(self) -> None:
        """The worker has spoken of the prompt over its socket."""
        self._heard_in = self._client.times_opened

    async def ask(self) -> HistoryEntry | Whereabouts:
        """Its end, or where it is. Raises WorkerError."""
        entry = await self._client.history(self._prompt_id)
        if entry is not None:
            return entry
        presence = await self._client.presence(self._prompt_id)
        if presence != "absent":
            self._is_doubted = False
            return presence
        # It may have ended between the two looks.
        entry = await self._client.history(self._prompt_id)
        if entry is not None:
            return entry
        if self._heard_in == self._client.times_opened and not self._is_doubted:
            self._is_doubted = True
            return "doubtful"
        return "absent"
