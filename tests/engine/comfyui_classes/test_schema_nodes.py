"""Classes of ComfyUI's newer kind, with stand-ins for the few helpers of the checkout."""

# ruff: noqa: N802 - the names are ComfyUI's

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.comfyui.input_types import HIDDEN_PREFIX
from comfyrail.engine.comfyui.schema_nodes import definition_of_schema, is_schema_class
from comfyrail.engine.definition import InputFault, NodeDefinition, NodeInputs, NodeResult
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import describe_node

FOLDERS = Folders(Path("/in"), Path("/out"), Path("/temp"))


class Base:
    """What the newer API's base class offers to whoever runs a node."""

    FUNCTION = "EXECUTE"
    INPUT_IS_LIST = False
    OUTPUT_NODE = False
    OUTPUT_IS_LIST: ClassVar[list[bool]] = [False]
    RETURN_TYPES: ClassVar[list[str]] = ["IMAGE"]
    RETURN_NAMES: ClassVar[list[str]] = ["picture"]
    CATEGORY = "tests"
    DESCRIPTION = "A test."
    DEPRECATED = False
    EXPERIMENTAL = True
    NOT_IDEMPOTENT = False
    hidden: ClassVar[Any] = None

    @classmethod
    def define_schema(cls) -> None: ...

    @classmethod
    def execute(cls, *_: Any, **__: Any) -> Any: ...

    @classmethod
    def check_lazy_status(cls, *_: Any, **__: Any) -> Any: ...

    @classmethod
    def fingerprint_inputs(cls, *_: Any, **__: Any) -> Any: ...

    @classmethod
    def validate_inputs(cls, *_: Any, **__: Any) -> Any: ...

    @classmethod
    def GET_NODE_INFO_V1(cls) -> dict[str, Any]:
        return {"name": cls.__name__}

    @classmethod
    def PREPARE_CLASS_CLONE(cls, hidden: dict[str, Any]) -> Any:
        assert {**hidden["hidden_inputs"], "hidden_inputs": hidden["hidden_inputs"]} == hidden
        return type("Clone", (cls,), {"hidden": SimpleNamespace(**hidden["hidden_inputs"])})

    @classmethod
    def EXECUTE(cls, **inputs: Any) -> Any:
        return cls.execute(**inputs)


def output(*values: Any, **more: Any) -> SimpleNamespace:
    about = {"ui": None, "expand": None, "block_execution": None} | more
    return SimpleNamespace(result=values or None, **about)


@pytest.fixture(autouse=True)
def helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_real_override(cls: Any, name: str) -> Any:
        found = getattr(cls, name)
        return None if found.__func__ is getattr(Base, name).__func__ else found

    def make_locked_method_func(kind: Any, name: str, clone: Any) -> Callable[..., Any]:
        function = getattr(kind, name).__func__
        if inspect.iscoroutinefunction(function):

            async def call_async(**inputs: Any) -> Any:
                return await function(clone, **inputs)

            return call_async
        return lambda **inputs: function(clone, **inputs)

    internal: Any = ModuleType("comfy_api.internal")
    internal.first_real_override = first_real_override
    internal.make_locked_method_func = make_locked_method_func
    monkeypatch.setitem(sys.modules, "comfy_api", ModuleType("comfy_api"))
    monkeypatch.setitem(sys.modules, "comfy_api.internal", internal)


class Scale(Base):
    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {
                "prompt": ("STRING", {}),
                "how": (
                    "COMFY_DYNAMICCOMBO_V3",
                    {
                        "options": [
                            {"key": "by", "inputs": {"required": {"factor": ("FLOAT", {})}}},
                        ]
                    },
                ),
                "images": (
                    "COMFY_AUTOGROW_V3",
                    {
                        "template": {
                            "input": {"required": {"image": ("IMAGE", {"lazy": True})}},
                            "prefix": "image",
                            "min": 1,
                            "max": 3,
                        }
                    },
                ),
            },
            "hidden": {"unique_id": ("UNIQUE_ID",), "prompt": ("PROMPT",)},
        }

    @classmethod
    def execute(cls, **inputs: Any) -> Any:
        return output((inputs, vars(cls.hidden)))

    @classmethod
    def check_lazy_status(cls, images: dict[str, tuple[Any, str]], **_: Any) -> list[str]:
        return [name for value, name in images.values() if value is None]

    @classmethod
    def fingerprint_inputs(cls, prompt: str, how: Any, **_: Any) -> Any:
        return [prompt, how, vars(cls.hidden)]

    @classmethod
    def validate_inputs(cls, how: Any) -> Any:
        return how["factor"] > 1 or f"{how} is too small"


class Lists(Scale):
    INPUT_IS_LIST = True


class Plain(Base):
    what: ClassVar[Any] = None

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"x": ("INT", {})}}

    @classmethod
    def execute(cls, **_: Any) -> Any:
        return cls.what


