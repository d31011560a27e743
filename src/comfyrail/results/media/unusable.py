"""Why a file cannot be used, in words for people."""

import errno
from typing import TypeGuard

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


class Unusable(Exception):
    """A file with which nothing can be done; the message says why."""


def is_of_the_disk(error: BaseException) -> TypeGuard[OSError]:
    """Whether it says nothing of the file: another time it may work."""
    return type(error) is OSError and error.errno in _DISK_ERRORS


def reason_of(error: BaseException) -> str:
    if isinstance(error, Unusable):
        return str(error)
    if isinstance(error, MemoryError):
        return "It needs more memory than may be spent on it."
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return "What comes of it is too large."
    return "It is broken, or cannot be read here."
