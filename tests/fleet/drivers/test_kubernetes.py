"""Pods as workers: what the cluster is asked for, and what it may answer [5.2]."""

import asyncio
import base64
import io
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from comfyrail.clock import SystemClock
from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers.interface import HostContext, WorkerHost
from comfyrail.fleet.drivers.kubernetes import DRIVER
from comfyrail.fleet.drivers.kubernetes_pods import pod_name, read_state, write_pod
from comfyrail.fleet.drivers.kubernetes_settings import KubernetesSettings, Toleration, Volume
from comfyrail.ids import WorkerId
from tests.engine.distributed.certificates import AUTHORITY, server_context
from tests.fleet.drivers.agent_parts import Comfy, serving, until
from tests.fleet.drivers.kubernetes_setting import pod_config
from tests.services.kubernetes_api import PodCluster, serving_cluster, trouble
from tests.services.pod_manifest import check_pod
from tests.services.ports import free_ports


@dataclass
class There:
    cluster: PodCluster
    config: dict[str, Any]
    context: HostContext
    hosts: list[WorkerHost] = field(default_factory=list)

    def host(self, worker_id: str = "w1", **more: Any) -> WorkerHost:
        config = DRIVER.check({**self.config, **more})
        self.hosts.append(DRIVER.host(WorkerId(worker_id), config, self.context))
        return self.hosts[-1]


@asynccontextmanager
async def cluster_at(folder: Path, **fields: Any) -> AsyncIterator[There]:
    cluster = PodCluster(**fields)
    async with (
        serving_cluster(cluster) as url,
        aiohttp.ClientSession() as http,
    ):
        context = HostContext(data=folder, http=http, clock=SystemClock())
        there = There(cluster, pod_config(url, folder, free_ports(1)[0]), context)
        try:
            yield there
        finally:
            for host in there.hosts:
                await host.release()


@pytest.fixture(autouse=True)
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("kubernetes", "kubernetes_client"):
        for name in ("FIRST_PAUSE_SECONDS", "PAUSE_SECONDS", "LONGEST_PAUSE_SECONDS"):
            path = f"comfyrail.fleet.drivers.{module}.{name}"
            monkeypatch.setattr(path, 0.01, raising=False)


