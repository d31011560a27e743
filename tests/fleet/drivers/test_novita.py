"""Rented GPUs as workers: what is asked for, what may go wrong, and that nothing leaks [5.2]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from comfyrail.clock import SystemClock
from comfyrail.errors import DriverRefused, WorkerUnreachable
from comfyrail.fleet.drivers.interface import HostContext, WorkerHost
from comfyrail.fleet.drivers.novita import DRIVER
from comfyrail.fleet.drivers.novita_instances import (
    checked_url,
    instance_name,
    read_instance,
    worker_url,
    write_instance,
)
from comfyrail.fleet.drivers.novita_settings import NetworkStorage, NovitaSettings
from comfyrail.ids import WorkerId
from tests.fleet.drivers.agent_parts import until
from tests.fleet.drivers.novita_setting import instance_config
from tests.services.novita_api import NovitaCloud, refusal, serving_novita, trouble


@dataclass
class There:
    cloud: NovitaCloud
    config: dict[str, Any]
    context: HostContext

    def host(self, worker_id: str = "w1", **more: Any) -> WorkerHost:
        config = DRIVER.check({**self.config, **more})
        return DRIVER.host(WorkerId(worker_id), config, self.context)


@asynccontextmanager
async def cloud_at(folder: Path, key: str = "sk_test", **fields: Any) -> AsyncIterator[There]:
    cloud = NovitaCloud(**fields)
    async with serving_novita(cloud) as url, aiohttp.ClientSession() as http:
        secrets = {"novita_api_key": key, "novita_image_auth": "me:secret"}
        context = HostContext(data=folder, http=http, clock=SystemClock(), secrets=secrets)
        yield There(cloud, instance_config(url), context)


@pytest.fixture(autouse=True)
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("comfyrail.fleet.drivers.novita.FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr("comfyrail.fleet.drivers.novita.LOG_SILENCE_SECONDS", 0.2)
    monkeypatch.setattr("comfyrail.fleet.drivers.novita_client.FIRST_PAUSE_SECONDS", 0.01)


def running(cloud: NovitaCloud) -> list[str]:
    return [key for key, process in cloud.processes.items() if process.returncode is None]


async def test_one_instance_is_rented_and_the_next_server_returns_to_it(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        url = await there.host().start()
        assert await there.host().start() == url
        (body,) = there.cloud.created
        assert body["name"] == "comfyrail-w1"
        assert body["ports"] == "8188/http"
        assert body["billingMode"] == "onDemand"
        assert {"key": "COMFYRAIL_WORKER_ID", "value": "w1"} in body["envs"]


async def test_all_settings_are_in_the_request(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        storage = {"id": "vol-1", "path": "/models"}
        await there.host(
            gpus=2,
            disk_gb=100,
            environment={"HF_HOME": "/models"},
            billing="spot",
            cluster_id="us-ca-1",
            network_storages=[storage],
            image_auth_secret="novita_image_auth",
            min_cuda_version="12.4",
            port=9000,
        ).start()
        (body,) = there.cloud.created
        assert body["gpuNum"] == 2
        assert body["rootfsSize"] == 100
        assert body["billingMode"] == "spot"
        assert body["networkStorages"] == [{"Id": "vol-1", "mountPoint": "/models"}]
        assert body["imageAuth"] == "me:secret"
        assert body["minCudaVersion"] == "12.4"
        assert body["ports"] == "9000/http"


async def test_the_logs_are_those_of_the_instance(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        host = there.host()
        await host.start()
        assert await host.logs(2) == "line 18\nline 19"


@pytest.mark.parametrize("first_page", [0, 1])
async def test_an_instance_is_found_among_many(tmp_path: Path, first_page: int) -> None:
    async with cloud_at(tmp_path, first_page=first_page) as there:
        for number in range(250):
            there.cloud.add(f"other-{number}", {"name": f"comfyrail-w1-{number}"})
        await there.host().start()
        await there.host().start()
        assert len(there.cloud.created) == 1


async def test_an_instance_of_the_same_name_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        foreign = there.cloud.add("theirs", {"name": "comfyrail-w1"})
        foreign["status"] = "running"
        host = there.host()
        await host.start()
        assert len(there.cloud.created) == 1
        await host.stop()
        assert list(there.cloud.instances) == ["theirs"]
        assert "theirs" not in there.cloud.deletes


async def test_other_settings_are_another_instance_and_the_old_one_goes(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        await there.host().start()
        await there.host(gpus=2).start()
        assert len(there.cloud.created) == 2
        assert len(there.cloud.instances) == len(running(there.cloud)) == 1


# What must not cost money twice


async def test_an_instance_whose_answer_was_lost_is_found_and_not_made_again(
    tmp_path: Path,
) -> None:
    async with cloud_at(tmp_path, lost_answers=1) as there:
        await there.host().start()
        assert len(there.cloud.created) == 1


async def test_an_instance_that_was_made_twice_goes_once(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        await there.host().start()
        (first,) = there.cloud.instances.values()
        double = there.cloud.add("double", {**first, "envs": first["envs"]})
        double["status"] = "pulling"
        await there.host().start()
        assert there.cloud.deletes == ["double"]
        assert list(there.cloud.instances) == [first["id"]]


async def test_a_delete_that_is_forgotten_is_asked_for_again(tmp_path: Path) -> None:
    async with cloud_at(tmp_path, lazy_deletes=3) as there:
        host = there.host()
        await host.start()
        there.cloud.troubles = [trouble(500, 2, "/delete"), trouble(429, 1, "/gpu/instance")]
        await host.stop()
        assert not there.cloud.instances
        assert not running(there.cloud)


async def test_an_instance_that_cannot_be_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.fleet.drivers.novita.STOP_LIMIT_SECONDS", 0.3)
    async with cloud_at(tmp_path, lazy_deletes=10_000) as there:
        await there.host().start()
        (instance_id,) = there.cloud.instances
        with pytest.raises(WorkerUnreachable, match=f"remain and cost money: {instance_id}") as got:
            await there.host().stop()
        assert got.value.code == "INSTANCE_REMAINS"
        assert got.value.details["instances"] == [instance_id]


async def test_an_instance_that_never_answers_is_given_back(tmp_path: Path) -> None:
    for fate in ("silent", "stuck"):
        async with cloud_at(tmp_path, fate=fate) as there:
            with pytest.raises(WorkerUnreachable, match="started and deleted again"):
                await there.host(start_limit=0.4).start()
            assert not there.cloud.instances


async def test_an_instance_that_dies_while_it_starts_is_given_back(tmp_path: Path) -> None:
    async with cloud_at(tmp_path, fate="exit") as there:
        with pytest.raises(
            WorkerUnreachable, match="ended while it started: Error: spot reclaimed"
        ):
            await there.host().start()
        assert not there.cloud.instances


async def test_an_image_that_cannot_be_pulled_needs_a_person_and_is_given_back(
    tmp_path: Path,
) -> None:
    async with cloud_at(tmp_path, fate="image") as there:
        with pytest.raises(DriverRefused, match="manifest unknown"):
            await there.host().start()
        assert not there.cloud.instances


async def test_an_instance_that_somebody_deletes_while_it_starts_may_pass(tmp_path: Path) -> None:
    async with cloud_at(tmp_path, fate="stuck") as there:
        starting = asyncio.create_task(there.host().start())
        await until(lambda: there.cloud.instances)
        there.cloud.instances.clear()
        with pytest.raises(WorkerUnreachable, match="deleted while it started"):
            await asyncio.wait_for(starting, 10)


# The end


async def test_the_end_of_an_instance_is_noticed(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        host = there.host()
        await host.start()
        (process,) = there.cloud.processes.values()
        process.kill()
        assert "(exited)" in await asyncio.wait_for(host.wait_ended(), 10)
        await host.start()
        assert len(there.cloud.instances) == 1


async def test_an_instance_that_is_gone_has_ended(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        host = there.host()
        await host.start()
        there.cloud.instances.clear()
        assert "is gone" in await asyncio.wait_for(host.wait_ended(), 10)


async def test_a_slip_of_the_api_is_not_the_end_of_an_instance(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        host = there.host()
        await host.start()
        there.cloud.troubles = [
            trouble(400, 3, "/gpu/instance", "RESOURCE_NOT_FOUND"),
            trouble(500, 6, "/gpu/instance"),
            trouble(401, 1, "/gpu/instance"),
            trouble(429, 2, "/gpu/instance", Retry_After="0.05"),
        ]
        asked = len(there.cloud.asked)
        ended = asyncio.create_task(host.wait_ended())
        await until(lambda: len(there.cloud.asked) > asked + 16, 20)
        assert not ended.done()
        ended.cancel()


async def test_busy_answers_are_obeyed_while_an_instance_starts(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        there.cloud.troubles = [
            trouble(429, 3, "/gpu/instance", Retry_After="0.05"),
            trouble(503, 6, "/gpu/instance"),
        ]
        await there.host().start()
        assert len(there.cloud.created) == 1


# Refusals


async def test_a_wrong_key_needs_a_person(tmp_path: Path) -> None:
    async with cloud_at(tmp_path, key="sk_wrong") as there:
        for work in (there.host().start(), there.host().stop(), there.host().logs(1)):
            with pytest.raises(DriverRefused, match="COMFYRAIL_SECRET_NOVITA_API_KEY"):
                await work


async def test_no_key_needs_a_person(tmp_path: Path) -> None:
    async with cloud_at(tmp_path, key="") as there:
        with pytest.raises(DriverRefused, match="set COMFYRAIL_SECRET_NOVITA_API_KEY"):
            await there.host().start()
        assert not there.cloud.asked


async def test_a_missing_secret_for_the_image_needs_a_person(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        with pytest.raises(DriverRefused, match="no secret nothing"):
            await there.host(image_auth_secret="nothing").start()


async def test_the_key_is_in_no_error(tmp_path: Path) -> None:
    async with cloud_at(tmp_path, key="sk_very_secret") as there:
        with pytest.raises(DriverRefused) as caught:
            await there.host().start()
        assert "sk_very_secret" not in repr((caught.value.message, caught.value.details))


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("RESOURCE_INSUFFICIENT", "not enough"),
        ("BAD_REQUEST", "The product is out of stock"),
        ("BAD_REQUEST", "insufficient gpu in this cluster"),
    ],
)
async def test_a_gpu_that_is_sold_out_may_come_back(
    tmp_path: Path, reason: str, message: str
) -> None:
    async with cloud_at(tmp_path) as there:

        async def sold_out(request: web.Request) -> web.StreamResponse | None:
            is_create = request.path.endswith("/create")
            return refusal(400, reason, message) if is_create else None

        there.cloud.troubles = [sold_out]
        with pytest.raises(WorkerUnreachable) as caught:
            await there.host().start()
        assert caught.value.code == "NOVITA_OUT_OF_STOCK"
        assert caught.value.retry_after == 60


async def test_an_empty_account_needs_a_person(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        there.cloud.troubles = [trouble(400, 1, "/create", "BILLING_BALANCE_NOT_ENOUGH")]
        with pytest.raises(DriverRefused, match="Top it up"):
            await there.host().start()


async def test_an_unknown_product_needs_a_person(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        with pytest.raises(DriverRefused, match="productId is invalid"):
            await there.host(product_id="abacus").start()


async def test_a_create_that_fails_is_not_repeated_blindly(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        there.cloud.troubles = [trouble(500, 1, "/create", Retry_After="9")]
        with pytest.raises(WorkerUnreachable) as caught:
            await there.host().start()
        assert caught.value.retry_after == 9
        assert there.cloud.asked.count("/gpu/instance/create") == 1
        there.cloud.troubles = [trouble(429, 1, "/create", Retry_After="7")]
        with pytest.raises(WorkerUnreachable) as caught:
            await there.host().start()
        assert caught.value.retry_after == 7


async def test_a_long_wait_that_is_asked_for_is_passed_on(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        there.cloud.troubles = [trouble(429, 9, Retry_After="120")]
        with pytest.raises(WorkerUnreachable) as caught:
            await there.host().start()
        assert caught.value.retry_after == 120
        assert len(there.cloud.asked) == 1


@pytest.mark.parametrize(
    "body", ["", "<html>", "[]", '{"instances": 5}', '{"instances": {}}', "[" * 9000]
)
async def test_nonsense_from_the_api_may_pass(tmp_path: Path, body: str) -> None:
    async with cloud_at(tmp_path) as there:

        async def garbage(request: web.Request) -> web.StreamResponse | None:
            is_list = request.path.endswith("/instances")
            return web.Response(text=body) if is_list else None

        there.cloud.troubles = [garbage]
        with pytest.raises(WorkerUnreachable):
            await there.host().start()
        assert not there.cloud.created


async def test_a_slow_api_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("comfyrail.fleet.drivers.novita_client.ANSWER_SECONDS", 0.05)

    async def slow(_: web.Request) -> web.StreamResponse | None:
        await asyncio.sleep(1)
        return None

    async with cloud_at(tmp_path) as there:
        there.cloud.troubles = [slow]
        with pytest.raises(WorkerUnreachable, match="took too long"):
            await there.host().start()


async def test_an_api_that_is_away_may_pass(tmp_path: Path) -> None:
    async with cloud_at(tmp_path) as there:
        with pytest.raises(WorkerUnreachable, match="cannot be reached"):
            await there.host(base_url="http://127.0.0.1:9").start()


# What is read


def instance_at(endpoint: str, kind: str = "http") -> Any:
    mapping = {"port": 8188, "endpoint": endpoint, "type": kind}
    found = read_instance({"id": "i", "status": "running", "portMappings": [mapping]})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("endpoint", "kind", "url"),
    [
        ("https://i-8188.us-ca-1.novita.ai/", "http", "https://i-8188.us-ca-1.novita.ai"),
        ("i-8188.us-ca-1.novita.ai", "http", "https://i-8188.us-ca-1.novita.ai"),
        ("proxy.novita.ai:31234", "tcp", "http://proxy.novita.ai:31234"),
        ("http://127.0.0.1:8188", "http", None),
        ("http://169.254.169.254/latest", "http", None),
        ("http://localhost:6379", "http", None),
        ("http://[::1]:80", "http", None),
        ("http://user:pass@novita.ai", "http", None),
        ("ftp://novita.ai", "http", None),
        ("javascript:alert(1)", "http", None),
        ("https://2130706433/", "http", None),
        ("http://novita.ai:99999", "http", None),
    ],
)
def test_only_addresses_on_the_internet_are_taken_from_the_cloud(
    endpoint: str, kind: str, url: str | None
) -> None:
    assert worker_url(instance_at(endpoint, kind), 8188, may_be_private=False) == url


def test_a_port_that_is_not_mapped_has_no_address() -> None:
    assert worker_url(instance_at("https://a.novita.ai"), 9, may_be_private=False) is None
    assert checked_url("http://127.0.0.1:1", may_be_private=True) == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "raw",
    [None, [], {}, {"id": 5, "status": "running"}, {"id": "", "status": "x"}, {"id": "a"}],
)
def test_what_is_no_instance_is_none(raw: object) -> None:
    assert read_instance(raw) is None


def test_an_instance_full_of_nonsense_is_read_as_far_as_it_goes() -> None:
    found = read_instance(
        {
            "id": "i",
            "status": "hovering",
            "name": None,
            "envs": [None, {"key": 1, "value": 2}, {"key": "a"}],
            "portMappings": [None, {"port": "8188"}, {"port": 8188, "endpoint": None}],
            "statusError": "broken",
            "connectComponentLog": 7,
        }
    )
    assert found is not None
    assert found.phase == "starting"
    assert found.worker is None
    assert not found.endpoints


def test_names_of_instances_differ() -> None:
    ids = ["w1", "W1", "w-1", "w.1", "wörk", "x" * 300, "x" * 301]
    assert len({instance_name(each) for each in ids}) == len(ids)


def test_what_is_not_set_is_not_sent() -> None:
    body = write_instance(NovitaSettings(product_id="p", image="i"), "w1")
    assert {"command", "entrypoint", "clusterId", "imageAuth", "networkStorages"} & set(
        body
    ) == set()
    full = NovitaSettings(
        product_id="p", image="i", network_storages=[NetworkStorage(id="s", path="/s")]
    )
    assert "networkStorages" in write_instance(full, "w1")
