"""What is remembered of an execution."""

import json
import math

import msgspec
import pytest

from comfyrail.clock import Instant
from comfyrail.planning.analysis import analyse
from comfyrail.planning.records import ExecutionRecord, record_of
from comfyrail.workflow.graph import parse_workflow
from tests.planning.simulated_history import CATALOG, text_to_image

ANALYSIS = analyse(parse_workflow(text_to_image()), CATALOG)


def record(cached: tuple[str, ...] = (), **seconds: float | None) -> ExecutionRecord:
    return record_of(
        ANALYSIS,
        job_id="j",
        device="cpu",
        seconds=sum(each or 0 for each in seconds.values()),
        finished_at=Instant(5),
        node_seconds={name.removeprefix("n"): each for name, each in seconds.items()},
        cached=cached,
    )


def test_record_comes_back_as_it_was() -> None:
    made = record(("1",), n5=1.5, n6=0.25)
    assert ExecutionRecord.decode(made.encode()) == made
    assert made.signature == ANALYSIS.signature
    assert made.node_types == ANALYSIS.node_types
    by_type = {node.class_type: node for node in made.nodes}
    assert by_type["KSampler"].seconds == 1.5
    assert by_type["CheckpointLoaderSimple"].is_cached
    assert by_type["SaveImage"].seconds is None


def test_execution_is_cold_when_a_loader_ran() -> None:
    assert record(n1=2.0, n5=1.0).is_cold
    assert not record(("1",), n5=1.0).is_cold


def test_texts_and_file_names_of_users_are_not_remembered() -> None:
    encoded = record(n5=1.0).encode()
    assert b"boat" not in encoded
    assert b"blurry" not in encoded


def test_senseless_times_are_left_out() -> None:
    made = record(n5=math.nan, n6=math.inf, n7=-3.0)
    times = {node.class_type: node.seconds for node in made.nodes}
    assert (times["KSampler"], times["VAEDecode"], times["SaveImage"]) == (None, None, 0.0)
    assert ExecutionRecord.decode(made.encode()) == made


def replaced(complexity: float = 1.0, units: float = 1.0, steps: float = 1.0) -> bytes:
    """A record with other numbers."""
    made = record(n5=1.0)
    sampler = msgspec.structs.replace(made.nodes[0], units=units, steps=steps)
    return msgspec.structs.replace(made, complexity=complexity, nodes=(sampler,)).encode()


def test_largest_work_that_an_analysis_finds_is_a_record() -> None:
    sides = {"width": 1e9, "height": 1e9, "batch_size": 1e9}
    graph = text_to_image(steps=10**6, sampler_name="seeds_3")
    graph["4"]["inputs"].update(sides)
    made = record_of(
        analyse(parse_workflow(graph), CATALOG),
        job_id="j",
        device=None,
        seconds=1e300,
        finished_at=Instant(5),
        node_seconds={"5": 1e300},
    )
    assert ExecutionRecord.decode(made.encode()) == made


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        record(n5=1.0).encode()[:-10],
        record(n5=1.0).encode().replace(b'"seconds":1.0', b'"seconds":-1.0'),
        record(n5=1.0).encode().replace(b'"seconds":1.0', b'"seconds":1e999'),
        record(n5=1.0).encode().replace(b'"sampler"', b'"of a later version"'),
        record(n5=1.0).encode().replace(b'"seconds":1.0', b'"seconds":1e308'),
        record(n5=1.25).encode().replace(b",1.25,", b",1e308,"),
        replaced(complexity=1e308),
        replaced(units=1e300),
        replaced(steps=1e160),
    ],
    ids=range(14),
)
def test_what_is_no_record_is_none(data: bytes) -> None:
    assert ExecutionRecord.decode(data) is None


def test_fields_of_a_later_version_are_passed_over() -> None:
    made = record(n5=1.0)
    later = json.loads(made.encode()) | {"of_a_later_version": 1}
    assert ExecutionRecord.decode(json.dumps(later).encode()) == made
