"""The keys in Redis by which a coordinator and the workers know of each other."""

import re

_TOKEN = re.compile(r"[0-9a-f]{32}")

PREFIX = "comfyrail:nodes:"
REPLIES_EXPIRE_SECONDS = 3600
CANCELLED_EXPIRE_SECONDS = 24 * 3600
"""Longer than the broker may keep a message for another worker."""
COORDINATOR_EXPIRE_SECONDS = 60

RENEW = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('pexpire', KEYS[1], ARGV[2])"


def is_token(text: object) -> bool:
    """Nothing else becomes part of a key."""
    return isinstance(text, str) and _TOKEN.fullmatch(text) is not None


def replies_of(coordinator: str) -> str:
    """The list that replies go to."""
    return f"{PREFIX}replies:{coordinator}"


def coordinator_key(coordinator: str) -> str:
    """There while the coordinator waits for replies."""
    return f"{PREFIX}coordinator:{coordinator}"


def lease_of(task_id: str) -> str:
    """There while someone runs the task; its value says who."""
    return f"{PREFIX}running:{task_id}"


def cancelled_key(task_id: str) -> str:
    """There when nobody wants the task any more."""
    return f"{PREFIX}cancelled:{task_id}"
