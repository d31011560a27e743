"""Nodes as Jobs, against a server that keeps to the documented API and really runs them."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.distributed.kubernetes_address import find_cluster
from comfyrail.engine.distributed.kubernetes_jobs import write_job, write_resources
from comfyrail.engine.distributed.settings import KubernetesSection
from comfyrail.engine.distributed.task import RemoteTask
from comfyrail.engine.events import ExecutionFailed, ExecutionInterrupted
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.resources.needs import ResourceNeeds
from comfyrail.errors import ConfigurationError
from tests.engine.distributed.certificates import server_context
from tests.engine.distributed.kubernetes_manifest import check_job
from tests.engine.distributed.kubernetes_server import Cluster
from tests.engine.distributed.parts import (
    PACK,
    Graph,
    Setup,
    coordinator,
    node,
    nodes_of_tests,
    run,
    sequentially,
    shown,
    started,
    when_busy,
)
from tests.engine.distributed.server_thread import serving_in_thread
from tests.processes import wait_until
from tests.services.ports import free_ports


class OnCluster:
    def __init__(self, cluster: Cluster, setup: Setup) -> None:
        self.cluster = cluster
        self.setup = setup


@pytest.fixture
def on_cluster(tmp_path: Path) -> Iterator[OnCluster]:
    cluster = Cluster(token="s3cret")
    token_file = tmp_path / "token"
    token_file.write_text("s3cret\n")
    with serving_in_thread(cluster.app()) as url:
        setup = Setup(tmp_path, caching={"disk_path": str(tmp_path / "cache")})
        command = [sys.executable, "-m", "comfyrail", "run-task", "--nodes", str(PACK)]
        section = {
            "image": "registry.example/comfyrail:1",
            "command": [*command, "--config", str(tmp_path / "engine.yaml")],
            "namespace": cluster.namespace,
            "api_url": url,
            "token_file": str(token_file),
            "backoff_limit": 1,
            "env": {"RUN_LOG": str(setup.run_log)},
        }
        setup = replace(setup, distributed={"runner": "kubernetes", "kubernetes": section})
        assert setup.file.exists()
        yield OnCluster(cluster, setup)


def test_nodes_run_as_jobs_and_give_the_same(tmp_path: Path, on_cluster: OnCluster) -> None:
    cluster, setup = on_cluster.cluster, on_cluster.setup
    graph = {
        "1": node("CheckerboardImage", width=8, height=8, cell=2, color1="#fff", color2="#012"),
        "2": node("ImageInvert", image=["1", 0]),
        "3": node("Who", value=7),
        "out": node("Show", value=["2", 0]),
        "who": node("Show", value=["3", 0]),
    }
    with coordinator(setup) as executor:
        events = run(executor, graph)
        assert shown(events) == shown(sequentially(tmp_path / "plain", graph))
        assert len(cluster.created) == 3
        # It was told to come back, lost its place once, and was cut off once.
        assert (cluster.busy_answers, cluster.gone_watches, cluster.broken_watches) == (0, 0, 0)
        assert cluster.lists >= 2
        assert cluster.watches >= 3
    with coordinator(setup) as fresh:
        assert started(run(fresh, graph)) == []
    assert len(cluster.created) == 3
    assert cluster.deleted == []


def test_the_node_s_own_failure_comes_back_and_is_not_tried_again(on_cluster: OnCluster) -> None:
    graph = {"1": node("Fail", value=5), "out": node("Show", value=["1", 0])}
    with coordinator(on_cluster.setup) as executor:
        end = run(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    assert (end.exception_type, end.message) == ("ValueError", "not 5")
    assert len(on_cluster.setup.begun("fail")) == 1


def test_a_pod_that_dies_is_started_again_and_then_given_up(on_cluster: OnCluster) -> None:
    graph = {"1": node("Die", value=5), "out": node("Show", value=["1", 0])}
    with coordinator(on_cluster.setup) as executor:
        end = run(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    assert end.exception_type == "comfyrail.engine.failures.WorkerLost"
    assert "BackoffLimitExceeded" in end.message
    assert end.recoverable
    assert len(on_cluster.setup.begun("die")) == 2


def test_a_job_that_takes_too_long_is_a_timeout(on_cluster: OnCluster) -> None:
    on_cluster.cluster.seconds_of_a_second = 0.01
    registry = nodes_of_tests()
    registry.add(replace(registry["Hang"], timeout=50.0))
    graph = {"1": node("Hang", value=5), "out": node("Show", value=["1", 0])}
    with coordinator(on_cluster.setup, registry) as executor:
        end = run(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    assert end.kind == "timeout"
    (job,) = on_cluster.cluster.created
    assert job["spec"]["activeDeadlineSeconds"] == 110


def test_an_interrupt_deletes_the_job(on_cluster: OnCluster) -> None:
    interrupt = Interrupt()
    graph: Graph = {"1": node("Hang", value=5), "out": node("Show", value=["1", 0])}
    with coordinator(on_cluster.setup) as executor:
        with when_busy(on_cluster.setup, "hang", lambda _: interrupt.request()):
            end = run(executor, graph, interrupt=interrupt)[-1]
        assert isinstance(end, ExecutionInterrupted)
        wait_until(lambda: on_cluster.cluster.deleted)
    assert on_cluster.cluster.jobs == {}


def test_a_large_task_goes_through_the_shared_cache(on_cluster: OnCluster) -> None:
    text = "long " * 40_000
    graph = {"1": node("Length", text=text), "out": node("Show", value=["1", 0])}
    with coordinator(on_cluster.setup) as executor:
        assert shown(run(executor, graph))["out"] == {"value": [len(text)]}
    (job,) = on_cluster.cluster.created
    names = [each["name"] for each in job["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert names == ["RUN_LOG", "COMFYRAIL_TASK_KEY"]


def test_who_is_not_let_in_is_told_so(on_cluster: OnCluster) -> None:
    on_cluster.cluster.token = "another"
    graph = {"1": node("Number", value=5), "out": node("Show", value=["1", 0])}
    with coordinator(on_cluster.setup) as executor:
        end = run(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    assert end.kind == "resource"
    assert "401" in end.message


def test_a_cluster_that_is_not_there_is_said_in_seconds(on_cluster: OnCluster) -> None:
    raw = dict(on_cluster.setup.distributed["kubernetes"])
    raw["api_url"] = f"http://127.0.0.1:{free_ports(1)[0]}"
    setup = replace(on_cluster.setup, distributed={"runner": "kubernetes", "kubernetes": raw})
    graph = {"1": node("Number", value=5), "out": node("Show", value=["1", 0])}
    with coordinator(setup) as executor:
        end = run(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    assert end.kind == "resource"
    assert "cannot be reached" in end.message


@pytest.mark.parametrize("is_trusted", [True, False])
def test_the_cluster_s_own_authority_is_what_is_trusted(
    tmp_path: Path, on_cluster: OnCluster, is_trusted: bool
) -> None:
    cluster = Cluster(token="s3cret")
    graph = {"1": node("Number", value=5), "out": node("Show", value=["1", 0])}
    with serving_in_thread(cluster.app(), server_context(tmp_path)) as url:
        trust = {"ca_file": str(tmp_path / "ca.crt")} if is_trusted else {}
        section = {**on_cluster.setup.distributed["kubernetes"], "api_url": url, **trust}
        setup = replace(
            on_cluster.setup, distributed={"runner": "kubernetes", "kubernetes": section}
        )
        with coordinator(setup) as executor:
            events = run(executor, graph)
    if is_trusted:
        assert shown(events)["out"] == {"value": [5]}
    else:
        assert isinstance(events[-1], ExecutionFailed)
        assert "certificate" in events[-1].message.lower()
    assert len(cluster.created) == int(is_trusted)


TASK = RemoteTask("0" * 32, "an execution", "A Node!", "1", "7", "a" * 64, {}, {})


def manifest(section: KubernetesSection, needs: ResourceNeeds) -> Any:
    return write_job(
        section, TASK, needs, coordinator="c" * 32, environment={"COMFYRAIL_TASK": "{}"}
    )


def test_what_a_node_needs_is_what_its_container_asks_for() -> None:
    whole = ResourceNeeds(cpu_cores=0.25, memory_mb=1000.5, gpu_count=2, disk_space_mb=0)
    assert write_resources(whole) == {
        "requests": {"cpu": "250m", "memory": "1001Mi", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }
    share = ResourceNeeds(gpu_memory_mb=100)
    assert write_resources(share)["limits"] == {"nvidia.com/gpu": "1"}
    assert "limits" not in write_resources(ResourceNeeds())
    for needs in (whole, share, ResourceNeeds()):
        check_job(manifest(KubernetesSection(image="x"), needs))


def test_more_of_the_pod_comes_from_the_settings() -> None:
    section = KubernetesSection(
        image="x",
        pod={"serviceAccountName": "renderer", "volumes": [{"name": "cache"}]},
        volume_mounts=[{"name": "cache", "mountPath": "/cache"}],
    )
    job = manifest(section, ResourceNeeds())
    check_job(job)
    pod = job["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["restartPolicy"]) == ("renderer", "Never")
    assert pod["containers"][0]["volumeMounts"] == section.volume_mounts


def test_in_a_cluster_the_pod_s_own_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    (tmp_path / "namespace").write_text("renders")
    (tmp_path / "token").write_text("first")
    address = find_cluster(KubernetesSection(image="x"), tmp_path)
    assert (address.url, address.namespace) == ("https://10.0.0.1:6443", "renders")
    assert address.ca_file == tmp_path / "ca.crt"
    assert address.authorization() == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("second")
    assert address.authorization() == {"Authorization": "Bearer second"}
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert find_cluster(KubernetesSection(), tmp_path).url == "https://[fd00::1]:6443"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(ConfigurationError, match="api_url"):
        find_cluster(KubernetesSection(image="x"), tmp_path)
