"""The `metadata` of a job: a few texts by name that its submitter finds it by.

They are in the job's origin, so that a list has them without another look.
"""

from collections.abc import Iterable, Mapping

import msgspec

from comfyrail.api.comfy_v2.words import SURFACE
from comfyrail.errors import MalformedRequest, RequestError
from comfyrail.jobs.job import Job, Origin

MOST_LABELS = 16
LONGEST_NAME = 64
LONGEST_VALUE = 256

_read = msgspec.json.Decoder(dict[str, str]).decode


def origin_with(metadata: Mapping[str, str]) -> Origin:
    """Raises RequestError for too many labels, or such that are too long."""
    if len(metadata) > MOST_LABELS:
        raise _invalid(f"metadata has {len(metadata)} entries; {MOST_LABELS} at most.")
    for name, value in metadata.items():
        if not 0 < len(name) <= LONGEST_NAME or len(value) > LONGEST_VALUE:
            raise _invalid(
                f"metadata: {name[:LONGEST_NAME]!r} is too long, or empty. A name has 1 to "
                f"{LONGEST_NAME} characters, a value {LONGEST_VALUE} at most."
            )
    return Origin(SURFACE, msgspec.json.encode(metadata).decode() if metadata else None)


def labels_of(job: Job) -> dict[str, str]:
    """Of a job that came through another door: none."""
    return _read(job.origin_key) if job.surface == SURFACE and job.origin_key else {}


def read_filter(query: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What a list asks for as `metadata[name]=value`."""
    wanted = {
        name[len("metadata[") : -1]: value
        for name, value in query
        if name.startswith("metadata[") and name.endswith("]")
    }
    if len(wanted) > MOST_LABELS or "" in wanted:
        raise MalformedRequest(
            f"A filter is written metadata[name]=value; {MOST_LABELS} at most.",
            code="INVALID_METADATA_FILTER",
        )
    return wanted


def has_labels(job: Job, wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= labels_of(job).items()


def _invalid(message: str) -> RequestError:
    return RequestError(message, code="INVALID_METADATA")
