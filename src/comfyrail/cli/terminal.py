"""Text on a terminal: what users, servers and files say is shown, never obeyed."""

import re
import sys

from rich.console import Console
from rich.text import Text

# Whole sequences first, so that none leaves its letters behind; then every control character but
# the newline, marks that turn the direction of writing, and halves of characters.
_UNSHOWN = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_HALVES = re.compile(r"[\ud800-\udfff]")

out = Console(highlight=False, markup=False, emoji=False)
errors = Console(stderr=True, highlight=False, markup=False, emoji=False)


def plain(text: str) -> str:
    """Without anything that a terminal would act on; lines stay lines."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", _UNSHOWN.sub("", text)).expandtabs()


def line(text: str) -> str:
    """As `plain`, in one line."""
    return " ".join(plain(text).split())


def say(*parts: str | Text) -> None:
    """One line of results on standard output."""
    shown = (part if isinstance(part, Text) else line(part) for part in parts)
    out.print(
        Text(" ").join(Text(part) if isinstance(part, str) else part for part in shown),
        soft_wrap=True,
    )


def accept_any_text() -> None:
    """Let no character that the terminal's encoding lacks end a command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
