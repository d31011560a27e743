import sys
from pathlib import Path

import pytest

from comfyrail.engine.caching import CacheConfig, build_cache
from comfyrail.errors import ConfigurationError


def fault(**settings: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        build_cache(CacheConfig(**settings))  # type: ignore[arg-type]
    return caught.value.message


def test_the_defaults_are_those_of_the_specification() -> None:
    config = CacheConfig()
    assert (config.ttl_seconds, config.disk_mb, config.memory_mb) == (3600, 4096, 1024)
    assert list(build_cache(config).figures().levels) == ["memory"]


def test_the_levels_are_asked_in_the_order_of_the_specification(tmp_path: Path) -> None:
    cache = build_cache(
        CacheConfig(
            redis_url="redis://127.0.0.1:1/0",
            disk_path=tmp_path / "disk",
            object_url=f"file://{tmp_path}/objects",
        )
    )
    assert list(cache.figures().levels) == ["memory", "redis", "disk", "object"]
    cache.close()


@pytest.mark.parametrize("url", ["localhost:6379", "http://127.0.0.1", "redis", "redis://h:port/0"])
def test_a_redis_url_that_makes_no_sense_is_said(url: str) -> None:
    assert "Redis URL" in fault(redis_url=url)


@pytest.mark.parametrize(
    "url", ["bucket", "s3://", "ftp://host/x", "s3:/x", "http://host/x", "az://a"]
)
def test_an_object_url_that_makes_no_sense_is_said(url: str) -> None:
    assert "s3://bucket/prefix" in fault(object_url=url)


def test_an_unknown_option_of_the_store_is_said() -> None:
    assert "endpointt" in fault(object_url="s3://bucket", object_options={"endpointt": "x"})


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file" / "cache") in fault(disk_path=tmp_path / "file" / "cache")


@pytest.mark.parametrize(
    ("settings", "module", "extra"),
    [
        ({"redis_url": "redis://127.0.0.1:1/0"}, "redis", "comfyrail[redis]"),
        ({"object_url": "s3://bucket"}, "obstore", "comfyrail[s3]"),
    ],
)
def test_a_package_that_is_missing_is_said(
    settings: dict[str, str], module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("redis_link", "redis_level", "redis_leases", "object_level"):
        monkeypatch.delitem(sys.modules, f"comfyrail.engine.caching.{name}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    assert extra in fault(**settings)


@pytest.mark.parametrize(
    "settings", [{"memory_mb": -1}, {"disk_mb": -1}, {"ttl_seconds": -1.0}, {"lease_seconds": 60.0}]
)
def test_a_size_that_makes_no_sense_is_said(settings: dict[str, float]) -> None:
    assert next(iter(settings)) in fault(**settings)


def test_addresses_with_passwords_are_not_shown() -> None:
    config = CacheConfig(redis_url="redis://:hush@host", object_options={"secret": "hush"})
    assert "hush" not in repr(config)
