"""How many nodes a text has, without reading them."""

import msgspec

_NAME = b'"class_type"'
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def count_many_nodes(text: bytes, more_than: int) -> int | None:
    """The nodes of a workflow in ComfyUI's API format, bare or in an envelope `{"nodes": {...}}`.

    None where they are no more than that, and for what is no such text: whoever reads it says why.
    """
    if text.count(_NAME) <= more_than:
        return None
    try:
        members = _read_members(text)
        inner = bytes(members.get("nodes", b"")).lstrip()
        if inner.startswith(b"{"):
            nested = _read_members(inner)
            members = members if "class_type" in nested else nested
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return len(members) if len(members) > more_than else None
