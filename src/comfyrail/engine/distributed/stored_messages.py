"""Tasks and replies that go through the shared cache, where there is no other way for them."""

import hashlib

from comfyrail.engine.caching.result import CachedResult


def reply_key(task_id: str) -> str:
    """Where the reply to a task is left."""
    return _key("reply", task_id)


def task_key(task_id: str) -> str:
    """Where a task is left that is too large to be handed over."""
    return _key("task", task_id)


def message_of_text(text: str) -> CachedResult:
    return CachedResult(((text,),))


def text_of_message(result: CachedResult | None) -> str | None:
    """None for what is no message."""
    if result is None or len(result.slots) != 1 or len(result.slots[0]) != 1:
        return None
    text = result.slots[0][0]
    return text if isinstance(text, str) else None


def _key(kind: str, task_id: str) -> str:
    return hashlib.sha256(f"comfyrail {kind}/{task_id}".encode()).hexdigest()
