"""The file that describes pools and workers."""

import json
from pathlib import Path

import pytest

from comfyrail.bootstrap.fleet_file import read_fleet_file
from comfyrail.bootstrap.settings import load_settings, secrets, unknown_variables
from comfyrail.errors import ConfigurationError
from comfyrail.jobs.workers import PoolLimits


def write(folder: Path, text: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(text)
    return path


def test_no_file_is_no_pool() -> None:
    plan = read_fleet_file(None)
    assert (plan.pools, plan.workers) == ((), ())


def test_pools_and_workers_are_read_with_their_drivers_settings(tmp_path: Path) -> None:
    warm_up = {"1": {"class_type": "EmptyImage", "inputs": {}}}
    (tmp_path / "warm.json").write_text(json.dumps(warm_up))
    plan = read_fleet_file(
        write(
            tmp_path,
            """
            pools:
              engines: {driver: local, maximum: 3, idle_timeout: 5, cost_cap: 1.5,
                        labels: {region: eu}, warm_up: warm.json}
            workers:
              studio: {driver: static, config: {url: "127.0.0.1:8188"}}
            """,
        )
    )
    (pool,), (worker,) = plan.pools, plan.workers
    assert (pool.name, pool.driver, pool.labels) == ("engines", "local", {"region": "eu"})
    assert pool.limits == PoolLimits(0, 3, 0, 5.0, 60.0, 1.5)
    assert pool.warm_up == warm_up
    assert (worker.name, worker.config["url"]) == ("studio", "http://127.0.0.1:8188")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pools: [", "cannot be read"),
        ("[]", "is not right"),
        ("pool: {}", "pool: Extra inputs"),
        ("pools: {a: {driver: local, maximun: 3}}", "maximun"),
        ("pools: {a: {driver: local, minimum: 3, maximum: 2}}", "minimum 3 is more than maximum 2"),
        ("pools: {a: {driver: dokcer}}", "docker"),
        ("pools: {local: {driver: local}}", "--workers"),
        ("pools: {A B: {driver: local}}", "A B"),
        ("pools: {a: {driver: static, config: {url: x}}}", "under 'workers'"),
        ("pools: {a: {driver: local, config: {colour: red}}}", "colour"),
        ("pools: {a: {driver: local, idle_timeout: .nan}}", "idle_timeout"),
        ("pools: {a: {driver: local, warm_up: no.json}}", "no.json"),
        ("workers: {w: {driver: static, config: {url: 'ftp://x'}}}", "ftp://x"),
        ("", "pools: {}"),
        ("# nothing\n", "is empty"),
        ("pools: {a: {driver: local}, a: {driver: docker}}", "'a' is there twice"),
        ("pools: {a: {driver: local, maximum: 1, maximum: 9}}", "'maximum' is there twice"),
        ("pools: {a: {driver: local}}\npools: {}", "'pools' is there twice"),
        ("pools: {a: {driver: local, warm: 3, maximum: 2}}", "warm 3 is more than maximum 2"),
        ("pools: {a: {driver: local, labels: {pool: b}}}", "label 'pool'"),
        ("pools: {a: {driver: local, labels: {region: ''}}}", "1 to 100 characters"),
        ("pools: {a: {driver: local, labels: {'': x}}}", "1 to 100 characters"),
        (f"pools: {{a: {{driver: local, labels: {{r: {'x' * 101}}}}}}}", "1 to 100 characters"),
        ("workers: {local-5: {driver: local}}", "the pool 'local'"),
        ("pools: {gpu: {driver: local}}\nworkers: {gpu-0: {driver: local}}", "the pool 'gpu'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_fleet_file(write(tmp_path, text))
    assert said in raised.value.message
    assert "fleet.yaml" in raised.value.message


def test_file_with_nothing_in_it_that_says_so_is_right(tmp_path: Path) -> None:
    plan = read_fleet_file(write(tmp_path, "pools: {}"))
    assert (plan.pools, plan.workers) == ((), ())


def test_parts_of_a_file_may_be_used_again(tmp_path: Path) -> None:
    text = """
    pools:
      small: &small {driver: local, maximum: 1, warm: 1}
      large: {<<: *small, maximum: 5}
    workers: {small: {driver: local}, small-one: {driver: local}}
    """
    plan = read_fleet_file(write(tmp_path, text))
    assert [(pool.limits.maximum, pool.limits.warm) for pool in plan.pools] == [(1, 1), (5, 1)]


def test_warm_up_in_the_editors_format_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text('{"nodes": [], "links": []}')
    with pytest.raises(ConfigurationError, match="comfyrail convert"):
        read_fleet_file(write(tmp_path, "pools: {a: {driver: local, warm_up: w.json}}"))


def test_agents_need_a_token_that_cannot_be_guessed() -> None:
    for token in (None, "short"):
        with pytest.raises(ConfigurationError, match="COMFYRAIL_AGENT_TOKEN"):
            load_settings(agent_port=0, agent_token=token)
    settings = load_settings(agent_port=0, agent_token="0123456789abcdef")
    assert "0123456789abcdef" not in repr(settings)


def test_secrets_are_found_by_name_and_are_no_unknown_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMFYRAIL_SECRET_NOVITA_API_KEY", "key")
    assert secrets()["novita_api_key"] == "key"
    assert not unknown_variables()
