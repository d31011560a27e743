"""How the functions of a node class are called: by name, with hidden inputs where they belong."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from comfyrail.engine.comfyui.input_types import HIDDEN_PREFIX
from comfyrail.engine.definition import HiddenInput, NodeFunction, NodeInputs

Values = Mapping[str, Any]


def adapt(
    call: Callable[..., Any],
    *,
    prepare: Callable[[Values], Values] = dict,
    read: Callable[[Any], Any] = lambda returned: returned,
) -> NodeFunction:
    """A function that prepares its inputs before the call and reads what comes back.

    It is a coroutine function where `call` is one.
    """
    if inspect.iscoroutinefunction(call):

        async def run_async(**inputs: Any) -> Any:
            return read(await call(**prepare(inputs)))

        return run_async

    def run(**inputs: Any) -> Any:
        return read(call(**prepare(inputs)))

    return run


def travelling(hidden: Mapping[str, HiddenInput]) -> dict[str, HiddenInput]:
    """Hidden inputs under names that no input of a prompt has, as the engine gives them."""
    return {HIDDEN_PREFIX + name: kind for name, kind in hidden.items()}


def split_hidden(inputs: Values) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs of a call without the hidden ones, and these under their own names."""
    plain: dict[str, Any] = {}
    hidden: dict[str, Any] = {}
    for name, value in inputs.items():
        if name.startswith(HIDDEN_PREFIX):
            hidden[name.removeprefix(HIDDEN_PREFIX)] = value
        else:
            plain[name] = value
    return plain, hidden


def hidden_before_running(
    hidden: Mapping[str, HiddenInput], node_id: str
) -> dict[str, dict[str, Any] | str | None]:
    """What hidden inputs are while nothing runs: the id is known, the rest is empty."""
    known: dict[str, dict[str, Any] | str | None] = {"PROMPT": {}, "UNIQUE_ID": node_id}
    return {name: known.get(kind) for name, kind in hidden.items()}


def constants_of(
    inputs: NodeInputs, ports_for: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    """The inputs as they are before anything has run: links are None."""
    known: dict[str, Any] = dict(inputs.literals) | dict.fromkeys(inputs.links)
    ports = ports_for(known)
    return {name: value for name, value in known.items() if name in inputs.links or name in ports}


def as_lists(values: Values, missing: Iterable[str] = ()) -> dict[str, Any]:
    """Each value as the only item of a list, for a class that takes lists."""
    absent = set(missing)
    return {name: (None,) if name in absent else [value] for name, value in values.items()}


def names_needed(answer: Any) -> list[str]:
    """What check_lazy_status answers: anything but a list of names means that nothing is needed."""
    if not isinstance(answer, list):
        return []
    return [name for name in answer if isinstance(name, str)]
