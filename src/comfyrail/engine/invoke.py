"""Call a node's function: give it its inputs, repeat it over lists, and read what it returns."""

from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.engine.cache import CachedResult, Slot, freeze_arrays
from comfyrail.engine.definition import NodeDefinition, NodeResult


def invoke_node(
    definition: NodeDefinition, inputs: Mapping[str, Slot], fixed: Mapping[str, Any]
) -> CachedResult:
    """Run the node once for each item of its longest input; shorter ones repeat their last item.

    A node that takes lists runs once, with all items. `fixed` is given to every call as it is.
    The arrays in the result are read-only.
    """
    results = [
        _read_result(definition, definition.function(**call, **fixed))
        for call in _calls(definition, inputs)
    ]
    slots = tuple(
        _join(results, index, is_list=port.is_list) for index, port in enumerate(definition.outputs)
    )
    freeze_arrays(slots)
    return CachedResult(slots, _join_ui(results))


def _calls(definition: NodeDefinition, inputs: Mapping[str, Slot]) -> list[dict[str, Any]]:
    if definition.takes_lists:
        return [{name: list(values) for name, values in inputs.items()}]
    return _spread_over_lists(inputs)


def _spread_over_lists(inputs: Mapping[str, Slot]) -> list[dict[str, Any]]:
    count = max((len(values) for values in inputs.values()), default=1)
    if any(not values for values in inputs.values()):
        return []
    return [
        {name: values[min(index, len(values) - 1)] for name, values in inputs.items()}
        for index in range(count)
    ]


def _read_result(definition: NodeDefinition, returned: Any) -> NodeResult:
    if isinstance(returned, NodeResult):
        result = returned
    elif isinstance(returned, tuple):
        result = NodeResult(returned)
    else:
        result = NodeResult(() if returned is None and not definition.outputs else (returned,))
    if len(result.outputs) != len(definition.outputs):
        raise TypeError(
            f"{definition.name} returned {len(result.outputs)} outputs, "
            f"its definition has {len(definition.outputs)}."
        )
    return result


def _join(results: Sequence[NodeResult], index: int, *, is_list: bool) -> Slot:
    if is_list:
        return tuple(item for result in results for item in result.outputs[index])
    return tuple(result.outputs[index] for result in results)


def _join_ui(results: Sequence[NodeResult]) -> Mapping[str, Sequence[Any]] | None:
    joined: dict[str, list[Any]] = {}
    shown = [result.ui for result in results if result.ui is not None]
    for ui in shown:
        for key, items in ui.items():
            joined.setdefault(key, []).extend(items)
    return joined if shown else None
