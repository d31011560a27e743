"""What files are and what was made of them to look at, as the store keeps track of it [8.2].

All of it goes by the key of a blob and the type it is taken for: equal files are looked at once,
whoever has them. The type is not always to be seen in the bytes, so it is not shared among types.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import msgspec

from comfyrail.jobs.job import Output

Kind = Literal[
    "image", "animation", "video", "audio", "model3d", "text", "latent", "archive", "other"
]
MediaState = Literal["waiting", "ready", "failed"]

_KINDS: Mapping[str, Kind] = {
    "image": "image",
    "video": "video",
    "audio": "audio",
    "model": "model3d",
    "text": "text",
}
_OTHER_KINDS: Mapping[str, Kind] = {
    "application/json": "text",
    "application/x-safetensors": "latent",
    "application/zip": "archive",
}
_WITHOUT_FACTS = frozenset({"application/json", "text/html", "text/xml"})


class MediaFile(NamedTuple):
    """A blob, and the type it is taken for."""

    blob_key: str
    content_type: str


class TensorFacts(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    dtype: str
    shape: list[int]


class MediaFacts(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is known of a file; what is not is left out. `duration` in seconds; `counts`: what a 3D
    file or an archive has of each sort; `first_line` and `characters` of a text.
    """

    kind: Kind
    format: str | None = None
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    duration: float | None = None
    fps: float | None = None
    video_codec: str | None = None
    audio_codec: str | None = None
    sample_rate: int | None = None
    channels: int | None = None
    has_alpha: bool | None = None
    title: str | None = None
    first_line: str | None = None
    characters: int | None = None
    counts: dict[str, int] = {}
    tensors: list[TensorFacts] = []
    has_prompt: bool = False
    """The graph that made it is in it, in ComfyUI's API format."""
    has_workflow: bool = False
    """The same in the editor's format."""
    error: str | None = None
    """Why there is not more."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Something smaller that was made of a file: a blob too."""

    name: str
    blob_key: str
    content_type: str
    size: int
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True, slots=True)
class KnownMedia:
    """What is known of a blob; nothing while it waits."""

    state: MediaState
    facts: MediaFacts | None = None
    variants: Mapping[str, Variant] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WaitingMedia:
    file: MediaFile
    attempts: int


@dataclass(frozen=True, slots=True)
class LookedAt:
    """A file that was looked at to the end: in vain where the facts have an error."""

    file: MediaFile
    facts: MediaFacts
    variants: Sequence[Variant] = ()


def media_file(output: Output) -> MediaFile:
    return MediaFile(output.file.blob_key, output.file.content_type)


def kind_of(content_type: str) -> Kind:
    """By its type alone."""
    return _OTHER_KINDS.get(content_type) or _KINDS.get(content_type.partition("/")[0], "other")


def has_facts(content_type: str) -> bool:
    """Whether more can be learned of files of this type than their type."""
    return kind_of(content_type) != "other" and content_type not in _WITHOUT_FACTS


class MediaStore(Protocol):
    async def media_of(self, files: Sequence[MediaFile]) -> Mapping[MediaFile, KnownMedia]:
        """Those of these files that were looked at or will be."""
        ...

    async def waiting_media(self, newest: int, oldest: int) -> Sequence[WaitingMedia]:
        """The newest files that nobody has looked at yet and the oldest, by turns. Those that
        somebody did not survive come behind all others.
        """
        ...

    async def save_media(self, looked_at: Sequence[LookedAt]) -> Sequence[MediaFile]:
        """Write down what was found. Those that are not there any more: their variants belong to
        nothing.
        """
        ...

    async def count_media_attempt(self, file: MediaFile) -> None:
        """Whoever looked at it did not survive that."""
        ...

    async def forget_media(self, after: str, limit: int) -> tuple[str | None, Sequence[str]]:
        """Look through the next blobs after a key, and forget those that no output and no asset
        has any more. Where to go on, None at the end; and the variants that are left over.
        """
        ...
