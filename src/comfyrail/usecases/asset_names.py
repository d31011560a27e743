"""Names of uploaded files: what a name may be, and what a job's graph calls a file."""

import re
import unicodedata
from pathlib import PurePosixPath

from comfyrail.errors import MalformedRequest
from comfyrail.validation.dangerous_texts import find_code, find_escape
from comfyrail.validation.meanings import Meaning
from comfyrail.validation.urls import is_url

FOLDER = "uploads"
"""Of the input folder: where the files of jobs lie, by their content."""
INPUT = "input"
"""ComfyUI's folder of files that nodes load; its others are `output` and `temp`."""
HASH_LETTERS = 32
LONGEST_PART = 255
MOST_PARTS = 4
NO_NAME = "file"

_CANONICAL = re.compile(rf"{FOLDER}/([0-9a-f]{{{HASH_LETTERS}}})/([^/]+)")
_OTHER_FOLDER = re.compile(r"\[(?:input|output|temp)\]/")
_FOLDER_MARK = re.compile(r"\[(?:input|output|temp)\]$")
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_REVERSING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def folder_of(kind: str) -> str:
    """Where a file of one of ComfyUI's folders is kept: those of `input` have plain names."""
    return "" if kind == INPUT else f"[{kind}]/"


def plain_name(name: str) -> str:
    """The name within its folder."""
    found = _OTHER_FOLDER.match(name)
    return name[found.end() :] if found else name


def is_input_name(name: str) -> bool:
    return _OTHER_FOLDER.match(name) is None


def check_name(name: str) -> str:
    """The name, as it is kept. Raises MalformedRequest for one that is no plain relative path."""
    why = _fault(name)
    if why is not None:
        raise MalformedRequest(
            f"{name[:80]!r} cannot be the name of a file: {why}. Use one like 'photo.png' or "
            "'faces/photo.png'.",
            code="INVALID_FILE_NAME",
        )
    return name


def canonical_name(sha256: str, name: str) -> str:
    """What a file is called in a job's graph, and in the input folder."""
    return f"{FOLDER}/{sha256[:HASH_LETTERS]}/{PurePosixPath(name).name}"


def read_canonical(name: str) -> tuple[str, str] | None:
    """The beginning of the SHA-256 and the name in the folder, of a canonical name."""
    found = _CANONICAL.fullmatch(name)
    return (found[1], found[2]) if found else None


def _fault(name: str) -> str | None:
    """Why it is none; the first reason that holds."""
    if not name:
        return "it is empty"
    parts = name.split("/")
    reasons = {
        "it is too long": len(name) > MOST_PARTS * (LONGEST_PART + 1),
        "it has control characters": any(map(_is_refused, name)),
        "it has a backslash": "\\" in name,
        f"it has more than {MOST_PARTS} parts": len(parts) > MOST_PARTS,
        "a part of it is empty, or only dots": not all(part.strip(" .") for part in parts),
        f"the server uses names in '{FOLDER}/' itself": _CANONICAL.fullmatch(name) is not None,
        "it ends with the name of a folder in brackets": _FOLDER_MARK.search(name) is not None,
        "it begins with the name of a folder in brackets": not is_input_name(name),
        "it is a URL": is_url(name),
    }
    found = next((reason for reason, holds in reasons.items() if holds), None)
    if found is not None:
        return found
    if any(len(part.encode()) > LONGEST_PART for part in parts):
        return f"a part of it has more than {LONGEST_PART} bytes"
    code = find_code(name, Meaning.PLAIN)
    return find_escape(name, ()) if code is None else f"it has {code!r} in it, which may be code"


def _is_refused(letter: str) -> bool:
    return unicodedata.category(letter) in _REFUSED_CATEGORIES or letter in _REVERSING
