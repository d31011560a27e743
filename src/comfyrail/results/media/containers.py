"""Opening films and sounds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from av.container import InputContainer

from comfyrail.engine.containers import UnreadableContainer, opened_container
from comfyrail.results.media.unusable import Unusable


@contextmanager
def opened(path: Path, content_type: str) -> Iterator[InputContainer]:
    """The film or sound, with its header read. Raises Unusable."""
    try:
        with opened_container(path, content_type) as container:
            yield container
    except UnreadableContainer as error:
        raise Unusable(str(error)) from error


def tags_of(container: InputContainer) -> Mapping[str, str]:
    """What is said of it, by names in small letters; what the file says before what its streams
    say.
    """
    tags: dict[str, str] = {}
    for stream in reversed(container.streams):
        tags |= {name.lower(): text for name, text in stream.metadata.items()}
    return tags | {name.lower(): text for name, text in container.metadata.items()}
