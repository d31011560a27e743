"""Texts on their way out of one file, in all no more than it may have."""

from comfyrail.workflow.editor.allowance import Allowance
from comfyrail.workflow.editor.notes import MALFORMED, Notes
from comfyrail.workflow.editor.texts import (
    LONGEST_IN_FILE_NAME,
    LONGEST_IN_TEXT,
    FindWidget,
    Moment,
    fill_placeholders,
    make_choices,
)
from comfyrail.workflow.nearest import shown


class TextWriter:
    """A text with placeholders is filled once, however many nodes take it. Choices are made anew
    for every node.
    """

    def __init__(
        self, moment: Moment, find: FindWidget, notes: Notes, allowance: Allowance
    ) -> None:
        self._moment = moment
        self._find = find
        self._notes = notes
        self._allowance = allowance
        self._filled: dict[tuple[str, int], str] = {}

    def choose(self, text: str) -> str:
        made = make_choices(text, self._moment.choose)
        if made is not text:
            self._allowance.spend(len(text))
        return made

    def fill_file_name(self, text: str) -> str:
        return self._fill(text, LONGEST_IN_FILE_NAME)

    def fill_text(self, text: str) -> str:
        return self._fill(text, LONGEST_IN_TEXT)

    def _fill(self, text: str, longest: int) -> str:
        if "%" not in text:
            return text
        filled = self._filled.get((text, longest))
        if filled is None:
            filled = self._filled[text, longest] = self._fill_anew(text, longest)
        return filled

    def _fill_anew(self, text: str, longest: int) -> str:
        filled = fill_placeholders(text, self._find, self._moment.now, longest)
        if filled is None:
            self._notes.add(
                MALFORMED,
                f"The placeholders in {shown(text)} stand for more than {longest} characters, or "
                "for what is no text: it is left as it is.",
            )
            return text
        if filled is not text:
            self._allowance.spend(len(filled))
        return filled
