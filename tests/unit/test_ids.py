import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from comfyrail.ids import new_request_id, new_uuid


def test_ids_are_uuids_of_version_7_that_increase_and_carry_the_time() -> None:
    made = [new_uuid() for _ in range(20_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    last = uuid.UUID(made[-1])
    assert (last.version, last.variant) == (7, uuid.RFC_4122)
    assert abs((last.int >> 80) - time.time() * 1000) < 5000


def test_forked_process_makes_other_ids() -> None:
    new_request_id()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, new_request_id().encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        theirs = stream.read()
    os.waitpid(child, 0)
    assert len(theirs) == 32
    assert theirs != new_request_id()


def test_ids_of_many_threads_are_all_different() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_request_id(), range(5000)))
    assert len(set(made)) == 5000
