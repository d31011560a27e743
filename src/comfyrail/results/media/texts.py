"""Texts: how they begin and how long they are."""

import codecs

from comfyrail.results.media.findings import Findings, short

MOST_BYTES = 64 << 20
_PIECE = 1 << 16


def look_into(findings: Findings) -> None:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    characters, first = 0, ""
    with findings.path.open("rb") as file:
        while (piece := file.read(_PIECE)) and file.tell() <= MOST_BYTES:
            text = decoder.decode(piece)
            characters += len(text)
            first = first or text.lstrip()[:_PIECE]
        is_whole = not piece
    findings.note(
        format=findings.content_type.partition("/")[2],
        first_line=short(first.partition("\n")[0]),
        characters=characters if is_whole else None,
    )
