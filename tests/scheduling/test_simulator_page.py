"""The page on the simulator is true to what there is."""

import re
from pathlib import Path

from comfyrail.scheduling.simulation.policies import POLICIES
from comfyrail.scheduling.simulation.scenario import Scenario, known_scenarios, parse_scenario

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "simulator.md").read_text("utf-8")


def first_cells(section: str) -> set[str]:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


def test_all_policies_scenarios_and_keys_are_described() -> None:
    assert first_cells("Policies") == set(POLICIES)
    assert first_cells("Scenarios") == set(known_scenarios())
    assert first_cells("Scenario files") == set(Scenario.__struct_fields__)


def test_example_is_a_valid_scenario() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert parse_scenario(example.encode(), "example").worker_count == 6
