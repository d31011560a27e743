"""The behaviour that every driver has [5.2]. One that takes part is a `<name>_setting.py` here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from comfyrail.errors import WorkerError, WorkerRefused
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.drivers.readiness import answers_like_comfyui
from comfyrail.fleet.drivers.registry import DRIVER_NAMES, driver_named
from comfyrail.ids import WorkerId
from tests.fleet.drivers.setting import Setting, open_setting, setting_names, why_skipped

LIMIT_SECONDS = 30


@dataclass(frozen=True)
class Trial:
    """Makes hosts of one driver as the server does, and ends what the test leaves."""

    name: str
    setting: Setting
    hosts: list[WorkerHost]

    def host(self, worker_id: str = "first", *, other: bool = False) -> WorkerHost:
        driver = driver_named(self.name)
        config = self.setting.other_config if other else self.setting.config
        host = driver.host(WorkerId(worker_id), driver.check(config), self.setting.context)
        self.hosts.append(host)
        return host

    async def answers(self, url: str) -> bool:
        return await answers_like_comfyui(self.setting.context.http, url)

    async def until_silent(self, url: str) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while await self.answers(url):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)


@asynccontextmanager
async def trial_of(name: str, folder: Path) -> AsyncIterator[Trial]:
    reason = why_skipped(name)
    if reason is not None:
        pytest.skip(reason)
    async with open_setting(name, folder) as setting:
        trial = Trial(name, setting, [])
        try:
            yield trial
        finally:
            for host in trial.hosts:
                await host.stop()
                await host.release()


@pytest.fixture(params=setting_names())
async def trial(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Trial]:
    async with trial_of(request.param, tmp_path) as opened:
        yield opened


def test_every_driver_that_can_be_named_takes_part_in_this_suite() -> None:
    assert setting_names() == sorted(DRIVER_NAMES)


async def test_a_started_worker_answers_has_a_log_and_may_be_started_again(trial: Trial) -> None:
    host = trial.host()
    assert host.driver == trial.name
    url = await host.start()
    stats = await ComfyClient(url, trial.setting.context.http).system_stats()
    assert "system" in stats
    if trial.setting.has_logs:
        assert len((await host.logs(5)).splitlines()) <= 5
    else:
        with pytest.raises(WorkerError) as caught:
            await host.logs(5)
        assert len(caught.value.message) > 20
    assert await trial.answers(await host.start())


async def test_the_end_of_a_killed_worker_is_noticed_and_it_can_be_started_again(
    trial: Trial,
) -> None:
    host = trial.host()
    url = await host.start()
    ended = asyncio.create_task(host.wait_ended())
    try:
        if trial.setting.kill is None:
            assert not (await asyncio.wait({ended}, timeout=0.05))[0]
            return
        await trial.setting.kill(host, url)
        async with asyncio.timeout(LIMIT_SECONDS):
            cause = await ended
        assert cause
        assert await trial.answers(await host.start())
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


async def test_stop_ends_what_is_ours_and_only_that_and_may_be_called_again(trial: Trial) -> None:
    host, other = trial.host(), trial.host("second", other=True)
    url, other_url = await asyncio.gather(host.start(), other.start())
    assert url != other_url
    await host.stop()
    if trial.setting.stop_ends_it:
        await trial.until_silent(url)
    else:
        assert await trial.answers(await trial.host("third").start())
    await host.stop()
    assert await trial.answers(other_url)


async def test_stop_of_a_worker_that_was_never_started_does_nothing(trial: Trial) -> None:
    await trial.host().stop()
    await trial.host().release()


async def test_a_released_worker_is_found_or_made_again_and_ended_by_later_servers(
    trial: Trial,
) -> None:
    first = trial.host()
    url = await first.start()
    await first.release()
    await first.release()
    if not trial.setting.released_lives_on:
        await trial.until_silent(url)
    second = trial.host()
    url = await second.start()
    assert await trial.answers(url)
    await second.release()
    await trial.host().stop()
    if trial.setting.stop_ends_it:
        await trial.until_silent(url)


async def test_bad_settings_are_refused_by_the_name_of_the_field(trial: Trial) -> None:
    driver = driver_named(trial.name)
    assert trial.setting.bad_configs
    for field, config in trial.setting.bad_configs:
        with pytest.raises(WorkerRefused) as caught:
            driver.check(config)
        assert field in caught.value.message
        assert str(caught.value.details["field"]).startswith(field)


async def test_unknown_settings_are_refused_by_name(trial: Trial) -> None:
    driver = driver_named(trial.name)
    with pytest.raises(WorkerRefused) as caught:
        driver.check({**trial.setting.config, "colour": "red"})
    assert "'colour'" in caught.value.message


async def test_checked_settings_are_in_one_spelling_and_pass_again(trial: Trial) -> None:
    driver = driver_named(trial.name)
    once = driver.check(trial.setting.config)
    assert driver.check(once) == once