class Async(Plain):
    @classmethod
    async def EXECUTE(cls, **inputs: Any) -> Any:
        return output(inputs)


def define(node_class: Any) -> NodeDefinition:
    return definition_of_schema(node_class.__name__, node_class, "comfy_extras.tests")


def run(node_class: Any, **inputs: Any) -> NodeResult:
    instantiate = define(node_class).instantiate
    assert instantiate is not None
    result: NodeResult = instantiate().run(**inputs)
    return result


def test_it_is_known_by_what_it_has() -> None:
    assert is_schema_class(Scale)
    assert not is_schema_class(SimpleNamespace)


def test_the_definition_is_that_of_the_class() -> None:
    definition = define(Scale)
    assert definition.schema == "v3"
    assert definition.keyed_by_id
    assert definition.experimental
    assert [(port.name, port.type) for port in definition.outputs] == [("picture", "IMAGE")]
    assert set(definition.hidden.values()) == {"UNIQUE_ID", "PROMPT"}
    assert list(definition.ports) == ["prompt"]
    assert list(definition.ports_for({"how": "by", "images.image1": 1})) == [
        "prompt",
        "how",
        "how.factor",
        "images.image1",
    ]
    assert "images.image2" in definition.lazy_inputs
    assert "how.factor" not in definition.lazy_inputs
    assert describe_node(definition, FOLDERS) == {"name": "Scale"}


def test_inputs_are_nested_and_hidden_ones_are_in_the_class() -> None:
    given = {
        "prompt": "a cat",
        "how": "by",
        "how.factor": 2.0,
        "images.image0": 1,
        HIDDEN_PREFIX + "unique_id": "7",
        HIDDEN_PREFIX + "prompt": {},
    }
    assert run(Scale, **given).outputs == (
        (
            {"prompt": "a cat", "how": {"how": "by", "factor": 2.0}, "images": {"image0": 1}},
            {"UNIQUE_ID": "7", "PROMPT": {}},
        ),
    )
    assert Scale.hidden is None


def test_lists_are_nested_too() -> None:
    given = {"how": ["by"], "how.factor": [1.0, 2.0], "images.image0": [1]}
    ((inputs, _),) = run(Lists, **given).outputs
    assert inputs == {"how": {"how": ["by"], "factor": [1.0, 2.0]}, "images": {"image0": [1]}}


def test_lazy_inputs_are_asked_for_by_their_dotted_names() -> None:
    instantiate = define(Scale).instantiate
    assert instantiate is not None
    ask = instantiate().check_lazy
    assert ask is not None
    assert ask(prompt="", **{"images.image0": None, "images.image1": 2}) == ["images.image0"]
    plain = define(Plain).instantiate
    assert plain is not None
    assert plain().check_lazy is None


def test_the_fingerprint_gets_nested_constants() -> None:
    make = define(Scale).fingerprint
    assert make is not None
    literals = {"prompt": "a", "how": "by", "how.factor": 2.0}
    one = make(NodeInputs("7", literals, {"images.image0": None}, FOLDERS))
    assert one == make(NodeInputs("7", literals, {"images.image0": None}, FOLDERS))
    assert one != make(NodeInputs("8", literals, {"images.image0": None}, FOLDERS))
    assert one != make(NodeInputs("7", literals | {"how.factor": 3.0}, {}, FOLDERS))
    assert define(Plain).fingerprint is None


def test_the_check_gets_nested_constants() -> None:
    check = define(Scale).check
    assert check is not None
    good = NodeInputs("7", {"how": "by", "how.factor": 2.0}, {}, FOLDERS)
    assert check.find_faults(good) == []
    bad = NodeInputs("7", {"how": "by", "how.factor": 1.0, "prompt": ""}, {}, FOLDERS)
    reason = "{'how': 'by', 'factor': 1.0} is too small"
    assert check.find_faults(bad) == [
        InputFault("how", reason),
        InputFault("how.factor", reason),
    ]
    assert define(Plain).check is None


async def test_a_coroutine_function_stays_one() -> None:
    definition = define(Async)
    assert definition.is_async
    assert (await definition.function(x=1)).outputs == ({"x": 1},)


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (output(1), NodeResult((1,))),
        (output(1, 2), NodeResult((1,))),
        (output(), NodeResult((None,))),
        (output(ui={"text": ["a"]}), NodeResult((None,), ui={"text": ["a"]})),
        (
            output(ui=SimpleNamespace(as_dict=lambda: {"text": ["b"]})),
            NodeResult((None,), ui={"text": ["b"]}),
        ),
        (output(block_execution="no"), NodeResult((ExecutionBlocker("no"),))),
        (
            output(["1", 0], expand={"1": {"class_type": "X", "inputs": {}}}),
            NodeResult((["1", 0],), expand={"1": {"class_type": "X", "inputs": {}}}),
        ),
    ],
)
def test_what_it_returns(
    returned: Any, result: NodeResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plain, "what", returned)
    assert run(Plain, x=1) == result
