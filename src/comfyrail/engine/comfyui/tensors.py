"""Comfyrail's own nodes among ComfyUI's: they count in NumPy's arrays, the others in tensors."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from comfyrail.engine.comfyui.calling import adapt
from comfyrail.engine.definition import NodeDefinition, NodeResult


def speaking_tensors(definition: NodeDefinition) -> NodeDefinition:
    """The same node type for graphs of tensors: takes them, and gives them.

    Its version differs, so that a shared cache does not mix the two up.
    """
    if definition.instantiate is not None:
        return definition
    return replace(
        definition,
        function=adapt(
            definition.function,
            prepare=lambda inputs: _each(_to_array, dict(inputs)),
            read=_read,
        ),
        version=f"{definition.version}+tensors",
        runs_in="thread",
        batches=None,
    )


def _read(returned: Any) -> Any:
    if isinstance(returned, NodeResult):
        return replace(returned, outputs=_each(_to_tensor, returned.outputs))
    return _each(_to_tensor, returned)


def _to_array(value: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu()
    # NumPy has no such numbers.
    array = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    array.flags.writeable = False
    return array


def _to_tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    torch: Any = importlib.import_module("torch")
    # A tensor may be written to, and an array of the engine's own may be shared.
    return torch.from_numpy(value.copy())


def _each(convert: Callable[[Any], Any], value: Any) -> Any:
    """The value with all in it converted, however deep it lies in lists and mappings."""
    if type(value) is tuple:
        return tuple(_each(convert, item) for item in value)
    if type(value) is list:
        return [_each(convert, item) for item in value]
    if type(value) is dict:
        return {key: _each(convert, item) for key, item in value.items()}
    return convert(value)