async def test_a_worker_is_one_pod_and_the_next_server_returns_to_it(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        url = await there.host().start()
        (pod,) = there.cluster.created
        assert pod["metadata"]["name"] == "comfyrail-w1"
        assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "comfyrail"
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert await there.host().start() == url
        assert len(there.cluster.created) == 1


def test_all_settings_are_in_the_pod() -> None:
    settings = KubernetesSettings(
        image="example/comfyui:1",
        command=["python3", "main.py"],
        arguments=["--listen"],
        environment={"HF_HOME": "/models"},
        gpus=2,
        memory="16Gi",
        cpu="4",
        node_selector={"gpu": "h200"},
        service_account="renderer",
        image_pull_secrets=["registry"],
        tolerations=[Toleration(key="gpu", operator="Exists", effect="NoSchedule")],
        volumes=[Volume(claim="models", path="/models", read_only=True)],
    )
    pod = write_pod(settings, "Weird Wörker/1")
    check_pod(json.loads(json.dumps(pod)))
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": "2"}
    assert container["resources"]["requests"]["cpu"] == "4"
    assert container["env"] == [{"name": "HF_HOME", "value": "/models"}]
    assert container["volumeMounts"][0]["mountPath"] == "/models"
    assert container["volumeMounts"][0]["readOnly"] is True
    assert spec["volumes"][0]["persistentVolumeClaim"] == {"claimName": "models"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["serviceAccountName"] == "renderer"
    assert spec["automountServiceAccountToken"] is True
    assert spec["imagePullSecrets"] == [{"name": "registry"}]


def test_names_of_pods_are_good_and_differ() -> None:
    ids = ["w1", "W1", "w-1", "w.1", "w_1", "Wörker/1", "ä", "x" * 200, "x" * 201, "-", "0" * 36]
    names = [pod_name(each) for each in ids]
    assert len(set(names)) == len(ids)
    for name in names:
        check_pod(write_pod(KubernetesSettings(image="x"), name))
        assert len(name) <= 63


async def test_an_ended_pod_is_replaced(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        host = there.host()
        await host.start()
        ended = asyncio.create_task(host.wait_ended())
        (pod,) = there.cluster.pods.values()
        there.cluster.processes[pod["metadata"]["uid"]].kill()
        assert "exit code 137" in await asyncio.wait_for(ended, 10)
        assert pod["status"]["phase"] == "Failed"
        await there.host().start()
        assert len(there.cluster.created) == 2


async def test_a_pod_of_earlier_settings_is_replaced(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        await there.host(environment={"GREETING": "old"}).start()
        url = await there.host(environment={"GREETING": "new"}).start()
        stats = await ComfyClient(url, there.context.http).system_stats()
        assert stats["system"]["greeting"] == "new"
        await there.host(environment={"GREETING": "new"}, stop_grace=9).start()
        assert len(there.cluster.created) == 2


async def test_a_pod_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        foreign = {"metadata": {"name": "comfyrail-w1", "labels": {"app": "database"}}, "spec": {}}
        there.cluster.add(foreign)
        with pytest.raises(DriverRefused, match="is not of this worker") as caught:
            await there.host().start()
        assert caught.value.code == "POD_NAME_TAKEN"
        await there.host().stop()
        assert there.cluster.pods == {"comfyrail-w1": foreign}


# Pods that do not become ready


async def test_an_image_that_cannot_be_pulled_needs_a_person(tmp_path: Path) -> None:
    async with cluster_at(tmp_path, fate="image") as there:
        with pytest.raises(DriverRefused, match=r"cannot be pulled .*manifest unknown"):
            await there.host().start()
        await until(lambda: not there.cluster.pods)


async def test_wrong_settings_of_a_container_need_a_person(tmp_path: Path) -> None:
    async with cluster_at(tmp_path, fate="config") as there:
        with pytest.raises(DriverRefused, match='secret "x" not found'):
            await there.host().start()


async def test_a_pod_without_a_node_is_waited_for_and_stays(tmp_path: Path) -> None:
    async with cluster_at(tmp_path, fate="unschedulable") as there:
        with pytest.raises(WorkerUnreachable, match=r"Insufficient nvidia.com/gpu"):
            await there.host(start_limit=0.3).start()
        with pytest.raises(WorkerUnreachable, match="kubectl -n renders describe pod"):
            await there.host(start_limit=0.1).start()
        assert len(there.cluster.created) == 1


async def test_a_pod_that_never_answers_is_unreachable(tmp_path: Path) -> None:
    async with cluster_at(tmp_path, fate="silent") as there:
        with pytest.raises(WorkerUnreachable, match="it runs and does not answer yet"):
            await there.host(start_limit=1).start()


async def test_a_pod_that_dies_while_it_starts_is_said_to_have_died_and_removed(
    tmp_path: Path,
) -> None:
    async with cluster_at(tmp_path) as there:
        command = [sys.executable, "-S", "-c", "import sys; sys.exit(3)"]
        with pytest.raises(WorkerUnreachable, match="ended while it started: Error, exit code 3"):
            await there.host(command=command).start()
        await until(lambda: not there.cluster.pods)
        assert len(there.cluster.created) == 1


def test_a_container_that_crashes_again_and_again_has_ended() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    last = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    state = read_state(
        {
            "metadata": {"uid": "u"},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"state": waiting, "lastState": last}],
            },
        }
    )
    assert state.kind == "ended"
    assert "OOMKilled" in state.why


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"metadata": None, "status": 5},
        {"status": {"containerStatuses": [None, 3, {"state": []}]}},
        {"status": {"conditions": ["Ready", {"type": "Ready"}], "podIP": None}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.1@evil"}},
    ],
)
def test_a_pod_that_makes_no_sense_is_one_that_waits(pod: dict[str, Any]) -> None:
    assert read_state(pod).kind == "waiting"


# The end of pods


