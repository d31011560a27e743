"""Texts that do harm where they mean a path, code or a command."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from comfyrail.validation.meanings import Meaning

_FOLDER_MARK = re.compile(r" ?\[(?:input|output|temp)\]$")
_ESCAPES = (
    (re.compile(r"[\x00-\x1f\x7f]"), "it has control characters"),
    (re.compile(r"^~"), "it begins with '~'"),
    (re.compile(r"^[A-Za-z]:"), "it begins with a drive"),
)
_ROOT = re.compile(r"~|[A-Za-z]:/")
_DECODINGS = 3
LONGEST_PATH = 4096
"""What systems take. A longer text that becomes part of a path is judged as it stands."""

_SURELY_CODE = (
    r"\b(?:eval|exec|execfile)\s*\("
    r"|__(?:import|builtins|subclasses|globals|mro|bases|class|loader|spec)__"
    r"|<\s{0,9}/?\s{0,9}script\b|\b(?:java|vb)script\s*:"
    r"|\bos\s*\.\s*(?:system|popen|exec\w*|spawn\w*)\b|\bsubprocess\s*\."
)
_ALSO_CODE = (
    r"|\b(?:getattr|setattr|delattr|globals|locals|breakpoint)\s*\("
    r"|\bimport\s+(?:os|sys|subprocess|socket|shutil|ctypes|importlib|builtins|pickle|requests"
    r"|urllib)\b|\.\s*__\w+__|\bnew\s+Function\s*\(|\bon(?:error|load|click)\s*="
)
_CALLS = r"|\b(?:compile|vars|open|input)\s*\("
_CALLS_BESIDE_WORDS = r"|\b(?:compile|vars|open|input)(?:\(|\s+\(\s*[bfru]{0,2}['\"])"
"""In a script that may be spoken, doors open (slowly)."""
_SHELL = r"|[;&|`<>\n]|\$[({A-Za-z_]"

_PATTERNS = {
    Meaning.PLAIN: re.compile(_SURELY_CODE, re.IGNORECASE),
    Meaning.SCRIPT: re.compile(_SURELY_CODE + _ALSO_CODE + _CALLS_BESIDE_WORDS, re.IGNORECASE),
    Meaning.CODE: re.compile(_SURELY_CODE + _ALSO_CODE + _CALLS, re.IGNORECASE),
    Meaning.COMMAND: re.compile(_SURELY_CODE + _ALSO_CODE + _CALLS + _SHELL, re.IGNORECASE),
}


def find_code(text: str, meaning: Meaning) -> str | None:
    """What in a text would do more than its input is for; None where nothing would."""
    pattern = _PATTERNS.get(meaning)
    if pattern is None:
        return None
    found = pattern.search(text)
    if found is None and not text.isascii():
        # Python reads names so: wide letters are letters.
        found = pattern.search(unicodedata.normalize("NFKC", text))
    return found[0] if found else None


def find_escape(path: str, allowed_folders: Sequence[str] = ()) -> str | None:
    """Why a path may lead out of the folder that it belongs to; None where it does not.

    Slashes and backslashes are fine, and so is ComfyUI's ` [temp]` at the end. Every reading that
    some program might give a path is judged: percent signs undone, wide characters narrowed,
    backslashes as slashes.
    """
    if len(path) > LONGEST_PATH:
        return f"it is longer than {LONGEST_PATH} characters"
    for reading in _readings(_FOLDER_MARK.sub("", path)):
        for pattern, reason in _ESCAPES:
            if pattern.search(reading):
                return reason
        if _has_upward_name(reading):
            return "it goes up a folder with '..'"
        if reading.startswith("/") and not _is_within(reading, allowed_folders):
            return "it is absolute"
    return None


def find_escape_of_part(part: str, allowed_folders: Sequence[str], *, begins: bool) -> str | None:
    """Why a text may lead a path out of its folder that it becomes a part of, as far as it tells.

    `begins`: the path may begin with it.
    """
    if goes_up(part):
        return "it goes up a folder with '..'"
    for reading in _readings(part):
        if "/" in reading and any(name == "." for name in reading.split("/")):
            return "it has a name '.', which another part may make '..'"
        if begins and reading.startswith("/") and not _is_within(reading, allowed_folders):
            return "it is absolute"
        if begins and _ROOT.match(reading):
            return "it begins with '~' or a drive"
    return None


def goes_up(part: str) -> bool:
    """Whether a path, or a text that becomes part of one, goes up a folder."""
    return any(_has_upward_name(reading) for reading in _readings(part))


def _has_upward_name(path: str) -> bool:
    # Dots and spaces at the end of a name are dropped by some systems.
    return ".." in path and any(".." in name and not name.strip(" .") for name in path.split("/"))


def _readings(path: str) -> Iterator[str]:
    yield path.replace("\\", "/")
    if len(path) <= LONGEST_PATH and ("%" in path or not path.isascii()):
        reading = path
        for _ in range(_DECODINGS):
            reading = unicodedata.normalize("NFKC", unquote(reading, errors="replace"))
            yield reading.replace("\\", "/")


def _is_within(path: str, folders: Sequence[str]) -> bool:
    return any(
        path == folder.rstrip("/") or path.startswith(f"{folder.rstrip('/')}/")
        for folder in folders
    )
