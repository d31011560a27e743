"""Small pictures that differ."""

import io

from PIL import Image


def png(number: int, size: int = 24) -> bytes:
    """Another one for each number."""
    picture = Image.new("RGB", (size, size), (number % 256, number * 7 % 256, 99))
    content = io.BytesIO()
    picture.save(content, "PNG")
    return content.getvalue()
