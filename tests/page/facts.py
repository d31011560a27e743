"""What the server has written into its page."""

import json
import re
from html import unescape
from typing import Any


def facts_in(page: str) -> dict[str, Any]:
    match = re.search(r'<meta name="comfyrail" content="([^"]*)"', page)
    assert match is not None
    found: dict[str, Any] = json.loads(unescape(match[1]))
    return found
