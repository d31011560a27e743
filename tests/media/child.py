"""A real media process, asked as the server asks it."""

import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypeVar

from comfyrail.jobs.output_config import ImageFormat
from comfyrail.results.media.messages import (
    READY,
    Answer,
    Convert,
    Converted,
    Look,
    Looked,
    MadeFile,
    Task,
    encode,
    read_answer,
)
from comfyrail.results.media.processes import MODULE
from comfyrail.sniffing import Claims, detect, refine
from comfyrail.store.media import MediaFacts

Wanted = TypeVar("Wanted")
ANSWER_SECONDS = 60.0


class MediaChild:
    """Files that it makes stay in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == READY

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def look(self, path: Path, content_type: str | None = None) -> tuple[MediaFacts, "Made"]:
        made = self._new_folder()
        answer = self.ask(
            Look(
                path=str(path),
                content_type=content_type or type_of(path),
                folder=str(made),
                seconds=30,
            )
        )
        assert isinstance(answer, Looked), answer
        return answer.facts, Made(made, answer.variants)

    def convert(
        self, path: Path, wanted: ImageFormat | None = None, quality: int | None = None
    ) -> Path | None:
        made = self._new_folder()
        answer = self.ask(
            Convert(
                path=str(path),
                content_type=type_of(path),
                folder=str(made),
                seconds=30,
                format=wanted,
                quality=quality,
            )
        )
        assert isinstance(answer, Converted), answer
        return None if answer.file is None else made / answer.file.file

    def ask(self, task: Task) -> Answer:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(encode(task) + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        assert ready, "the media process did not answer"
        return read_answer(self.process.stdout.readline())

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._folder))


class Made:
    """The files that were made, by name."""

    def __init__(self, folder: Path, files: list[MadeFile]) -> None:
        self._folder = folder
        self.files = {each.name: each for each in files}

    def __getitem__(self, name: str) -> Path:
        return self._folder / self.files[name].file

    @property
    def names(self) -> set[str]:
        return set(self.files)


def type_of(path: Path) -> str:
    return refine(detect(path.read_bytes()[: 1 << 16], is_whole=True), Claims(path.name))
