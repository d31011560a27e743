"""What a reply says about its file: how it is called, and whether a browser may show it."""

from urllib.parse import quote

SHOWN_INLINE = ("image/", "video/", "audio/")
NEVER_INLINE = {"image/svg+xml"}
UNKNOWN_TYPE = "application/octet-stream"


def shows_inline(content_type: str) -> bool:
    """Whether a browser may show it itself: it runs nothing in it."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith(SHOWN_INLINE) and kind not in NEVER_INLINE


def told_type(content_type: str, *, is_inline: bool) -> str:
    """What a browser saves need not be known to it."""
    return content_type if is_inline else UNKNOWN_TYPE


def content_disposition(filename: str, *, is_inline: bool) -> str:
    """Whatever the name has in it, it stays one value of one header."""
    kind = "inline" if is_inline else "attachment"
    quoted = quote(filename)
    if quoted == filename:
        return f'{kind}; filename="{filename}"'
    return f"{kind}; filename*=utf-8''{quoted}"