async def test_an_end_is_noticed_over_broken_and_forgotten_watches(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        host = there.host()
        await host.start()
        there.cluster.gone_watches = 2
        there.cluster.broken_watches = 1
        lists = there.cluster.lists
        ended = asyncio.create_task(host.wait_ended())
        await until(lambda: there.cluster.lists >= lists + 3)
        (pod,) = there.cluster.pods.values()
        there.cluster.processes[pod["metadata"]["uid"]].kill()
        assert "exit code 137" in await asyncio.wait_for(ended, 10)


async def test_a_pod_that_somebody_deletes_is_gone(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        host = there.host()
        await host.start()
        ended = asyncio.create_task(host.wait_ended())
        await there.host().stop()
        assert await asyncio.wait_for(ended, 10)


async def test_trouble_with_the_api_is_not_the_end_of_a_worker(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        host = there.host()
        await host.start()
        there.cluster.troubles = [trouble(500, 6), trouble(401, 2), trouble(429, 2)]
        ended = asyncio.create_task(host.wait_ended())
        before = len(there.cluster.asked)
        await until(lambda: len(there.cluster.asked) > before + 10)
        assert not ended.done()
        (pod,) = there.cluster.pods.values()
        there.cluster.processes[pod["metadata"]["uid"]].kill()
        assert "137" in await asyncio.wait_for(ended, 10)


async def test_a_delete_that_fails_at_first_is_tried_until_the_pod_is_gone(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        host = there.host()
        await host.start()
        there.cluster.sticky_deletes = 6
        await host.stop()
        assert not there.cluster.pods
        (process,) = there.cluster.processes.values()
        assert process.returncode == 0


async def test_a_pod_that_cannot_be_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.fleet.drivers.kubernetes.STOP_MARGIN_SECONDS", 0.3)
    async with cluster_at(tmp_path) as there:
        await there.host().start()
        there.cluster.sticky_deletes = 10_000
        with pytest.raises(WorkerUnreachable, match="kubectl -n renders delete pod comfyrail-w1"):
            await there.host(stop_grace=0).stop()


# Refusals


async def test_a_wrong_token_needs_a_person(tmp_path: Path) -> None:
    async with cluster_at(tmp_path, token="another") as there:
        for work in (there.host().start(), there.host().stop()):
            with pytest.raises(DriverRefused, match="credential is wrong"):
                await work


async def test_missing_rights_are_named(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        there.cluster.troubles = [trouble(403, 1, "POST")]
        with pytest.raises(DriverRefused, match="needs the rights get, list, watch, create"):
            await there.host().start()


async def test_a_used_up_quota_may_pass(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:

        def full(request: web.Request) -> web.StreamResponse | None:
            body = {"message": 'pods "x" is forbidden: exceeded quota: gpus'}
            return web.json_response(body, status=403) if request.method == "POST" else None

        there.cluster.troubles = [full]
        with pytest.raises(WorkerUnreachable, match="exceeded quota"):
            await there.host().start()


async def test_a_missing_namespace_needs_a_person(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        with pytest.raises(DriverRefused, match="404"):
            await there.host(namespace="nowhere").start()


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_busy_api_is_asked_again_and_then_waited_for(tmp_path: Path, code: int) -> None:
    async with cluster_at(tmp_path) as there:
        there.cluster.troubles = [trouble(code, 3)]
        await there.host().start()
        there.cluster.troubles = [trouble(code, 4, Retry_After="17")]
        with pytest.raises(WorkerUnreachable) as caught:
            await there.host().start()
        assert caught.value.retry_after == 17


@pytest.mark.parametrize(
    "body", ["", "<html>login</html>", "[1]", '{"items": 5}', "{" * 9000, '{"metadata": {}}']
)
async def test_an_api_that_answers_nonsense_may_pass(tmp_path: Path, body: str) -> None:
    async with cluster_at(tmp_path) as there:
        there.cluster.troubles = [lambda _: web.Response(text=body)]
        with pytest.raises(WorkerUnreachable):
            await there.host().start()


async def test_a_slow_api_may_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("comfyrail.fleet.drivers.kubernetes_client.ANSWER_SECONDS", 0.05)

    async def hang(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", hang)
    async with cluster_at(tmp_path) as there, serving(app) as url:
        with pytest.raises(WorkerUnreachable, match="took too long"):
            await there.host(api_url=url).start()


async def test_a_cluster_that_is_away_may_pass(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        with pytest.raises(WorkerUnreachable, match="cannot be reached"):
            await there.host(api_url="http://127.0.0.1:9").start()


# Logs


async def test_logs_come_from_the_container(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        host = there.host()
        await host.start()
        log = await host.logs(50)
        assert log.splitlines()[0] == "tiny worker starts"
        await host.stop()
        with pytest.raises(WorkerError, match="has no log"):
            await host.logs(5)


# Through the API server


async def test_a_pod_is_reached_through_the_api_server(tmp_path: Path) -> None:
    comfy = Comfy()
    async with cluster_at(tmp_path) as there, serving(comfy.app()) as comfy_url:
        port = int(comfy_url.rsplit(":", 1)[1])
        command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
        host = there.host(reach="proxy", port=port, command=command)
        http = there.context.http
        url = await host.start()
        assert url.startswith("http://127.0.0.1:")
        assert url != comfy_url
        await ComfyClient(url, http).system_stats()
        async with http.ws_connect(f"{url}/ws?clientId=me") as follow:
            await follow.send_str("hello")
            assert await follow.receive_str() == "me said hello"
        async with http.get(f"{url}/view?bytes=3000000") as reply:
            assert len(await reply.read()) == 3_000_000
        async with http.post(f"{url}/upload/image", data=io.BytesIO(b"x" * 2_000_000)) as reply:
            assert (await reply.json())["bytes"] == 2_000_000
        assert await host.start() == url
        await host.release()
        with pytest.raises(aiohttp.ClientError):
            await http.get(f"{url}/system_stats")


WAYS_OUT = [
    "/../../../secrets",
    "/a/../../b",
    "/%2e%2e/%2e%2e/secrets",
    "/%252e%252e/secrets",
    "/..%2f..%2fsecrets",
    "/a/./b",
    "/..\\..\\secrets",
]


async def test_the_credential_opens_nothing_but_the_pod(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        url = await there.host(reach="proxy").start()
        asked = len(there.cluster.asked)
        for path in WAYS_OUT:
            reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert b" 400 " in await reader.readline(), path
            writer.close()
        assert len(there.cluster.asked) == asked


async def test_a_pod_that_is_gone_is_unreachable_through_the_proxy(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        url = await there.host(reach="proxy").start()
        await there.host().stop()
        with pytest.raises(WorkerError):
            await ComfyClient(url, there.context.http).system_stats()


# Access


def kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> str:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "renders"}}
        ],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def credential_program(folder: Path, says: str) -> dict[str, Any]:
    path = folder / "give-credential"
    path.write_text(f"#!{sys.executable} -S\nprint({says!r})\n")
    path.chmod(0o755)
    return {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./give-credential"}
    }


async def through_kubeconfig(there: There, file: str, **more: Any) -> str:
    config = {**there.config, "kubeconfig": file, **more}
    for key in ("api_url", "token_file", "namespace"):
        del config[key]
    host = DRIVER.host(WorkerId("w1"), DRIVER.check(config), there.context)
    return await host.start()


@pytest.mark.parametrize("kind", ["token", "tokenFile", "exec"])
async def test_a_kubeconfig_gives_address_namespace_and_credential(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "tok").write_text("s3cret\n")
    says = {"kind": "ExecCredential", "status": {"token": "s3cret"}}
    users: dict[str, dict[str, Any]] = {
        "token": {"token": "s3cret"},
        "tokenFile": {"tokenFile": "tok"},
        "exec": credential_program(tmp_path, json.dumps(says)),
    }
    async with cluster_at(tmp_path) as there:
        file = kubeconfig(tmp_path, there.config["api_url"], users[kind])
        await through_kubeconfig(there, file)


async def test_a_cluster_shows_its_certificate(tmp_path: Path) -> None:
    async with cluster_at(tmp_path) as there:
        secure = PodCluster()
        async with serving_cluster(secure, ssl_context=server_context(tmp_path)) as url:
            good = base64.b64encode(AUTHORITY.encode()).decode()
            file = kubeconfig(
                tmp_path, url, {"token": "s3cret"}, **{"certificate-authority-data": good}
            )
            await through_kubeconfig(there, file)
            file = kubeconfig(
                tmp_path, url, {"token": "s3cret"}, **{"certificate-authority": "ca.crt"}
            )
            await through_kubeconfig(there, file)
            file = kubeconfig(tmp_path, url, {"token": "s3cret"})
            with pytest.raises(DriverRefused, match="is not trusted"):
                await through_kubeconfig(there, file)
            await asyncio.sleep(0.1)  # connections with TLS end a little later


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no kubeconfig"),
        ("[]", "no kubeconfig"),
        ("a: [b", "cannot be read"),
        ("current-context: x", "no context 'x'"),
        ("contexts: [{name: '', context: {}}]", "it lacks 'cluster'"),
    ],
)
async def test_a_broken_kubeconfig_needs_a_person(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "broken"
    file.write_text(content)
    async with cluster_at(tmp_path) as there:
        with pytest.raises(DriverRefused, match=says):
            await through_kubeconfig(there, str(file))
        with pytest.raises(DriverRefused, match="No such file"):
            await through_kubeconfig(there, str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "says", ["no json", "{}", '{"status": {"token": "x", "expirationTimestamp": 5}}']
)
async def test_a_program_without_a_credential_needs_a_person(tmp_path: Path, says: str) -> None:
    async with cluster_at(tmp_path) as there:
        user = credential_program(tmp_path, says)
        file = kubeconfig(tmp_path, there.config["api_url"], user)
        with pytest.raises(DriverRefused, match="gave no credentials"):
            await through_kubeconfig(there, file)


async def test_outside_of_a_cluster_an_address_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    async with cluster_at(tmp_path) as there:
        with pytest.raises(DriverRefused, match="kubeconfig or an api_url"):
            await there.host(api_url="").start()
