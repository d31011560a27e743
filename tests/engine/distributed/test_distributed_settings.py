"""What can be wrong with the settings is said when the engine is put together."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.configuration import read_configuration
from comfyrail.engine.distributed.celery_app import broker_address, make_app
from comfyrail.errors import ConfigurationError
from tests.engine.distributed.parts import Setup, coordinator, node, run

Section = dict[str, Any]


def setup_with(tmp_path: Path, section: Section, **caching: Any) -> Setup:
    return Setup(tmp_path, distributed=section, caching=caching)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"broker_url": "http://x"}, "broker_url"),
        ({"runner": "kubernetes", "kubernetes": {"api_url": "http://x"}}, "image"),
        ({"runner": "kubernetes", "kubernetes": {"image": "x"}}, "api_url"),
        ({"runner": "lambda"}, "function"),
        ({"runner": "lambda", "aws_lambda": {"function": "f"}}, "region"),
        ({"runner": "slurm"}, "slurm"),
        ({"kubernetes": {"imaeg": "x"}}, "imaeg"),
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"most_tasks": 0}, "most_tasks"),
        ({"kubernetes": {"pod": {"containers": []}}}, "containers"),
    ],
)
def test_a_wrong_setting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: Section, said: str
) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with (
        pytest.raises(ConfigurationError, match=said),
        coordinator(setup_with(tmp_path, section, disk_path=str(tmp_path / "cache"))),
    ):
        pass


def test_without_a_shared_level_it_cannot_be_the_strategy(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="needs a cache level that all machines share"),
        coordinator(setup_with(tmp_path, {})),
    ):
        pass


def test_one_job_that_asks_for_it_is_told_the_same(tmp_path: Path) -> None:
    setup = Setup(tmp_path, execution={"strategy": "sequential"})
    graph = {"out": node("Show", value=1)}
    with coordinator(setup) as executor:
        with pytest.raises(ConfigurationError, match="needs a cache level"):
            run(executor, graph, comfyrail={"strategy": "distributed"})
        assert run(executor, graph)


def test_without_celery_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] in {"celery", "kombu"}:
            raise ImportError(name)
        return real(name, *arguments, **options)

    for name in list(sys.modules):
        if name.startswith("comfyrail.engine.distributed.celery"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with (
        pytest.raises(ConfigurationError, match=r"comfyrail\[celery\]"),
        coordinator(setup_with(tmp_path, {}, disk_path=str(tmp_path / "cache"))),
    ):
        pass


def test_nothing_secret_is_in_the_text_of_the_settings() -> None:
    raw = {
        "execution": {
            "distributed": {
                "broker_url": "redis://:hush@x/0",
                "aws_lambda": {"function": "f", "secret_access_key": "hush"},
            }
        }
    }
    assert "hush" not in repr(read_configuration(raw, "test"))


def test_celery_takes_json_only_and_keeps_no_results() -> None:
    conf = make_app("redis://x/0", "q").conf
    assert conf.accept_content == ["json"]
    assert (conf.task_serializer, conf.result_backend) == ("json", None)
    assert conf.task_ignore_result
    assert conf.task_acks_late
    assert conf.worker_prefetch_multiplier == 1


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://host:1/2", "redis://host:1/2"),
        ("unix:///run/valkey.sock?db=3", "redis+socket:///run/valkey.sock?virtual_host=3"),
        ("unix://:hush@/run/x.sock", "redis+socket://:hush@/run/x.sock?virtual_host=0"),
    ],
)
def test_a_url_of_redis_is_one_of_celery(url: str, address: str) -> None:
    assert broker_address(url) == address
