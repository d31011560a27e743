"""Scenario files: what is refused, and how it is said."""

from pathlib import Path

import pytest

from comfyrail.errors import ConfigurationError
from comfyrail.scheduling.simulation.scenario import (
    LARGEST_FILE,
    known_scenarios,
    parse_scenario,
    read_scenario,
)

LEAST = "jobs: 10\nworkers: [{count: 2}]\n"


def test_those_of_the_package_are_all_valid() -> None:
    assert set(known_scenarios()) == {
        "bursts", "greedy-tenant", "huge", "mixed-vram", "one-model", "twenty-models",
    }  # fmt: skip
    for name in known_scenarios():
        assert read_scenario(name).about
    huge = read_scenario("huge")
    assert (huge.worker_count, huge.jobs) == (10_000, 1_000_000)


def test_file_of_ones_own_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(LEAST)
    assert read_scenario(str(file)).worker_count == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LEAST + "arivals: {}", "unknown key 'arivals'. Did you mean 'arrivals'?"),
        (LEAST + "arrivals: {lod: 2}", "unknown key 'lod' in arrivals. Did you mean 'load'?"),
        ("jobs: 1\nworkers: [{count: 1}, {cuont: 1}]", "'cuont' in workers, number 2"),
        (LEAST + "1: 2", "unknown key '1'"),
        ("workers: [{count: 1}]", "missing required field `jobs`"),
        ("jobs: 1\nworkers: []", "length >= 1"),
        ("jobs: -1\nworkers: [{count: 1}]", "$.jobs"),
        ("jobs: 9999999999\nworkers: [{count: 1}]", "$.jobs"),
        ("jobs: many\nworkers: [{count: 1}]", "$.jobs"),
        (LEAST + "arrivals: {load: .nan}", "$.arrivals.load"),
        (LEAST + "arrivals: {load: .inf}", "$.arrivals.load"),
        (LEAST + "arrivals: {pattern: never}", "$.arrivals.pattern"),
        (LEAST + "classes: {high: 0.5}", "do not add up to 1"),
        (LEAST + "classes: {urgent: 1}", "$.classes"),
        (LEAST + "models: {size_gb: [9, 6]}", "[smallest, largest]"),
        (LEAST + "models: {size_gb: [6, 60]}", "fits on no worker"),
        (LEAST + "tenants: [{name: a}, {name: a}]", "same name"),
        ("jobs: 1\nworkers: [{count: 15000}, {count: 15000}]", "more than 20,000 workers"),
        ("[1, 2]", "Expected `object`"),
        ("", "Expected `object`"),
        ("{", "cannot be read as YAML"),
        ("[" * 5000, "cannot be read as YAML"),
        ("!!python/object/apply:os.system [id]", "cannot be read as YAML"),
    ],
)
def test_mistake_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_scenario(text.encode(), "mine")
    assert said in refused.value.message
    assert refused.value.message.startswith("The scenario mine")


def test_bytes_that_are_no_text_and_files_that_are_too_large_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read as YAML"):
        parse_scenario(b"\xc3\x28", "mine")
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (LARGEST_FILE + 1))
    with pytest.raises(ConfigurationError, match="larger than 1 MiB"):
        read_scenario(str(large))


@pytest.mark.parametrize("name", ["twenty-model", "no/such/file.yaml", "", "\0"])
def test_unknown_name_says_which_there_are(name: str) -> None:
    with pytest.raises(ConfigurationError, match="twenty-models"):
        read_scenario(name)
