"""Files that the local user of a server names, and that are no assets: those of the input folder,
and those of workers, of which the server knows what they list.
"""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from comfyrail.usecases.asset_names import read_canonical
from comfyrail.validation.findings import Finding, Severity
from comfyrail.workflow.file_inputs import FileInput
from comfyrail.workflow.graph import Node
from comfyrail.workflow.nearest import Suggestions, did_you_mean, shown

_MARKED = re.compile(r"(.+?) ?\[(input|output|temp)\]")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def files_in(folder: Path, names: Sequence[str]) -> frozenset[str]:
    """Those of the names that are files of the folder. Asks the disk."""
    return frozenset(name for name in names if _is_file(folder, name))


def absent_file(
    file: FileInput, node: Node, present: frozenset[str], suggestions: Suggestions
) -> Finding | None:
    """What there is to say of a name that is no asset; `present`: names in the input folder.

    An error where nobody can have it, a warning where a worker may have it and does not tell. What
    is no plain name is left to the stages that look at paths.
    """
    value = file.value
    if file.port is None or file.is_folder or not isinstance(value, str) or not value:
        return None
    name, kind = _read(value)
    if value in present or name in present or not _is_plain(name):
        return None
    choices = file.port.choices or ()
    if value in choices or name in choices:
        return None
    if kind != "input":
        is_of_job = _ID.fullmatch(name.partition("/")[0]) is not None
        return _no_output(file, node) if is_of_job else _unlisted(file, node)
    is_ours = read_canonical(name) is not None or _ID.fullmatch(name) is not None
    if not is_ours and (file.port.choices is None or "/" in name):
        return _unlisted(file, node)
    near = suggestions.near(name, (each for each in choices if isinstance(each, str)))
    return _missing(file, node, near)


def _read(value: str) -> tuple[str, str]:
    marked = _MARKED.fullmatch(value)
    return (marked[1], marked[2]) if marked else (value, "input")


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def _is_file(folder: Path, name: str) -> bool:
    plain, kind = _read(name)
    try:
        return kind == "input" and _is_plain(plain) and (folder / plain).is_file()
    except (OSError, ValueError):
        return False


def _missing(file: FileInput, node: Node, near: list[str]) -> Finding:
    return _finding(
        "error",
        file,
        node,
        f"there is no file {shown(file.value)}: you have uploaded none of this name, and no worker "
        f"has one.{did_you_mean(near)} Give it with --set {node.id}.{file.input}=@FILE on the "
        "command line, upload it with POST /v1/uploads, or put it into the folder 'input' of the "
        "server's data folder.",
    )


def _no_output(file: FileInput, node: Node) -> Finding:
    return _finding(
        "error",
        file,
        node,
        f"there is no {shown(file.value)}. Name an output as '<execution_id>/<filename> [output]', "
        "with an id and a file name out of the outputs of your executions.",
    )


def _unlisted(file: FileInput, node: Node) -> Finding:
    return _finding(
        "warning",
        file,
        node,
        f"nobody knows of a file {shown(file.value)}. A worker may have it all the same: not all "
        "folders are listed. If it has not, the job will fail. To be sure, upload it with POST "
        "/v1/uploads.",
    )


def _finding(severity: Severity, file: FileInput, node: Node, text: str) -> Finding:
    return Finding(
        "semantic",
        severity,
        "MISSING_INPUT_FILE",
        f"Node '{node.id}' ({node.class_type}), input '{file.input}': {text}",
        node_id=node.id,
        path=f"{node.id}.inputs.{file.input}",
        details={
            "input": file.input,
            "value": shown(file.value),
            # With this a worker is asked again: it may have got the file meanwhile.
            **({"reason": "value_not_in_list"} if severity == "error" else {}),
        },
    )
