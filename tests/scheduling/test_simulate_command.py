"""`comfyrail simulate`."""

from pathlib import Path

import msgspec
import pytest

from comfyrail.cli.simulate import parse_seeds, simulate
from comfyrail.errors import ConfigurationError

SMALL = """
about: a small one
jobs: 60
workers: [{count: 2}]
models: {count: 3}
tenants: [{name: one}, {name: two}]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return str(file)


def test_table_has_every_policy_class_and_tenant(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(scenario, "0-1", None, as_json=False)
    said = capsys.readouterr().out
    for word in (
        "small a small one", "mean over seeds 0, 1", "comfyrail", "fifo", "round-robin",
        "least-loaded", "swarmui", "bound", "medium (< 120 s)", "two", "Round mean",
    ):  # fmt: skip
        assert word in said


def test_json_has_the_means_and_every_run(
    scenario: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    simulate(scenario, "3,5", "fifo, comfyrail", as_json=True)
    report = msgspec.json.decode(capsysbinary.readouterr().out)
    assert [each["policy"] for each in report["mean"]] == ["fifo", "comfyrail"]
    assert [(each["policy"], each["seed"]) for each in report["runs"]] == [
        ("fifo", 3), ("fifo", 5), ("comfyrail", 3), ("comfyrail", 5),
    ]  # fmt: skip
    assert report["scenario"]["jobs"] == 60


@pytest.mark.parametrize(
    ("name", "seeds", "policies", "said"),
    [
        ("twenty", None, None, "no scenario 'twenty'"),
        (None, "x", None, "--seeds takes numbers"),
        (None, None, "fifa", "Did you mean 'fifo'?"),
    ],
)
def test_wrong_use_is_a_sentence_and_an_exit_code(
    scenario: str,
    name: str | None,
    seeds: str | None,
    policies: str | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        simulate(name or scenario, seeds, policies, as_json=False)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", [3]), ("0-4", [0, 1, 2, 3, 4]), ("7, 1-2,7", [7, 1, 2])]
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "-1", "1-", "4-0", "0-1000", "²", "99999999999", "1.5"])
def test_senseless_seeds_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_seeds(text)
