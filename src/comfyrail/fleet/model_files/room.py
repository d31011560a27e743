"""Which files go when room is needed. Pure."""

from collections.abc import Collection, Mapping, Sequence

from comfyrail.fleet.model_files.index import KnownFile


def space_taken(known: Mapping[str, KnownFile]) -> int:
    """By files that were fetched here, those on their way included."""
    return sum(file.size for file in known.values() if file.fetched)


def leaving_order(known: Mapping[str, KnownFile], kept: Collection[str]) -> Sequence[str]:
    """What may go, the least recently used first; what is to be `kept` and what was not fetched
    here is not among it.
    """
    free = [path for path, file in known.items() if file.fetched and path not in kept]
    return sorted(free, key=lambda path: (known[path].used_at, path))
