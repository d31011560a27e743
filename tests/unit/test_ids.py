import time
import uuid

from comfyrail.ids import new_uuid


def test_ids_are_uuids_of_version_7_that_increase_and_carry_the_time() -> None:
    made = [new_uuid() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    last = uuid.UUID(made[-1])
    assert (last.version, last.variant) == (7, uuid.RFC_4122)
    assert abs((last.int >> 80) - time.time() * 1000) < 5000
