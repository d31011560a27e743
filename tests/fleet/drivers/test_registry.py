"""Drivers by name, and what is said of their settings."""

import builtins
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from comfyrail.errors import WorkerRefused
from comfyrail.fleet.drivers import registry
from comfyrail.fleet.drivers.registry import DRIVER_NAMES, driver_named
from comfyrail.fleet.drivers.settings import DriverSettings, byte_count, read_settings


class Colours(DriverSettings, kw_only=True, frozen=True):
    red: int
    green: tuple[str, ...] = ()
    names: dict[str, str] = msgspec.field(default_factory=dict)


def test_a_driver_is_the_same_object_each_time() -> None:
    assert driver_named("local") is driver_named("local")
    assert driver_named("local").name == "local"


@pytest.mark.parametrize(("wrong", "right"), [("dockr", "docker"), ("SSH", None), ("", None)])
def test_an_unknown_driver_is_refused_with_the_nearest_names(wrong: str, right: str | None) -> None:
    with pytest.raises(WorkerRefused) as caught:
        driver_named(wrong)
    assert caught.value.code == "UNKNOWN_DRIVER"
    assert all(name in caught.value.message for name in DRIVER_NAMES)
    if right is not None:
        assert f"Did you mean '{right}'" in caught.value.message


@pytest.fixture
def no_aiodocker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real_import = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "aiodocker":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real_import(name, *rest, **named)

    registry._load.cache_clear()
    for module in ("comfyrail.fleet.drivers.docker",):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    yield
    registry._load.cache_clear()


@pytest.mark.usefixtures("no_aiodocker")
def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(WorkerRefused, match=r"pip install 'comfyrail\[docker\]'") as caught:
        driver_named("docker")
    assert caught.value.code == "DRIVER_NOT_INSTALLED"
    assert "aiodocker" in caught.value.message


@pytest.mark.parametrize(
    ("config", "code", "field"),
    [
        ({}, "MISSING_WORKER_SETTING", "red"),
        ({"red": "x"}, "INVALID_WORKER_SETTING", "red"),
        ({"red": 1, "gren": []}, "UNKNOWN_WORKER_SETTING", "gren"),
        ({"red": 1, "green": ["a", 2]}, "INVALID_WORKER_SETTING", "green[1]"),
        ({"red": 1, "names": {"a": 1}}, "INVALID_WORKER_SETTING", "names[...]"),
        ({"red": None}, "INVALID_WORKER_SETTING", "red"),
        ([], "INVALID_WORKER_SETTING", "config"),
    ],
)
def test_a_wrong_setting_is_named(config: Any, code: str, field: str) -> None:
    with pytest.raises(WorkerRefused) as caught:
        read_settings(Colours, config, "colours")
    assert (caught.value.code, caught.value.details["field"]) == (code, field)
    assert f"'{field}'" in caught.value.message


def test_an_unknown_setting_is_answered_with_the_nearest_ones() -> None:
    with pytest.raises(WorkerRefused, match="Did you mean 'green'"):
        read_settings(Colours, {"red": 1, "gren": []}, "colours")


def test_text_of_a_command_line_is_taken_for_a_number() -> None:
    assert read_settings(Colours, {"red": "12"}, "colours").red == 12


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("8g", 8 << 30), ("512 MiB", 512 << 20), (1024, 1024), ("1.5k", 1536), ("2TB", 2 << 40)],
)
def test_sizes_are_read_as_people_write_them(text: str | int, bytes_: int) -> None:
    assert byte_count("x", "memory", text) == bytes_


@pytest.mark.parametrize("text", ["", "much", "-1", "1e9", "8 g b", "9" * 40, "1/2"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(WorkerRefused, match="memory"):
        byte_count("x", "memory", text)
