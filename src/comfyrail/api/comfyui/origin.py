"""What this surface remembers of a job."""

from typing import Any

import msgspec


class OriginData(msgspec.Struct, omit_defaults=True):
    number: float | None = None
    front: bool = False
    workflow_id: str | None = None
    node_errors: Any = None
    """What was wrong with the outputs that it goes without."""


_decode = msgspec.json.Decoder(OriginData).decode


def read_origin(data: bytes | None) -> OriginData:
    """Of any job: those of other surfaces have nothing that is read here."""
    try:
        return _decode(data or b"{}")
    except msgspec.MsgspecError:
        return OriginData()


def number_of(origin: OriginData, submitted_at: int) -> float:
    """The number that the client gave, or the time: it goes up as ComfyUI's count does."""
    if origin.number is not None:
        return origin.number
    return -submitted_at if origin.front else submitted_at
