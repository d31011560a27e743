"""Finding a workflow in bytes of unknown kind: JSON, a text around it, a PNG, a WebP."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.editor.clipboard import find_json
from comfyrail.workflow.editor.png_text import SIGNATURE, png_texts
from comfyrail.workflow.editor.strict_json import read_json
from comfyrail.workflow.editor.webp_text import is_webp, webp_texts

API_KEY = "prompt"
EDITOR_KEY = "workflow"


def is_picture(content: bytes) -> bool:
    """Whether these are the first bytes of a picture that can hold a workflow."""
    return content.startswith(SIGNATURE) or is_webp(content)


def read_workflow_source(content: str | bytes) -> Any:
    """The parsed JSON of a workflow, in whichever format it is.

    A picture that holds both formats gives the API format: that is what was run, and it needs no
    conversion. It gives the editor's where the other cannot be read. Raises MalformedWorkflow.
    """
    if isinstance(content, bytes) and is_picture(content):
        return _from_texts(_texts_of_picture(content))
    return find_json(content if isinstance(content, str) else _text_of(content))


def read_all_sources(content: bytes) -> list[Any]:
    """The parsed JSON of every workflow in it: of a picture the editor's format first, which says
    where nodes stand. There is at least one. Raises MalformedWorkflow.
    """
    if not is_picture(content):
        return [read_workflow_source(content)]
    texts = _texts_of_picture(content)
    found: list[Any] = []
    for key in (EDITOR_KEY, API_KEY):
        with suppress(MalformedWorkflow):
            found += [read_json(texts[key], allow_nan=True)] if key in texts else []
    return found or [_from_texts(texts)]


def _texts_of_picture(content: bytes) -> Mapping[str, str]:
    names = (API_KEY, EDITOR_KEY)
    return webp_texts(content, names) if is_webp(content) else png_texts(content, names)


def _from_texts(texts: Mapping[str, str]) -> Any:
    fault: MalformedWorkflow | None = None
    for key in (API_KEY, EDITOR_KEY):
        if key in texts:
            try:
                return read_json(texts[key], allow_nan=True)
            except MalformedWorkflow as error:
                fault = fault or error
    raise fault or MalformedWorkflow(
        "The picture holds no workflow. It may have been saved again by a program that removes "
        "such data: take the file that ComfyUI wrote.",
        details={"path": ""},
    )


def _text_of(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedWorkflow(
            f"This is neither a PNG, a WebP nor text: byte {error.start} is no UTF-8.",
            details={"path": ""},
        ) from error
