"""What a reply says about the name of its file."""

from urllib.parse import quote


def content_disposition(filename: str, *, is_inline: bool) -> str:
    """Whatever the name has in it, it stays one value of one header."""
    kind = "inline" if is_inline else "attachment"
    quoted = quote(filename)
    if quoted == filename:
        return f'{kind}; filename="{filename}"'
    return f"{kind}; filename*=utf-8''{quoted}"
