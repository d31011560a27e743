"""What a conversion could not do, or did with a guess: said, not raised."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOTE_LIMIT = 500
UNKNOWN_NODE_TYPE = "UNKNOWN_NODE_TYPE"
BAD_LINK = "BAD_LINK"
MALFORMED = "SCHEMA_VALIDATION_ERROR"


@dataclass(frozen=True, slots=True)
class ConversionNote:
    """A warning; `code` is one of validation's, `node_id` is that of the converted workflow."""

    code: str
    message: str
    node_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Notes:
    """Collects notes: a hostile file may give cause for a million, of which the first are kept."""

    def __init__(self) -> None:
        self._kept: list[ConversionNote] = []
        self._left_out = 0

    def add(self, code: str, message: str, node_id: str | None = None, **details: Any) -> None:
        if len(self._kept) < NOTE_LIMIT:
            self._kept.append(ConversionNote(code, message, node_id, details))
        else:
            self._left_out += 1

    def all(self) -> tuple[ConversionNote, ...]:
        if not self._left_out:
            return tuple(self._kept)
        more = ConversionNote(MALFORMED, f"And {self._left_out} more notes like these.")
        return (*self._kept, more)
