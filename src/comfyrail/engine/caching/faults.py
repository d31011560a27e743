"""Why a value cannot be stored, or a stored entry cannot be used. Both stay inside the cache."""


class NotStorable(Exception):
    """The value has no safe form outside this process: a model, a function, a generator …"""


class CorruptEntry(Exception):
    """The bytes are not an entry, or not the one that was asked for."""


class UnreadableHere(CorruptEntry):
    """The entry may be good, but this process has not what it takes to read it."""
