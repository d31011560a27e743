"""What the server and a media process say to each other: one JSON object a line."""

import msgspec

from comfyrail.jobs.output_config import ImageFormat
from comfyrail.store.media import MediaFacts


class Look(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Find out what a file is, and make what there is to look at of it in `folder`."""

    path: str
    content_type: str
    folder: str
    seconds: float
    """Of the processor's time that it may take."""


class Convert(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Make a picture into another format, in `folder`; None: stay with its own."""

    path: str
    content_type: str
    folder: str
    seconds: float
    format: ImageFormat | None = None
    quality: int | None = None


class MadeFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in the folder of the task. `name`: of the variant."""

    name: str
    file: str
    content_type: str
    width: int | None = None
    height: int | None = None


class Looked(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    facts: MediaFacts
    variants: list[MadeFile] = []


class Converted(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """`file` None: it is as it should be already."""

    file: MadeFile | None = None


class Refused(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The file cannot be used; `reason` is for people."""

    reason: str


class NoRoom(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The disk did not take what was made."""

    number: int
    """Of the system's error."""


Task = Look | Convert
Answer = Looked | Converted | Refused | NoRoom

LONGEST_ANSWER = 16 << 20
READY = b"ready\n"
"""What a process says first."""

encode = msgspec.json.Encoder().encode
_tasks: msgspec.json.Decoder[Task] = msgspec.json.Decoder(Task)
_answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
read_task = _tasks.decode
read_answer = _answers.decode
