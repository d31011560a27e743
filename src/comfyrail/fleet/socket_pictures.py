"""Pictures of one attempt that come over the socket: previews, and outputs that are nowhere else.

ComfyUI's node SaveImageWebsocket, and others of its kind, send their pictures only there: neither
the worker's disk nor its history has them.
"""

from functools import cached_property

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.fleet.comfyui.pictures import WorkerPicture
from comfyrail.fleet.outputs import FILE_LIMIT, Saves, save_picture
from comfyrail.fleet.previews import Previews
from comfyrail.jobs.job import Attempt, NewOutput

log = structlog.get_logger(__name__)

SENDER_MARK = "websocket"
"""In the names of the node types that send their output so."""


class SocketPictures:
    def __init__(self, attempt: Attempt, sink: Saves, previews: Previews | None) -> None:
        self._attempt = attempt
        self._sink = sink
        self._previews = previews
        self._outputs: list[NewOutput] = []
        self._has_gap = False

    @property
    def outputs(self) -> tuple[NewOutput, ...]:
        """What was kept, in the order in which it came."""
        return tuple(self._outputs)

    @property
    def are_incomplete(self) -> bool:
        """Whether pictures may have been sent that nobody has."""
        return self._has_gap and bool(self._senders)

    def note_gap(self) -> None:
        """Something that was sent may not have come here."""
        self._has_gap = True

    async def take(self, picture: WorkerPicture, node_id: str | None) -> int | None:
        """The number of the preview that it is; None where it is none that is kept."""
        if node_id is not None and node_id in self._senders:
            if picture.content_type == "image/png":
                await self._keep(picture, node_id)
            return None
        if self._previews is None:
            return None
        known, job_id = node_id if node_id in self._attempt.prompt else None, self._attempt.job_id
        is_kept = self._previews.put(job_id, known, picture.content_type, picture.image)
        latest = self._previews.latest(job_id) if is_kept else None
        return None if latest is None else latest.number

    def close(self) -> None:
        """The attempt has ended: its previews are of no use any more."""
        if self._previews is not None:
            self._previews.drop(self._attempt.job_id)

    @cached_property
    def _senders(self) -> frozenset[str]:
        return frozenset(
            node_id
            for node_id, node in self._attempt.prompt.items()
            if SENDER_MARK in str(node.get("class_type")).lower()
        )

    async def _keep(self, picture: WorkerPicture, node_id: str) -> None:
        if len(self._outputs) >= FILE_LIMIT:
            self._has_gap = True
            return
        number = len(self._outputs) + 1
        try:
            self._outputs.append(
                await save_picture(picture.image, picture.content_type, node_id, number, self._sink)
            )
        except StoreUnavailable as error:
            self._has_gap = True
            log.warning("picture_not_stored", job_id=self._attempt.job_id, error=error.message)
