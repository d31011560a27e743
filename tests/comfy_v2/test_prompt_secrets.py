"""Keys that are given for one job are in memory, for as long as they can be of use."""

from comfyrail.clock import SystemClock
from comfyrail.fleet.prompt_secrets import SECONDS_KEPT, PromptSecrets
from comfyrail.ids import JobId


class LateClock(SystemClock):
    late = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.late


ONE, TWO, THREE = JobId("one"), JobId("two"), JobId("three")


def test_secrets_are_those_of_their_job_until_they_are_forgotten() -> None:
    secrets = PromptSecrets()
    secrets.put(ONE, {"key": "a"})
    assert secrets.of(ONE) == {"key": "a"}
    assert secrets.of(TWO) == {}
    secrets.forget(ONE)
    secrets.forget(TWO)
    assert secrets.of(ONE) == {}


def test_the_oldest_go_when_there_are_too_many() -> None:
    secrets = PromptSecrets(jobs_kept=2)
    for job_id in (ONE, TWO, THREE):
        secrets.put(job_id, {"key": job_id})
    assert [bool(secrets.of(each)) for each in (ONE, TWO, THREE)] == [False, True, True]


def test_what_is_old_goes() -> None:
    clock = LateClock()
    secrets = PromptSecrets(clock)
    secrets.put(ONE, {"key": "a"})
    clock.late = SECONDS_KEPT + 1
    secrets.put(TWO, {"key": "b"})
    assert [bool(secrets.of(each)) for each in (ONE, TWO)] == [False, True]


def test_secrets_are_not_in_what_is_printed_of_them() -> None:
    secrets = PromptSecrets()
    secrets.put(ONE, {"key": "very-secret"})
    assert "very-secret" not in repr(secrets)
