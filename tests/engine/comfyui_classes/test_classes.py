"""Classes of ComfyUI's first kind as node types of the engine."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.comfyui.classes import definition_of
from comfyrail.engine.comfyui.input_types import HIDDEN_PREFIX
from comfyrail.engine.definition import InputFault, NodeDefinition, NodeInputs, NodeResult
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import describe_node
from tests.engine.comfyui_classes import sample_classes as samples

FOLDERS = Folders(Path("/in"), Path("/out"), Path("/temp"))


def define(node_class: Any) -> NodeDefinition:
    return definition_of(node_class.__name__, node_class, "custom_nodes.tests", "A title")


def run(node_class: Any, **inputs: Any) -> NodeResult:
    instantiate = define(node_class).instantiate
    assert instantiate is not None
    result: NodeResult = instantiate().run(**inputs)
    return result


def inputs_of(links: dict[str, str | None] | None = None, **literals: Any) -> NodeInputs:
    return NodeInputs("7", literals, links or {}, FOLDERS)


def fingerprint(
    node_class: Any, links: dict[str, str | None] | None = None, **literals: Any
) -> Any:
    make = define(node_class).fingerprint
    assert make is not None
    return make(inputs_of(links, **literals))


def faults(node_class: Any, links: dict[str, str | None] | None = None, **literals: Any) -> Any:
    check = define(node_class).check
    assert check is not None
    return check.find_faults(inputs_of(links, **literals))


class TestDefinition:
    def test_ports_and_outputs_are_those_of_the_class(self) -> None:
        definition = define(samples.Plain)
        assert [(port.name, port.type, port.required) for port in definition.ports.values()] == [
            ("a", "INT", True),
            ("mode", "COMBO", True),
            ("b", "INT", False),
            ("link", "*", False),
        ]
        assert definition.ports["a"].maximum == 9
        assert definition.ports["mode"].choices == ("plus", "minus")
        assert [(port.name, port.type) for port in definition.outputs] == [
            ("sum", "INT"),
            ("text", "STRING"),
        ]
        assert "b" in definition.lazy_inputs
        assert "a" not in definition.lazy_inputs
        assert "link" in definition.raw_links
        assert definition.takes_undeclared

    def test_choices_are_asked_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            samples.Plain, "INPUT_TYPES", lambda: {"required": {"mode": (["new"],)}}
        )
        assert define(samples.Plain).ports["mode"].choices == ("new",)

    def test_flags_of_the_class(self) -> None:
        definition = define(samples.Judged)
        assert definition.keyed_by_id
        assert definition.deprecated
        assert definition.experimental
        assert not definition.is_output
        assert define(samples.Hidden).is_output
        assert define(samples.Hidden).keyed_by_id
        assert not define(samples.Plain).keyed_by_id
        assert define(samples.Lists).takes_lists

    def test_a_section_that_has_every_name_has_a_port_for_each(self) -> None:
        definition = define(samples.Flexible)
        assert list(definition.ports) == ["first"]
        assert "image_17" in definition.ports
        assert definition.ports["image_17"].type == "*"
        assert not definition.ports["image_17"].required
        assert "lazy_9" in definition.lazy_inputs
        assert "image_9" not in definition.lazy_inputs
        assert "first" not in definition.lazy_inputs

    def test_a_section_that_has_every_name_may_list_none(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            samples.Flexible, "INPUT_TYPES", lambda: {"optional": samples.AnyNames()}
        )
        definition = define(samples.Flexible)
        assert list(definition.ports) == []
        assert "anything" in definition.ports

    def test_types_that_differ_from_none_are_any_type(self) -> None:
        assert [port.type for port in define(samples.Flexible).outputs] == ["*", "*", "COMBO"]

    def test_what_the_class_raises_when_asked_is_raised(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse() -> None:
            raise OSError("no such folder")

        monkeypatch.setattr(samples.Plain, "INPUT_TYPES", refuse)
        with pytest.raises(OSError, match="no such folder"):
            define(samples.Plain)

    def test_the_description_has_comfyuis_form(self) -> None:
        assert describe_node(define(samples.Judged), FOLDERS) == {
            "input": {"required": {"x": ("INT",)}, "optional": {"y": ("INT",)}},
            "input_order": {"required": ["x"], "optional": ["y"]},
            "output": (),
            "output_is_list": [],
            "output_name": (),
            "name": "Judged",
            "display_name": "A title",
            "description": "",
            "python_module": "custom_nodes.tests",
            "category": "sd",
            "output_node": False,
            "output_tooltips": (),
            "deprecated": True,
            "experimental": True,
        }


class TestRun:
    def test_a_tuple_is_the_outputs(self) -> None:
        assert run(samples.Plain, a=2, mode="plus", b=3).outputs == (5, "1 []")

    def test_undeclared_inputs_that_the_engine_gives_are_passed_on(self) -> None:
        assert run(samples.Plain, a=2, mode="plus", more=1).outputs == (2, "1 ['more']")

    def test_an_object_keeps_its_state_and_another_has_its_own(self) -> None:
        definition = define(samples.Plain)
        assert definition.instantiate is not None
        one, two = definition.instantiate(), definition.instantiate()
        one.run(a=1, mode="plus")
        assert one.run(a=1, mode="plus").outputs[1] == "2 []"
        assert two.run(a=1, mode="plus").outputs[1] == "1 []"

    def test_the_function_of_the_definition_runs_on_an_object_of_its_own(self) -> None:
        definition = define(samples.Plain)
        definition.function(a=1, mode="plus")
        assert definition.function(a=1, mode="plus").outputs[1] == "1 []"

    def test_hidden_inputs_have_the_names_that_the_class_gave_them(self) -> None:
        definition = define(samples.Hidden)
        assert set(definition.hidden.values()) == {
            "UNIQUE_ID",
            "PROMPT",
            "EXTRA_PNGINFO",
            "DYNPROMPT",
        }
        given = {name: kind.lower() for name, kind in definition.hidden.items()}
        assert run(samples.Hidden, x=1, **given).outputs == (
            {
                "x": 1,
                "me": "unique_id",
                "prompt": "prompt",
                "info": "extra_pnginfo",
                "graph": "dynprompt",
            },
        )

    def test_a_hidden_input_wins_over_an_input_of_that_name(self) -> None:
        given = {"me": "from the prompt", HIDDEN_PREFIX + "me": "9"}
        assert run(samples.Hidden, **given).outputs == ({"me": "9"},)

    def test_a_hidden_name_of_no_known_kind_is_an_input_that_a_graph_may_set(self) -> None:
        port = define(samples.Hidden).ports["from_a_graph"]
        assert (port.type, port.required) == ("*", False)

    def test_for_a_class_that_takes_lists_hidden_inputs_are_lists_of_one(self) -> None:
        given = {"x": [1, 2], HIDDEN_PREFIX + "me": "9"}
        assert run(samples.HiddenLists, **given).outputs == ({"x": [1, 2], "me": ["9"]},)

    def test_outputs_that_are_lists(self) -> None:
        result = run(samples.Lists, items=[1, 2], factor=[3])
        assert result.outputs == ([3, 6, 300], 3)

    async def test_a_coroutine_function_stays_one(self) -> None:
        definition = define(samples.Async)
        assert definition.is_async
        assert definition.instantiate is not None
        methods = definition.instantiate()
        assert inspect.iscoroutinefunction(methods.run)
        assert (await methods.run(x=3)).outputs == (3,)
        assert methods.check_lazy is not None
        assert await methods.check_lazy(x=None) == ["x"]
        assert (await definition.function(x=4)).outputs == (4,)

    def test_lazy_answers_that_are_no_list_of_names_ask_for_nothing(self) -> None:
        definition = define(samples.Lazy)
        assert definition.instantiate is not None
        ask = definition.instantiate().check_lazy
        assert ask is not None
        assert ask(one=None, two=None) == ["one"]
        assert ask(one=1, two=None) == []
        assert ask(one=1, two=2) == []

    def test_a_class_without_a_lazy_function_has_none(self) -> None:
        definition = define(samples.Plain)
        assert definition.instantiate is not None
        assert definition.instantiate().check_lazy is None


class TestReturns:
    def test_missing_outputs_are_none_and_surplus_ones_are_dropped(self) -> None:
        assert run(samples.Returns, what=(1,)).outputs == (1, [None])
        assert run(samples.Returns, what=[]).outputs == (None, [None])
        assert run(samples.Returns, what=(1, [2], 3)).outputs == (1, [2])

    def test_anything_that_can_be_indexed_is_taken(self) -> None:
        assert run(samples.Returns, what="ab").outputs == ("a", "b")

    @pytest.mark.parametrize("wrong", [5, None, object(), {1, 2}])
    def test_what_cannot_be_outputs_is_an_error(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"Returns returned .* a tuple of 2 outputs"):
            run(samples.Returns, what=wrong)

    def test_nothing_is_fine_for_a_class_without_outputs(self) -> None:
        assert run(samples.Judged, x=1) == NodeResult(())

    def test_what_the_function_raises_is_raised(self) -> None:
        with pytest.raises(ZeroDivisionError):
            run(samples.Returns, what=ZeroDivisionError())

    def test_a_dict_has_what_to_show_and_the_outputs(self) -> None:
        shown = {"images": [{"filename": "a.png"}]}
        assert run(samples.Returns, what={"ui": shown, "result": (1, [2])}) == NodeResult(
            (1, [2]), ui=shown
        )
        assert run(samples.Returns, what={"ui": shown}).outputs == (None, [None])
        assert run(samples.Returns, what={"ui": {}, "result": (1, [])}).ui is None

    def test_a_dict_may_have_a_graph(self) -> None:
        graph = {"7.0.0.1": {"class_type": "X", "inputs": {"a": 1, "b": ["7.0.0.2", 0]}}}
        result = run(samples.Returns, what={"expand": graph, "result": (["7.0.0.1", 0], [1])})
        assert result.expand == graph
        assert result.outputs == (["7.0.0.1", 0], [1])

    def test_a_blocker_alone_is_for_all_outputs(self) -> None:
        for blocker in (samples.ExecutionBlocker("no"), {"result": samples.ExecutionBlocker("no")}):
            assert run(samples.Returns, what=blocker).outputs == (ExecutionBlocker("no"),) * 2

    def test_blockers_among_the_outputs(self) -> None:
        blocker = samples.ExecutionBlocker(None)
        result = run(samples.Returns, what=(blocker, [1, blocker]))
        assert result.outputs == (ExecutionBlocker(), [1, ExecutionBlocker()])
        assert run(samples.Returns, what=(1, blocker)).outputs == (1, ExecutionBlocker())

    def test_blockers_among_the_values_of_a_graph(self) -> None:
        graph = {"1": {"class_type": "X", "inputs": {"a": samples.ExecutionBlocker("no")}}}
        result = run(samples.Returns, what={"expand": graph, "result": ()})
        assert result.expand is not None
        assert result.expand["1"]["inputs"] == {"a": ExecutionBlocker("no")}


class TestFingerprint:
    def test_a_class_without_it_has_none(self) -> None:
        assert define(samples.Plain).fingerprint is None

    def test_constants_links_and_hidden_inputs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: dict[str, Any] = {}

        def is_changed(**given: Any) -> int:
            seen.update(given)
            return 1

        monkeypatch.setattr(samples.Hidden, "IS_CHANGED", is_changed)
        fingerprint(samples.Hidden, {"y": None}, x=5, undeclared=6)
        assert seen == {"x": 5, "y": None, "me": "7", "prompt": {}, "info": None, "graph": None}

    def test_lists_for_a_class_that_takes_lists(self) -> None:
        one = fingerprint(samples.Lists, {"items": None}, factor=2)
        assert one == fingerprint(samples.Lists, {"items": None}, factor=2)
        assert one != fingerprint(samples.Lists, {"items": None}, factor=3)

    async def test_a_coroutine_function_is_awaited(self) -> None:
        assert await fingerprint(samples.Async, x=1) == await fingerprint(samples.Async, x=1)
        assert await fingerprint(samples.Async, x=1) != await fingerprint(samples.Async, x=2)

    @pytest.mark.parametrize(
        "answer", [float("nan"), object(), {1, 2}, [1, float("nan")], {"a": object()}]
    )
    def test_what_is_no_plain_data_is_never_equal(
        self, answer: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(samples.Hidden, "IS_CHANGED", lambda **_: answer)
        found = fingerprint(samples.Hidden, x=1)
        assert found != found  # noqa: PLR0124 - that is the point

    @pytest.mark.parametrize("answer", ["", b"\x00", 1, None, [1, [2, "3"]], {"b": 1, "a": (2,)}])
    def test_plain_data_is_equal_to_itself(
        self, answer: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(samples.Hidden, "IS_CHANGED", lambda **_: answer)
        assert fingerprint(samples.Hidden, x=1) == fingerprint(samples.Hidden, x=1)

    def test_a_text_is_not_taken_for_a_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = []
        for answer in (1, "1", b"1", [1], [[1]], None, "None"):
            monkeypatch.setattr(samples.Hidden, "IS_CHANGED", lambda answer=answer, **_: answer)
            found.append(fingerprint(samples.Hidden, x=1))
        assert len(set(found)) == len(found)

    def test_the_order_of_a_mapping_does_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(samples.Hidden, "IS_CHANGED", lambda **_: {"a": 1, "b": 2})
        one = fingerprint(samples.Hidden, x=1)
        monkeypatch.setattr(samples.Hidden, "IS_CHANGED", lambda **_: {"b": 2, "a": 1})
        assert fingerprint(samples.Hidden, x=1) == one

    def test_what_it_raises_is_raised(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(**_: Any) -> None:
            raise FileNotFoundError("gone")

        monkeypatch.setattr(samples.Hidden, "IS_CHANGED", fail)
        with pytest.raises(FileNotFoundError):
            fingerprint(samples.Hidden, x=1)


class TestCheck:
    def test_a_class_without_it_has_none(self) -> None:
        assert define(samples.Plain).check is None

    def test_a_text_is_the_reason_for_every_input_that_was_judged(self) -> None:
        assert faults(samples.Hidden, x=5) == [InputFault("x", "5 7"), InputFault("me", "5 7")]

    def test_links_are_none(self) -> None:
        assert faults(samples.Hidden, {"x": "INT"})[0] == InputFault("x", "None 7")

    def test_a_coroutine_function_is_awaited(self) -> None:
        assert asyncio.run(faults(samples.Async, x=1)) == []
        assert asyncio.run(faults(samples.Async, x=9)) == [InputFault("x", "too large")]

    def test_lists_for_a_class_that_takes_lists(self) -> None:
        assert faults(samples.Lists, items=1, factor=2) == []
        assert faults(samples.Lists, items=1, factor=3) == [InputFault("factor", "[3] is not 2")]

    def test_a_function_with_keywords_judges_everything(self) -> None:
        check = define(samples.Judged).check
        assert check is not None
        assert check.judges_types
        assert check.judges("x")
        assert check.judges("anything")
        assert faults(samples.Judged, {"x": "INT"}, y=0) == []

    def test_false_is_a_fault_without_a_reason(self) -> None:
        found = faults(samples.Judged, {"x": "STRING"}, y=0)
        assert found == [InputFault(name, None) for name in ("y", "x", "input_types")]

    def test_only_named_inputs_are_judged(self) -> None:
        check = define(samples.Async).check
        assert check is not None
        assert not check.judges_types
        assert check.judges("x")
        assert not check.judges("y")
