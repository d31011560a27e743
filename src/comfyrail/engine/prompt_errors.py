"""The bodies with which ComfyUI refuses a prompt."""

from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.workflow.catalog import InputPort
from comfyrail.workflow.values import ValueFault

Fault = dict[str, Any]
"""One error in the shape that ComfyUI sends: type, message, details, extra_info."""

LONGEST_SHOWN_LIST = 20


def fault(
    kind: str, message: str, details: str, extra_info: Mapping[str, Any] | None = None
) -> Fault:
    about = dict(extra_info or {})
    return {"type": kind, "message": message, "details": details, "extra_info": about}


def refusal(error: Fault, node_errors: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The whole body of a 400."""
    return {"error": error, "node_errors": dict(node_errors or {})}


def invalid_request(message: str, details: str = "") -> Fault:
    """What ComfyUI answers with a bare 500."""
    return fault("invalid_request", message, details or message)


def no_prompt() -> Fault:
    return fault("no_prompt", "No prompt provided", "No prompt provided")


def missing_class_type(node_id: str) -> Fault:
    message = "Cannot execute because a node is missing the class_type property."
    return fault("invalid_prompt", message, f"Node ID '#{node_id}'")


def unknown_class(node_id: str, class_type: str) -> Fault:
    message = f"Cannot execute because node {class_type} does not exist."
    return fault("invalid_prompt", message, f"Node ID '#{node_id}'")


def no_outputs() -> Fault:
    return fault("prompt_no_outputs", "Prompt has no outputs", "")


def outputs_failed(faults_of_outputs: Sequence[Fault]) -> Fault:
    lines = [f"{each['message']}: {each['details']}" for each in faults_of_outputs]
    return fault(
        "prompt_outputs_failed_validation", "Prompt outputs failed validation", "\n".join(lines)
    )


def cyclic(details: str) -> Fault:
    return fault("prompt_outputs_failed_validation", "Prompt outputs failed validation", details)


def missing_input(name: str, schema: str = "v1") -> Fault:
    """In the newer schema a part of an input is named without what it is a part of."""
    message = "Required input is missing"
    details = name.rpartition(".")[2] if schema == "v3" else name
    return fault("required_input_missing", message, details, {"input_name": name})


def bad_link(port: InputPort, value: object) -> Fault:
    message = "Bad linked input, must be a length-2 list of [node_id, slot_index]"
    return fault("bad_linked_input", message, port.name, {**_about(port), "received_value": value})


def type_mismatch(port: InputPort, received_type: str, link: Sequence[Any]) -> Fault:
    return fault(
        "return_type_mismatch",
        "Return type mismatch between linked nodes",
        f"{port.name}, received_type({received_type}) mismatch input_type({port.type})",
        {**_about(port), "received_type": received_type, "linked_node": link},
    )


def unfit_value(port: InputPort, found: ValueFault) -> Fault:
    """Why a literal does not fit, from the workflow room's judgement."""
    about = {**_about(port), "received_value": found.value}
    if found.kind == "invalid_input_type":
        return fault(
            found.kind,
            f"Failed to convert an input value to a {port.type} value",
            f"{port.name}, {found.value}, {found.message}",
            {**about, "exception_message": found.message},
        )
    if found.kind == "value_not_in_list":
        choices = list(port.choices or ())
        shown = str(choices)
        if len(choices) > LONGEST_SHOWN_LIST:
            shown = f"(list of length {len(choices)})"
            about["input_config"] = None
        return fault(
            found.kind, found.message, f"{port.name}: '{found.value}' not in {shown}", about
        )
    return fault(found.kind, found.message, port.name, about)


def failed_check(name: str, reason: str | None) -> Fault:
    return fault(
        "custom_validation_failed",
        "Custom validation failed for node",
        name if reason is None else f"{name} - {reason}",
        {"input_name": name},
    )


def check_raised(error: Exception, type_name: str) -> Fault:
    return fault(
        "exception_during_validation",
        "Exception when validating node",
        str(error),
        {"exception_type": type_name, "traceback": []},
    )


def inner_check_raised(
    error: Exception, type_name: str, port: InputPort, link: Sequence[Any]
) -> Fault:
    """As `check_raised`, for a node that is not an output; `port` is the one that it feeds."""
    return fault(
        "exception_during_inner_validation",
        "Exception when validating inner node",
        str(error),
        {
            **_about(port),
            "exception_message": str(error),
            "exception_type": type_name,
            "traceback": [],
            "linked_node": link,
        },
    )


def _about(port: InputPort) -> dict[str, Any]:
    kind = port.spec[0] if port.spec else port.type
    options = port.spec[1] if len(port.spec) > 1 else {}
    return {"input_name": port.name, "input_config": [kind, options]}
