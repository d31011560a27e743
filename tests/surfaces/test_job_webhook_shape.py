"""What a submission may say of its webhook."""

import msgspec
import pytest

from comfyrail.jobs.webhooks import JobWebhook


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"events": ["execution.completed"] * 2}, "events names each event once"),
        ({"events": []}, "length >= 1"),
        ({"timeout": 0.5}, ">= 1"),
    ],
    ids=["twice", "none", "no-time"],
)
def test_webhook_that_makes_no_sense_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert({"url": "https://example.com/hook", **given}, JobWebhook)
