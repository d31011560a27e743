"""How much memory models hold."""

from types import SimpleNamespace
from typing import Any

from comfyrail.engine.comfyui.sizes import held_bytes


class Module:
    def parameters(self) -> list[Any]:
        return [SimpleNamespace(nbytes=100), SimpleNamespace(nbytes=20)]

    def buffers(self) -> list[Any]:
        return [SimpleNamespace(nbytes=3)]


class Patcher:
    def __init__(self) -> None:
        self.model = Module()

    def model_size(self) -> int:
        return 5000


class Odd:
    def model_size(self, _: int) -> int:
        return 1


def test_a_patcher_knows_the_size_of_its_model() -> None:
    assert held_bytes(Patcher()) == 5000


def test_a_module_holds_its_parameters_and_buffers() -> None:
    assert held_bytes(Module()) == 123


def test_an_object_holds_the_model_that_it_refers_to() -> None:
    assert held_bytes(SimpleNamespace(patcher=Patcher(), model=Module(), name="clip")) == 5000
    assert held_bytes(SimpleNamespace(name="description", model=Module())) == 123


def test_what_is_no_model_holds_none() -> None:
    for value in (5, "text", None, [Patcher()], {"a": 1}, SimpleNamespace(a=1), Patcher, Odd()):
        assert held_bytes(value) is None
