"""A batch that is refused: each fault is said once."""

from typing import Any

import pytest

from comfyrail.cli.batch_refusals import describe_refusal
from comfyrail.client import RequestFailed

NO_INPUT = "Node '2' has no input 'sede'."


def refused(*messages: str) -> RequestFailed:
    findings = [{"severity": "error", "message": message} for message in messages]
    findings.append({"severity": "warning", "message": "Item 0: slow."})
    return RequestFailed(422, {"message": "no", "details": {"findings": findings}})


def items(numbers: Any, message: str = NO_INPUT) -> list[str]:
    return [f"Item {number} (2.sede={number}): {message}" for number in numbers]


@pytest.mark.parametrize(
    ("messages", "body", "said"),
    [
        (items(range(6)), {"grid": {"a": [1, 2, 3], "b": [1, 2]}}, [f"{NO_INPUT} (in all 6 jobs)"]),
        (items([3, 0, 2]), {"items": [{}] * 6}, [f"{NO_INPUT} (in jobs 0, 2, 3)"]),
        (items([4]), {"items": [{}] * 6}, [f"{NO_INPUT} (in job 4, 2.sede=4)"]),
        (items([0, 1]), {"variants": {"x": {}}}, [f"{NO_INPUT} (in jobs 0, 1)"]),
        (
            items(range(12)) + items([1], "Other."),
            {"items": [{}] * 13},
            [
                f"{NO_INPUT} (in jobs 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more)",
                "Other. (in job 1, 2.sede=1)",
            ],
        ),
        (
            items(range(20)),
            {"grid": {"2.sede": [*range(100)]}},
            [
                f"{NO_INPUT} (in jobs 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more)",
                "After 20 jobs with faults the others were not checked.",
            ],
        ),
        (
            [f"With 2.sede={value}: {NO_INPUT}" for value in (0, 9)],
            {"search": {}},
            [f"{NO_INPUT} (with 2.sede=0, 2.sede=9)"],
        ),
        (["The name is too long."] * 2, {"items": 3}, ["The name is too long."]),
        ([], {}, ["no"]),
    ],
)
def test_fault_is_said_once_with_the_jobs_that_have_it(
    messages: list[str], body: dict[str, Any], said: list[str]
) -> None:
    lines = describe_refusal(refused(*messages), body).splitlines()
    assert [line.strip() for line in lines] == said
